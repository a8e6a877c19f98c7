/** Scratch: CPU of each part of a fork, backend and node, in ms a round. */
import { readFileSync } from 'node:fs'
import { ownCluster } from '../sim/cluster.js'
import { openKernel } from '../src/kernel/kernel.js'
import { suspend } from '../src/kernel/suspend.js'
import { batchIdOfCall, dispatchTasks } from '../src/kernel/fork.js'
import { migrate } from '../src/kernel/schema/migrate.js'
import { openJoiner } from '../src/pmo/batches.js'
import { systemClock } from '../src/ports/clock.js'
import { openDatabase } from '../src/ports/database/pool.js'
import { uuidv7 } from '../src/ports/ids.js'
import { systemRandom } from '../src/ports/random.js'

const rounds = Number(process.argv[2] ?? 10)
const strategy = (process.argv[3] ?? 'reuse') as 'reuse' | 'new'
const cluster = await ownCluster({ fsync: 'off', synchronous_commit: 'off', shared_buffers: '256MB', max_wal_size: '4GB', track_functions: 'pl' })
const url = await cluster.database()
const db = await openDatabase({ url, poolSize: 1 })
await migrate(db)
const [{ pid }] = (await db.query<{ pid: number }>({ text: 'select pg_backend_pid() as pid' })) as [{ pid: number }]
const bell = { kind: 'notify' as const, ring: async () => {}, listen: async () => ({ stop: async () => {} }), close: async () => {} }
const ids = uuidv7(systemClock, systemRandom)
const kernel = openKernel({ db, bell, ids })
const n = 1000
const names = Array.from({ length: n }, (_, at) => `a${at}`)
await kernel.putProfile({ projectId: 'b', profileId: 'child', name: 'child', workerTarget: 'w' })
await kernel.putAgents(['boss', ...names].map((agentId) => ({ projectId: 'b', agentId, workerTarget: 'w' })))
const backend = () => {
  const stat = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')
  return Number(stat[0]) / 1e6
}
const node = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
const sums = new Map<string, [number, number]>()
let counting = false
async function part<T>(name: string, run: () => Promise<T>): Promise<T> {
  const [b, m] = [backend(), node()]
  const answer = await run()
  if (counting) {
    const sum = sums.get(name) ?? [0, 0]
    sums.set(name, [sum[0] + backend() - b, sum[1] + node() - m])
  }
  return answer
}
const claim = async () => (await kernel.claim({ workerTarget: 'w', workerId: 'x', max: 1000, resumeLeaseSeconds: 30 })).turns
const deliverAll = (turns: Awaited<ReturnType<typeof claim>>) =>
  Promise.all(turns.map((turn) => kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })))
const joiner = openJoiner({ kernel })
for (let round = 0; round < rounds + 3; round += 1) {
  if (round === 3) {
    counting = true
    await db.query({ text: 'vacuum (analyze)' })
    await db.query({ text: 'select pg_stat_reset()' })
  }
  const turns = names.map((agentId) => ({ projectId: 'b', agentId, instruction: 'do it' }))
  await part('plain enqueue', async () => {
    await kernel.enqueueMany(turns.slice(0, 500))
    await kernel.enqueueMany(turns.slice(500))
  })
  const plain = await part('plain claim', claim)
  await part('plain deliver', () => deliverAll(plain))

  await kernel.enqueue({ projectId: 'b', agentId: 'boss', instruction: 'x' })
  const [boss] = await claim()
  const tasks = names.map((name) => ({ targetStrategy: strategy, targetRef: strategy === 'new' ? 'child' : name, instruction: 'do it' }))
  const toolCallId = ids.next()
  const calls = [{ toolCallId, toolName: 'fork_join', args: {}, batch: { tasks } }]
  await part('fork suspend', () => suspend(db, ids, { ...boss!, stepId: ids.next(), calls }, 30))
  await part('fork dispatch', () => dispatchTasks(db, batchIdOfCall('b', toolCallId), [...Array(n).keys()]))
  const children = await part('fork claim', claim)
  await part('fork deliver', () => deliverAll(children))
  await db.query({ text: `update state.batches set next_look_at = state.now(), next_full_look_at = null where settled_at is null` })
  await part('fork collect+answer', () => joiner.step())
  const [again] = await part('resume claim', claim)
  const results = await part('resume read', () => kernel.readResults(again!.agentTurnId))
  await part('resume', () => kernel.resume(again!, 'x', results[0]!.step_id))
  await part('resume deliver', () => deliverAll([again!]))
  await db.query({ text: `update state.batches set next_look_at = state.now(), next_full_look_at = null where settled_at is null` })
  await part('settle', () => joiner.step())
}
let [plainSum, forkSum] = [0, 0]
for (const [name, [b, m]] of sums) {
  if (name.startsWith('plain')) plainSum += b + m
  else forkSum += b + m
  console.log(name.padEnd(22), (b / rounds).toFixed(1).padStart(8), (m / rounds).toFixed(1).padStart(8))
}
console.log('cpu ratio', (forkSum / plainSum).toFixed(2), (plainSum / rounds).toFixed(0), (forkSum / rounds).toFixed(0))
await db.query({ text: 'select pg_stat_force_next_flush()' })
for (const row of await db.query<Record<string, unknown>>({ text: 'select funcname, calls, round((self_time/'+rounds+')::numeric,1) as self, round((total_time/'+rounds+')::numeric,1) as total from pg_stat_user_functions order by self_time desc limit 14' }))
  console.log(Object.values(row).join('  '))
await db.close()
await cluster.remove()
