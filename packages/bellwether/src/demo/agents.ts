/**
 * The demo's agents: plain functions, loaded by its workers like anybody's agents file. Each is called again from the cards
 * after a wait or a crash, so each asks first what is already done.
 */
import { systemClock } from '../ports/clock.js'
import { systemRandom } from '../ports/random.js'
import type { AgentFunction, TurnContext } from '../worker/agent.js'
import { defineAgents } from '../worker/agents.js'
import { cast, laps, tools } from './cast.js'

const between = (fromMs: number, toMs: number) => fromMs + systemRandom.next() * (toMs - fromMs)
const lapMs = 600
const nightMs = 55_000

/** Thinks for a moment, notes a thought, delivers. */
const writer: AgentFunction = async (turn) => {
  await turn.activity('thinking')
  await systemClock.sleep(between(200, 1_200), turn.signal)
  await turn.record({
    cards: [{ type: 'agent.thought', content: { text: 'Short sentences first.' }, metadata: mine(turn) }],
  })
  return { deliver: { text: 'A paragraph.' } }
}

/** Asks two questions at once, sleeps outside any process until both are answered, then delivers. */
const researcher: AgentFunction = async (turn) => {
  if (turn.results.length > 0) {
    const found = turn.results.filter((result) => result.status === 'success').length
    return { deliver: { text: `${found} of ${turn.results.length} questions answered.` } }
  }
  const ask = (question: string) => ({
    toolCallId: turn.newId(),
    toolName: tools.lookUp,
    args: { question },
    idempotent: true,
  })
  return { suspend: { calls: [ask('who'), ask('when')] } }
}

/** Its tool never answers: the watchdog does, and the turn ends all the same. */
const pigeonKeeper: AgentFunction = async (turn) => {
  const [result] = turn.results
  if (result === undefined)
    return { suspend: { calls: [{ toolCallId: turn.newId(), toolName: tools.pigeonPost, args: { to: 'Reuter' } }] } }
  return { deliver: { text: `The pigeon: ${result.error?.code ?? result.status}. Nothing was sent twice.` } }
}

/** Writes each lap down; whoever takes the turn over goes on from the last lap that stands in the box. */
const marathon: AgentFunction = async (turn) => {
  const { output } = await turn.hydrate()
  const run = output.filter(
    (card) => card.type === 'agent.thought' && card.metadata['agent_turn_id'] === turn.turn.agentTurnId,
  ).length
  for (let lap = run + 1; lap <= laps; lap += 1) {
    await systemClock.sleep(lapMs, turn.signal)
    await turn.record({
      cards: [{ type: 'agent.thought', content: { lap, epoch: turn.turn.turnEpoch }, metadata: mine(turn) }],
    })
  }
  return { deliver: { text: `${laps} laps; this worker ran from lap ${run + 1}.` } }
}

/** Sleeps until someone stops it. */
const sleeper: AgentFunction = async (turn) => {
  await systemClock.sleep(nightMs, turn.signal)
  return { deliver: { text: 'Nobody woke me.' } }
}

const mine = (turn: TurnContext) => ({ agent_turn_id: turn.turn.agentTurnId })
const each = (names: readonly string[], run: AgentFunction) => Object.fromEntries(names.map((name) => [name, run]))

export default defineAgents({
  ...each(cast.writers, writer),
  ...each(cast.researchers, researcher),
  [cast.pigeonKeeper]: pigeonKeeper,
  [cast.marathon]: marathon,
  [cast.sleeper]: sleeper,
})
