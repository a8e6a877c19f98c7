import { expect, it, onTestFinished } from 'vitest'
import { startFleet } from '../support/processes/fleet.js'
import { startLoad } from '../support/processes/load.js'
import { freshDatabase } from '../support/postgres.js'

it('finishes running turns when a worker stops, without a takeover', async () => {
  const database = await freshDatabase()
  onTestFinished(() => database.drop())
  const load = await startLoad({ url: database.url })
  onTestFinished(() => load.stop())
  // A slow turn takes longer than this timeout, so it survives the drain only if the worker keeps sending beats.
  const fleet = await startFleet({
    url: database.url,
    workers: 2,
    pmos: 1,
    timings: { WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '1' },
  })
  onTestFinished(() => fleet.stop())
  await load.progress(40)

  for (const _round of [1, 2]) {
    const leaving = await fleet.slowWorker(load)
    const workerId = (await leaving.ready())['worker_id']
    leaving.signal('SIGTERM')
    await fleet.add('worker')
    expect(await leaving.ended).toBe(0)
    expect(
      await load.kernel.db.query({
        text: 'select 1 from state.turns where claimed_by = $1 and status = $2',
        values: [workerId, 'running'],
      }),
    ).toEqual([])
    await load.progress(40)
  }
  const pmo = fleet.pmos[0]!
  pmo.signal('SIGTERM')
  expect(await pmo.ended).toBe(0)
  await fleet.add('pmo')

  const audit = await load.settle()
  expect(audit).toMatchObject({
    stuck: [],
    lost: [],
    outcomes: { success: audit.turns },
    taskEvents: audit.turns,
    takenOver: 0,
  })
})
