import { expect, it, onTestFinished } from 'vitest'
import { startFleet } from '../support/processes/fleet.js'
import { startLoad } from '../support/processes/load.js'
import { freshDatabase } from '../support/postgres.js'
import { until } from '../support/until.js'

it('finishes running turns when a worker stops, and keeps sending beats for them until then', async () => {
  const database = await freshDatabase()
  onTestFinished(() => database.drop())
  const load = await startLoad({ url: database.url })
  onTestFinished(() => load.stop())
  // So long that a busy machine alone causes no takeover.
  const fleet = await startFleet({
    url: database.url,
    workers: 2,
    pmos: 1,
    timings: { WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '120' },
  })
  onTestFinished(() => fleet.stop())
  await load.progress(40)

  for (const _round of [1, 2]) {
    const { worker: leaving, turnId } = await fleet.holdSlowTurn(load)
    const workerId = (await leaving.ready())['worker_id']
    leaving.signal('SIGTERM')
    await until('it drains', async () => leaving.stderr().includes('shutting down') || undefined)
    for (const _beat of [1, 2]) {
      const text =
        "select processed_at::text as at from state.agent_inbox where agent_turn_id = $1 and message_type = 'turn'"
      const { at } = await load.sees('the last beat of the turn', text, turnId)
      await load.sees('the next beat', `${text} and processed_at > $2::text::timestamptz`, turnId, at)
    }
    await fleet.release()
    expect(await leaving.ended).toBe(0)
    expect(
      await load.kernel.db.query({
        text: 'select 1 from state.turns where claimed_by = $1 and status = $2',
        values: [workerId, 'running'],
      }),
    ).toEqual([])
    const turn = await load.sees(
      'its turn',
      'select claimed_by, outcome from state.turns where agent_turn_id = $1',
      turnId,
    )
    expect(turn).toEqual({ claimed_by: workerId, outcome: 'success' })
    await fleet.add('worker')
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
