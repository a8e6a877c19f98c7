/**
 * Fork-join: one turn forks a child turn per word and waits for all of them. The kernel counts the children and answers the
 * parent once, also if a child fails or a process dies.
 */
import { open } from 'bellwether'

const bw = await open(process.env.DATABASE_URL ?? { embedded: '.bellwether/examples' })
const counters = ['counter-1', 'counter-2', 'counter-3']
for (const name of counters) await bw.agents.define(name, (turn) => String(turn.instruction.length))
await bw.agents.define('lead', (turn) => {
  const [joined] = turn.results
  if (joined !== undefined) return `${joined.status}: ${JSON.stringify(joined.result)}`
  const words = turn.instruction.split(' ')
  const tasks = words.map((instruction, at) => ({ targetStrategy: 'reuse', targetRef: counters[at], instruction }))
  return { suspend: { calls: [{ toolCallId: turn.newId(), toolName: 'fork_join', args: {}, batch: { tasks } }] } }
})
await bw.worker()

console.log((await bw.turns.run('lead', 'one three seventeen')).text)
await bw.close()
