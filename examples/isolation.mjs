/**
 * An agent in a thread of its own, with a memory limit: it exceeds the limit, only its own turn fails, and the agent beside it in the
 * same worker is not affected. The thread loads this file and calls its default export.
 */
import { isMainThread } from 'node:worker_threads'

export default function greedy() {
  for (const all = []; ;) all.push(Array.from({ length: 1_000 }, Math.random))
}

if (isMainThread) {
  const bellwether = await import('bellwether')
  const bw = await bellwether.open(process.env.DATABASE_URL ?? { embedded: '.bellwether/examples' })
  await bw.agents.define('greedy', { module: import.meta.url, isolation: 'thread', memoryMaxMb: 64 })
  await bw.agents.define('steady', (turn) => `Still here: ${turn.instruction}`)
  await bw.worker()

  const failed = await bw.turns.run('greedy', 'use all memory').catch((error) => error)
  console.log(failed.turn.error)
  console.log((await bw.turns.run('steady', 'good morning')).text)
  await bw.close()
}
