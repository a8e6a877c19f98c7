/**
 * Agents of the process tests, in JavaScript, so that the built program can load them: plain turns, slow turns, turns with tools, turns
 * with children, and turns that throw. Each records one note per epoch, which tests count. A slow turn does not end while the file
 * FLEET_HOLD exists, so that a test can kill or freeze its worker in the middle of it, however long the test needs. It reports that it is
 * held with a file, whose name has the content of FLEET_HOLD and the turn's id.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const note = (turn) =>
  turn.record({
    cards: [
      {
        type: 'agent.thought',
        content: { epoch: turn.turn.turnEpoch },
        metadata: { agent_turn_id: turn.turn.agentTurnId, epoch: turn.turn.turnEpoch },
      },
    ],
  })

const plain = async (turn) => {
  await sleep(20, undefined, { signal: turn.signal })
  await note(turn)
  return { deliver: { text: `by ${process.pid}` } }
}

const slow = async (turn) => {
  await sleep(1_500, undefined, { signal: turn.signal })
  const file = process.env['FLEET_HOLD'] ?? ''
  const holdId = () => (existsSync(file) ? readFileSync(file, 'utf8') : '')
  for (let id = holdId(); id !== ''; id = holdId()) {
    writeFileSync(`${file}.${id}.${turn.turn.agentTurnId}`, '')
    await sleep(20, undefined, { signal: turn.signal })
  }
  return plain(turn)
}

const asking = async (turn) => {
  if (turn.results.length > 0) {
    await note(turn)
    const texts = turn.results.map(({ status, result }) => `${status} ${JSON.stringify(result)}`)
    return { deliver: { text: texts.join(', ') } }
  }
  const calls = [1, 2].map((n) => ({ toolCallId: turn.newId(), toolName: 'echo', args: { n }, idempotent: true }))
  return { suspend: { calls } }
}

/** Forks two children on the other target and resumes when both have ended. */
const forking = async (turn) => {
  if (turn.results.length > 0) {
    await note(turn)
    return { deliver: { text: turn.results[0].status } }
  }
  const tasks = ['child-0', 'child-1'].map((targetRef) => ({ targetStrategy: 'reuse', targetRef, instruction: 'go' }))
  return { suspend: { calls: [{ toolCallId: turn.newId(), toolName: 'fork_join', args: {}, batch: { tasks } }] } }
}

/** Throws where no caller can catch it, and never ends. */
const throwing = (turn) =>
  new Promise(() => {
    if (turn.turn.agentId.endsWith('rejection')) void Promise.reject(new Error('rejected without a caller'))
    else
      setTimeout(() => {
        throw new Error('thrown in a timer')
      }, 10)
  })

/** By the first part of the agent's id. */
const kinds = { plain, child: plain, asking, forking, slow, throwing }

export default {
  '*': (turn) => {
    const kind = turn.turn.agentId.split('-')[0]
    if (kinds[kind] === undefined) throw new Error(`unknown kind of agent: ${turn.turn.agentId}`)
    return kinds[kind](turn)
  },
}
