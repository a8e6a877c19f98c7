/**
 * pg-boss, tuned: bulk inserts of 500, two workers that fetch batches of 500 without pause, LISTEN/NOTIFY on. With one send per call, one
 * notification per row halves the rate, because commits wait for PostgreSQL's notify lock; there the sender wakes the worker in the
 * process instead. A job is finished when its row says completed.
 */
import { PgBoss } from 'pg-boss'
import pg from 'pg'
import { expectCount, measurePeer } from './child.mjs'

const queue = 'noop'

await measurePeer(async ({ databaseUrl, scenario, ran }) => {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 })
  const boss = new PgBoss({ connectionString: databaseUrl, max: 24, schedule: false, useListenNotify: true })
  boss.on('error', (error) => console.error(error))
  await boss.start()
  const notify = scenario !== 'single'
  await boss.createQueue(queue, { notify })
  const fetching = {
    batchSize: 500,
    burstWhenBatchFull: true,
    localConcurrency: notify ? 2 : 1,
    pollingIntervalSeconds: 0.5,
  }
  let worker
  const wake = () => notify || boss.notifyWorker(worker)
  const count = async (states) => {
    const found = await pool.query(`select count(*) from pgboss.job where name = $1 and state ${states}`, [queue])
    return Number(found.rows[0].count)
  }
  return {
    pausable: true,
    bulkCallers: 2,
    enqueueMany: async (jobs) => {
      const rows = jobs.map((job) => ({ data: { job } }))
      await boss.insert(queue, rows)
      wake()
    },
    enqueueOne: async (job) => {
      await boss.send(queue, { job })
      wake()
    },
    startWorker: async () => {
      worker = await boss.work(queue, fetching, async (jobs) => {
        for (const one of jobs) ran(one.data.job)
      })
    },
    stopWorker: () => boss.offWork(queue, { wait: true }),
    unfinished: () => count(`< 'completed'`),
    settle: async () => {
      await pool.query('vacuum analyze')
    },
    verify: async (total) => expectCount('completed jobs', await count(`= 'completed'`), total),
    close: async () => {
      await boss.stop({ graceful: false })
      await pool.end()
    },
  }
})
