/**
 * Opens a kernel on a fresh real database, with a bell that records rings and a clock that tests move: `advance(seconds)` shifts
 * `state.now()` for this database only, and the monotonic clock of the watchdogs with it. Between these steps the clock runs at 1 % of
 * real time, so that a busy machine ends no timeout early, and timestamps still differ.
 */
import { type Clock, systemClock, systemRandom } from '@bellwether/base'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { openKernel, type Kernel } from '../../src/kernel/kernel.js'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import type { NewTurn } from '../../src/kernel/verbs/turn/enqueue.js'
import type { Bell, Ring } from '../../src/ports/bell/bell.js'
import type { Database } from '../../src/ports/database/database.js'
import { uuidv7, type Ids } from '../../src/ports/ids.js'
import { kernelDatabase } from './servers/kernel-database.js'
import { silentBell } from './silent-bell.js'

export const project = 'p'
export const target = 'w'

const steppedRate = 0.01

export interface TestKernel {
  readonly url: string
  readonly db: Database
  readonly kernel: Kernel
  readonly ids: Ids
  readonly clock: Clock
  /** Returns the rings since the last call. */
  rings(): Ring[]
  /** Moves `state.now()` and the monotonic clock forward. A negative number moves only the database's clock back. */
  advance(seconds: number): Promise<void>
  /** Adds agents to the project, on the same target. */
  agents(...names: string[]): Promise<void>
  claim(max?: number, workerId?: string): Promise<readonly ClaimedTurn[]>
  /** Enqueues and claims a turn of this agent. */
  running(agentId: string, more?: Partial<NewTurn>): Promise<ClaimedTurn>
  one<Row extends object>(text: string, ...values: unknown[]): Promise<Row>
  all<Row extends object>(text: string, ...values: unknown[]): Promise<Row[]>
  drop(): Promise<void>
}

export interface TestKernelOptions {
  /** `real` for tests with loops or processes of their own, which wait in real time. */
  readonly time?: 'stepped' | 'real'
  /** Its database may have held rows of an earlier test. Only for tests that start no process and measure no plans, pages or WAL. */
  readonly isReused?: boolean
}

/** A kernel for all tests of a file or `describe`. Its members exist from the first `beforeAll` hook on. */
export function kernelPerFile(options?: TestKernelOptions): TestKernel {
  const t = {} as TestKernel
  beforeAll(async () => void Object.assign(t, await testKernel(options)))
  afterAll(() => t.drop())
  return t
}

/** A new kernel for each test. */
export function kernelPerTest(): TestKernel {
  const t = {} as TestKernel
  beforeEach(async () => void Object.assign(t, await testKernel({ isReused: true })))
  afterEach(() => t.drop())
  return t
}

/** Moves the clock of the database to noon (UTC), so that a test that counts per day never reaches the next one. */
export async function moveToNoon(t: TestKernel): Promise<void> {
  const { seconds } = await t.one<{ seconds: number }>(
    "select extract(epoch from date_trunc('day', state.now()) + interval '36 hours' - state.now())::double precision as seconds",
  )
  await t.advance(seconds)
}

export async function testKernel({ time = 'stepped', isReused = false }: TestKernelOptions = {}): Promise<TestKernel> {
  const { url, db, drop } = await kernelDatabase(isReused)
  const rate = time === 'real' ? 1 : steppedRate
  await db.query({
    text: 'update state.test_clock set started_at = clock_timestamp(), rate = $1, offset_seconds = 0',
    values: [rate],
  })
  const startMs = systemClock.monotonicMs()
  let rung: Ring[] = []
  let offsetMs = 0
  const bell: Bell = { ...silentBell, ring: async (rings) => void rung.push(...rings) }
  const ids = uuidv7(systemClock, systemRandom)
  const kernel = openKernel({ db, bell, ids })
  const all = <Row extends object>(text: string, ...values: unknown[]) => db.query<Row>({ text, values })
  const one = async <Row extends object>(text: string, ...values: unknown[]) => {
    const rows = await all<Row>(text, ...values)
    if (rows.length !== 1) throw new Error(`${rows.length} rows instead of one: ${text}`)
    return rows[0]!
  }
  const claim = async (max = 100, workerId = 'worker-1') =>
    (await kernel.claim({ workerTarget: target, workerId, max, resumeLeaseSeconds: 30 })).turns
  return {
    url,
    db,
    kernel,
    ids,
    clock: { ...systemClock, monotonicMs: () => startMs + (systemClock.monotonicMs() - startMs) * rate + offsetMs },
    rings: () => {
      const rings = rung
      rung = []
      return rings
    },
    async advance(seconds) {
      offsetMs += Math.max(0, seconds) * 1_000
      await db.query({ text: 'update state.test_clock set offset_seconds = offset_seconds + $1', values: [seconds] })
    },
    agents: (...names) =>
      kernel.putAgents(names.map((agentId) => ({ projectId: project, agentId, workerTarget: target }))),
    claim,
    async running(agentId, more) {
      await kernel.enqueue({ projectId: project, agentId, instruction: 'do it', ...more })
      const turn = (await claim()).find((one) => one.agentId === agentId)
      if (turn === undefined) throw new Error(`agent ${agentId} was not claimed`)
      return turn
    },
    one,
    all,
    drop,
  }
}
