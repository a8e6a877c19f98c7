import { openDatabase } from '../src/ports/database/pool.js'
import { openKernel } from '../src/kernel/kernel.js'
import { uuidv7 } from '../src/ports/ids.js'
import { systemClock } from '../src/ports/clock.js'
import { systemRandom } from '../src/ports/random.js'
const db = await openDatabase({ url: 'postgres://postgres@127.0.0.1:15499/k' })
const ids = uuidv7(systemClock, systemRandom)
const bell = {
  kind: 'notify' as const,
  ring: async () => {},
  listen: async () => ({ stop: async () => {} }),
  close: async () => {},
}
const k = openKernel({ db, bell, ids })
const A = Number(process.argv[2] ?? 2000),
  N = Number(process.argv[3] ?? 20000),
  B = 500
await k.putAgents(Array.from({ length: A }, (_, i) => ({ projectId: 'p', agentId: `a${i}`, workerTarget: 'w' })))
await db.query({ text: "select state.sign_in('wk','w',500)" })
const { readFileSync, readdirSync } = await import('node:fs')
const cpuOf = () => {
  let t = 0
  for (const d of readdirSync('/proc')) {
    if (!/^\d+$/.test(d)) continue
    try {
      const c = readFileSync(`/proc/${d}/cmdline`, 'utf8')
      if (!c.startsWith('postgres: ') || !c.includes(' k 127')) continue
      const f = readFileSync(`/proc/${d}/stat`, 'utf8').split(') ')[1]!.split(' ')
      t += Number(f[11]) + Number(f[12])
    } catch {
      continue
    }
  }
  return t * 10
}
const cpu0 = cpuOf(),
  n0 = process.cpuUsage()
const t0 = performance.now()
let enq = 0
const wal0 = (await db.query<{ l: string }>({ text: 'select pg_current_wal_lsn()::text l' }))[0]!.l
const enqueueing = (async () => {
  let i = 0
  const lane = async () => {
    while (i < N) {
      const from = i
      i += B
      const r = await k.enqueueMany(
        Array.from({ length: Math.min(B, N - from) }, (_, j) => ({ projectId: 'p', agentId: `a${(from + j) % A}` })),
      )
      enq += r.length
    }
  }
  await Promise.all([lane(), lane()])
})()
if (process.argv[4] === 'seq') await enqueueing
const t1 = performance.now()
let done = 0,
  claims = 0,
  empty = 0
const lane = async (id: string) => {
  while (done < N) {
    const c = await k.claim({ workerTarget: 'w', workerId: id, max: B, resumeLeaseSeconds: 30 })
    claims++
    if (c.turns.length === 0) {
      empty++
      await new Promise((r) => setTimeout(r, 2))
      continue
    }
    const rs = await Promise.all(c.turns.map((t) => k.deliver({ ...t, status: 'success', content: { text: 'ok' } })))
    for (const r of rs) if (r.what === 'ended') done++
  }
}
await Promise.all([lane('wk'), lane('wk2')])
await enqueueing
const t2 = performance.now()
const wal1 = (await db.query<{ l: string }>({ text: 'select pg_current_wal_lsn()::text l' }))[0]!.l
const [{ b }] = (await db.query<{ b: number }>({
  text: 'select pg_wal_lsn_diff($1,$2)::int b',
  values: [wal1, wal0],
})) as [{ b: number }]
const n1 = process.cpuUsage(n0)
console.log({
  pgCpuUsPerTurn: Math.round(((cpuOf() - cpu0) * 1000) / N),
  nodeCpuUsPerTurn: Math.round((n1.user + n1.system) / N),
  enqueue: Math.round(N / ((t1 - t0) / 1000)),
  drain: Math.round(N / ((t2 - t1) / 1000)),
  overall: Math.round(N / ((t2 - t0) / 1000)),
  claims,
  empty,
  walPerTurn: Math.round(b / N),
})
console.log(
  await db.query({
    text: `select (select count(*) from state.agent_inbox where status='consumed') c, (select count(*) from state.events) e, (select count(*) from state.execution_edges) ed, (select count(*) from cards.cards) ca`,
  }),
)
await db.close()
