/**
 * graphile-worker, tuned as its performance page says: a local queue that is filled 1,000 at a time, completions in batches, bulk adds in
 * one statement. A job is finished when its row is gone.
 */
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import pg from 'pg'
import { expectCount, measurePeer } from './child.mjs'

// graphile logs a line per job; a server in production would not print it either. Errors are kept.
const logger = new Logger(() => (level, message) => {
  if (level === 'error') console.error(message)
})

// With single adds every job notifies; waiting a moment before fetching again leaves the commits to the adders (+ 10 to
// 30 %). The short poll ends the wait for the last jobs. On an idle system both would only cost, so there they are off.
const underSingleAdds = { refetchDelay: { durationMs: 20, threshold: 100 }, pollInterval: 100 }

await measurePeer(async ({ databaseUrl, scenario, ran }) => {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 20 })
  const utils = await makeWorkerUtils({ pgPool: pool, logger })
  await utils.migrate()
  const { refetchDelay, ...polling } = scenario === 'single' ? underSingleAdds : {}
  const preset = {
    worker: {
      ...polling,
      concurrentJobs: 24,
      localQueue: { size: 1_000, ...(refetchDelay && { refetchDelay }) },
      completeJobBatchDelay: 10,
      failJobBatchDelay: 10,
      preparedStatements: true,
    },
  }
  const taskList = { noop: ({ job }) => ran(job) }
  let runner
  const left = async () =>
    Number((await pool.query('select count(*) from graphile_worker._private_jobs')).rows[0].count)
  return {
    pausable: true,
    bulkCallers: 2,
    enqueueMany: async (jobs) => {
      await utils.addJobs(jobs.map((job) => ({ identifier: 'noop', payload: { job } })))
    },
    enqueueOne: async (job) => {
      await utils.addJob('noop', { job })
    },
    startWorker: async () => {
      runner = await run({ pgPool: pool, logger, preset, taskList, noHandleSignals: true })
    },
    stopWorker: async () => {
      await runner.stop()
      runner = undefined
    },
    unfinished: left,
    settle: async () => {
      await pool.query('vacuum analyze')
    },
    verify: async () => expectCount('jobs left', await left(), 0),
    close: async () => {
      await runner?.stop()
      await utils.release()
      await pool.end()
    },
  }
})
