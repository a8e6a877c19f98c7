/** Agents and a tool of the topology test, in JavaScript, so that the built program can load them. */
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

const plain = async (turn, ms = 20) => {
  await sleep(ms, undefined, { signal: turn.signal })
  await note(turn)
  return { deliver: { text: `by ${process.pid}` } }
}

const asking = async (turn) => {
  if (turn.results.length > 0) {
    await note(turn)
    return { deliver: { text: turn.results.map(({ status }) => status).join(', ') } }
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

/** By the first part of the agent's id. */
const kinds = { plain, child: plain, asking, forking, slow: (turn) => plain(turn, 1_500) }

export default { '*': (turn) => kinds[turn.turn.agentId.split('-')[0]](turn) }

export const tools = [
  {
    name: 'echo',
    description: 'returns its arguments',
    parameters: { type: 'object', properties: { n: { type: 'number' } } },
    idempotent: true,
    run: async (args) => args,
  },
]
