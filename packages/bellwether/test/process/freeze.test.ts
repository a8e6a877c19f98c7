import { expect, it, onTestFinished } from 'vitest'
import { readProcess } from '../../src/ports/processes/proc.js'
import { startFleet, type FleetOptions } from '../support/processes/fleet.js'
import { doubledEffects, startLoad, type Load } from '../support/processes/load.js'
import { freshDatabase } from '../support/postgres.js'
import { thorough } from '../support/thorough.js'
import { until } from '../support/until.js'

async function startLoadedFleet(timings: NonNullable<FleetOptions['timings']>) {
  const database = await freshDatabase()
  onTestFinished(() => database.drop())
  const load = await startLoad({ url: database.url })
  onTestFinished(() => load.stop())
  const fleet = await startFleet({ url: database.url, workers: 3, pmos: 2, timings })
  onTestFinished(() => fleet.stop())
  await load.progress(40)
  return { load, fleet }
}

/** Waits by the clock of the database. */
async function seconds(load: Load, many: number): Promise<void> {
  const { at } = await load.sees('the time', 'select (state.now() + make_interval(secs => $1))::text as at', many)
  await load.sees(`${many} s have passed`, 'select 1 where state.now() > $1::text::timestamptz', at)
}

// executors/pause.test.ts freezes a worker with its database in every run.
it.runIf(thorough)('[W2.10] ends no turn after the whole fleet was frozen for longer than every timeout', async () => {
  // Long enough that a busy machine alone does not exceed them.
  const timings = {
    WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '6',
    PMO__ACTIVE_REAP_SECONDS: '7',
    PMO__DISPATCHED_TIMEOUT_SECONDS: '7',
    PMO__SUSPENDED_REAP_SECONDS: '7',
  }
  const { load, fleet } = await startLoadedFleet(timings)
  await fleet.holdSlowTurn(load)
  const processes = [...fleet.workers, ...fleet.pmos]
  for (const one of processes) one.signal('SIGSTOP')
  // 8 s: sixteen watchdog intervals, and more than the 6 s of W2.1 and the 7 s of W2.5 and W2.6.
  await seconds(load, 8)
  await fleet.release()
  for (const one of processes) one.signal('SIGCONT')
  await load.progress(60)

  const audit = await load.settle()
  expect(audit).toMatchObject({
    stuck: [],
    lost: [],
    outcomes: { success: audit.turns },
    taskEvents: audit.turns,
    takenOver: 0,
  })
  expect(audit.interventions).not.toHaveProperty('reap')
  expect(await doubledEffects(load)).toEqual([])
})

it('[W2.1] [T1.2] rejects writes of a worker that was frozen past its timeout', async () => {
  const { load, fleet } = await startLoadedFleet({})
  const { worker: frozen, turnId } = await fleet.holdSlowTurn(load)
  const workerId = (await frozen.ready())['worker_id']
  frozen.signal('SIGSTOP')
  await until('the worker is frozen', async () => readProcess(frozen.pid)?.stopped || undefined)
  await fleet.release()
  const ended = await load.sees(
    'another worker ends its slow turn',
    'select claimed_by, turn_epoch, outcome from state.turns where agent_turn_id = $1 and ended_at is not null',
    turnId,
  )
  expect(ended['claimed_by']).not.toBe(workerId)
  frozen.signal('SIGCONT')
  await load.sees(
    'it works again',
    'select 1 from state.turns where claimed_by = $1 and created_at > (select max(ended_at) from state.turns where agent_turn_id = $2)',
    workerId,
    turnId,
  )

  const audit = await load.settle()
  expect(audit).toMatchObject({ stuck: [], lost: [], outcomes: { success: audit.turns }, taskEvents: audit.turns })
  expect(audit.interventions['reclaim']).toBeGreaterThan(0)
  expect(await doubledEffects(load)).toEqual([])
})
