/** Agents of the process tests: plain turns, turns with tools, and slow turns. Each records one note per epoch, which tests count. */
import { systemClock } from '@bellwether/base'
import type { AgentFunction, TurnContext } from '../../src/worker/agent.js'
import { defineAgents } from '../../src/worker/agents.js'

const note = (turn: TurnContext) =>
  turn.record({
    cards: [
      {
        type: 'agent.thought',
        content: { epoch: turn.turn.turnEpoch },
        metadata: { agent_turn_id: turn.turn.agentTurnId, epoch: turn.turn.turnEpoch },
      },
    ],
  })

const plain: AgentFunction = async (turn) => {
  await systemClock.sleep(20, turn.signal)
  await note(turn)
  return { deliver: { text: `by ${process.pid}` } }
}

const asking: AgentFunction = async (turn) => {
  if (turn.results.length === 0) {
    const calls = ['a', 'b'].map((args) => ({ toolCallId: turn.newId(), toolName: 'echo', args, idempotent: true }))
    return { suspend: { calls } }
  }
  await note(turn)
  return {
    deliver: { text: turn.results.map((result) => `${result.status} ${JSON.stringify(result.result)}`).join(', ') },
  }
}

const slow: AgentFunction = async (turn) => {
  await systemClock.sleep(1_500, turn.signal)
  return plain(turn)
}

/** Throws where no caller can catch it, and never ends. */
const throwing: AgentFunction = (turn) =>
  new Promise(() => {
    if (turn.turn.agentId.endsWith('rejection')) void Promise.reject(new Error('rejected without a caller'))
    else
      setTimeout(() => {
        throw new Error('thrown in a timer')
      }, 10)
  })

/** By the first part of the agent's id. */
const kinds: Readonly<Record<string, AgentFunction>> = { plain, asking, slow, throwing }

export default defineAgents({
  '*': (turn) => {
    const run = kinds[turn.turn.agentId.split('-')[0] ?? '']
    if (run === undefined) throw new Error(`unknown kind of agent: ${turn.turn.agentId}`)
    return run(turn)
  },
})
