/**
 * DBOS, tuned: one queue that is polled every 5 ms instead of every second, 500 no-op workflows at a time, and in bulk its batch enqueue
 * (the entry point for event receivers). A workflow is finished when its row says SUCCESS. Its worker is stopped by launching it again
 * for an unused queue.
 */
import { randomUUID } from 'node:crypto'
import { DBOS } from '@dbos-inc/dbos-sdk'
import { enqueueWorkflows, prepareEnqueuedWorkflow } from '@dbos-inc/dbos-sdk/eventreceiver'
import pg from 'pg'
import { expectCount, measurePeer } from './child.mjs'

const queueName = 'noop'
const limits = { minPollingIntervalMs: 5, workerConcurrency: 500, onConflict: 'always_update' }

await measurePeer(async ({ databaseUrl, ran }) => {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 })
  const noop = DBOS.registerWorkflow(async (job) => ran(job), { name: 'noop' })
  const launch = async (heard) => {
    DBOS.setConfig({
      name: 'bench',
      systemDatabaseUrl: databaseUrl,
      systemDatabasePoolSize: 20,
      logLevel: 'error',
      listenQueues: [heard],
    })
    await DBOS.launch()
  }
  const relaunch = async (heard) => {
    await DBOS.shutdown()
    await launch(heard)
  }
  await launch(queueName)
  await DBOS.registerQueue(queueName, limits)
  const count = async (status) => {
    const found = await pool.query(`select count(*) from dbos.workflow_status where status ${status}`)
    return Number(found.rows[0].count)
  }
  return {
    pausable: true,
    bulkCallers: 1,
    enqueueMany: async (jobs) => {
      const rows = jobs.map((job) => prepareEnqueuedWorkflow(noop, [job], { workflowID: randomUUID(), queueName }))
      await enqueueWorkflows(await Promise.all(rows))
    },
    enqueueOne: async (job) => {
      await DBOS.startWorkflow(noop, { queueName })(job)
    },
    startWorker: () => relaunch(queueName),
    stopWorker: () => relaunch('unused'),
    unfinished: () => count(`<> 'SUCCESS'`),
    settle: async () => {
      await pool.query('vacuum analyze')
    },
    verify: async (total) => expectCount('successful workflows', await count(`= 'SUCCESS'`), total),
    close: async () => {
      await DBOS.shutdown()
      await pool.end()
    },
  }
})
