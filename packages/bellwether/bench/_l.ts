import { openDatabase } from '../src/ports/database/pool.js'
import { migrate } from '../src/kernel/schema/migrate.js'
import { openKernel } from '../src/kernel/kernel.js'
import { uuidv7 } from '../src/ports/ids.js'
import { systemClock } from '../src/ports/clock.js'
import { systemRandom } from '../src/ports/random.js'
const db = await openDatabase({ url: 'postgres://postgres@127.0.0.1:15499/b', poolSize: 1 })
await migrate(db)
const bell = {
  kind: 'notify' as const,
  ring: async () => {},
  listen: async () => ({ stop: async () => {} }),
  close: async () => {},
}
const k = openKernel({ db, bell, ids: uuidv7(systemClock, systemRandom) })
await k.putAgents(Array.from({ length: 500 }, (_, i) => ({ projectId: 'p', agentId: `a${i}`, workerTarget: 'w' })))
const t: Record<string, number[]> = {}
const timed = async <T>(n: string, f: () => Promise<T>) => {
  const s = performance.now()
  const r = await f()
  ;(t[n] ??= []).push(performance.now() - s)
  return r
}
for (let i = 0; i < 500; i++) {
  await timed('select1', () => db.query({ name: 'x', text: 'select 1' }))
  await timed('commit', () => db.query({ name: 'y', text: 'update state.limits set max_recursion_depth = 20' }))
  await timed('enqueue', () => k.enqueue({ projectId: 'p', agentId: `a${i}` }))
  const c = await timed('claim', () => k.claim({ workerTarget: 'w', workerId: 'x', max: 10, resumeLeaseSeconds: 30 }))
  await timed('deliver', () => k.deliver({ ...c.turns[0]!, status: 'success', content: { text: 'ok' } }))
}
for (const [n, v] of Object.entries(t)) {
  v.sort((a, b) => a - b)
  console.log(n, v[250]!.toFixed(3), v[475]!.toFixed(3))
}
await db.close()
