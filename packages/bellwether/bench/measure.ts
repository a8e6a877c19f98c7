/**
 * Runs the three scenarios of the turns bench on any contender, ours or a peer, through one small interface. It returns a figure only if
 * every job ran and the contender's own store shows none left, and every wait is bounded. peers/*.mjs and ours.ts are the contenders;
 * turns.ts chooses the figures to compare.
 */
import { openCostMeter, type CostMeter, type Figures } from './cost.js'

export interface Contender {
  /** Whether its worker can be stopped and started; without that, filling and draining are measured together. */
  readonly pausable: boolean
  /** How many bulk calls are in flight at once: whatever makes this contender fast. */
  readonly bulkCallers: number
  /** Durably enqueues these jobs, in the cheapest way that the contender has. Resolves when they are safe. */
  enqueueMany(jobs: readonly number[]): Promise<void>
  /** Durably enqueues one job with one call. */
  enqueueOne(job: number): Promise<void>
  startWorker(): Promise<void>
  /** Resolves when the worker holds no job; a stopped worker can be started again. */
  stopWorker(): Promise<void>
  /** Jobs that the store does not yet show as finished. */
  unfinished(): Promise<number>
  /** Between passes: fresh statistics, as autovacuum gives them to a system that has been up for a while. */
  settle(): Promise<void>
  /** Throws unless the store shows that exactly `total` jobs were finished since the start, as far as it keeps them. */
  verify(total: number): Promise<void>
  close(): Promise<void>
}

export type Scenario = 'bulk' | 'single' | 'idle'

const batchSize = 500
const singleCallers = 16
const warmUpJobs = 2_000 // enough for V8 and for the statistics, about two seconds for the slowest peer
const warmUpTrips = 20
const passAimMs = 5_000 // a slow contender is measured on fewer jobs rather than for longer
const passMaxMs = 12_000 // more than twice the aim: the machine may be busy with others
const scenarioMaxMs = 30_000

/** Records which jobs have run; `all` resolves when every issued job has. */
export class Ledger {
  readonly #ran = new Set<number>()
  #waiting: { upTo: number; resolve: () => void }[] = []
  #next = 0

  get issued(): number {
    return this.#next
  }

  issue(count: number): number[] {
    const first = this.#next
    this.#next += count
    return Array.from({ length: count }, (_, at) => first + at)
  }

  ran = (job: number): void => {
    this.#ran.add(job)
    if (!this.#waiting.some((one) => this.#ran.size >= one.upTo)) return
    for (const one of this.#waiting) if (this.#ran.size >= one.upTo) one.resolve()
    this.#waiting = this.#waiting.filter((one) => this.#ran.size < one.upTo)
  }

  /** Every job issued so far has run at least once. */
  all(): Promise<void> {
    if (this.#ran.size >= this.#next) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push({ upTo: this.#next, resolve }))
  }
}

export function percentile(sorted: readonly number[], share: number): number {
  const value = sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)]
  if (value === undefined) throw new Error('a percentile needs at least one value')
  return value
}

export async function within<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

interface Course {
  readonly contender: Contender
  readonly ledger: Ledger
  readonly meter: CostMeter
}

/** Opens a contender, runs the scenario and closes the contender; row versions are counted over everything that it ran. */
export async function measure(
  scenario: Scenario,
  databaseUrl: string,
  open: (ledger: Ledger) => Promise<Contender>,
  n: number,
  maxMs = scenarioMaxMs,
): Promise<Figures> {
  const ledger = new Ledger()
  const contender = await open(ledger)
  const meter = await openCostMeter(databaseUrl)
  try {
    let figures: Figures
    try {
      const course = { contender, ledger, meter }
      figures = await within(maxMs, `the ${scenario} scenario`, measured(scenario, course, n))
    } finally {
      await contender.close()
    }
    return { ...figures, ...(await meter.rowVersions(ledger.issued)) }
  } finally {
    await meter.close()
  }
}

async function measured(scenario: Scenario, { contender, ledger, meter }: Course, n: number): Promise<Figures> {
  await contender.startWorker()
  const warming = performance.now()
  await enqueueAll(contender, ledger, warmUpJobs, 'bulk')
  await drained(contender, ledger)
  const affordable = Math.ceil((warmUpJobs * passAimMs) / (performance.now() - warming))
  await contender.settle()
  const figures = await run[scenario]({ contender, ledger, meter }, scenario === 'bulk' ? Math.min(n, affordable) : n)
  await contender.verify(ledger.issued)
  return figures
}

const run = { bulk, single, idle }

/** Two passes: fill, then drain, for the two rates; and both at the same time. The better total counts. */
async function bulk({ contender, ledger, meter }: Course, n: number): Promise<Figures> {
  const apart = contender.pausable ? await fillThenDrain(contender, ledger, n) : {}
  await contender.settle()
  const costPerJob = await meter.start()
  const starting = performance.now()
  const count = await enqueueAll(contender, ledger, n, 'bulk')
  const enqueueMs = performance.now() - starting
  await drained(contender, ledger)
  const overlapped = perSecond(count, performance.now() - starting)
  return {
    ...(await costPerJob(count)),
    n: count,
    overlapped_per_s: overlapped,
    enqueue_per_s: perSecond(count, enqueueMs),
    ...apart,
    overall_per_s: Math.max(overlapped, apart.phased_per_s ?? 0),
  }
}

async function fillThenDrain(contender: Contender, ledger: Ledger, n: number): Promise<{ [metric: string]: number }> {
  await contender.stopWorker()
  const filling = performance.now()
  const count = await enqueueAll(contender, ledger, n, 'bulk')
  const enqueueMs = performance.now() - filling
  await contender.settle()
  const draining = performance.now()
  await contender.startWorker()
  await drained(contender, ledger)
  const drainMs = performance.now() - draining
  return {
    phased_per_s: perSecond(count, enqueueMs + drainMs),
    enqueue_per_s: perSecond(count, enqueueMs),
    drain_per_s: perSecond(count, drainMs),
  }
}

async function single({ contender, ledger, meter }: Course, n: number): Promise<Figures> {
  const costPerJob = await meter.start()
  const starting = performance.now()
  const count = await enqueueAll(contender, ledger, n, 'single')
  const enqueueMs = performance.now() - starting
  await drained(contender, ledger)
  const overall = perSecond(count, performance.now() - starting)
  return { n: count, overall_per_s: overall, enqueue_per_s: perSecond(count, enqueueMs), ...(await costPerJob(count)) }
}

/** From the call to the handler, on an idle system: each trip starts after the previous one is finished in the store. */
async function idle({ contender, ledger }: Course, n: number): Promise<Figures> {
  const trips: number[] = []
  for (let trip = 0; trip < n + warmUpTrips; trip += 1) {
    await drained(contender, ledger)
    const [job] = ledger.issue(1) as [number]
    const starting = performance.now()
    // The handler may finish before the enqueuing call returns; the later of the two ends the trip.
    await within(passMaxMs, 'a round trip', Promise.all([contender.enqueueOne(job), ledger.all()]))
    if (trip >= warmUpTrips) trips.push(performance.now() - starting)
  }
  await drained(contender, ledger)
  trips.sort((a, b) => a - b)
  return { n: trips.length, p50_ms: rounded(percentile(trips, 0.5)), p95_ms: rounded(percentile(trips, 0.95)) }
}

/** Enqueues with all callers until `n` jobs are enqueued or the time for enqueuing is over. Returns the number of jobs. */
async function enqueueAll(contender: Contender, ledger: Ledger, n: number, how: 'bulk' | 'single'): Promise<number> {
  const step = how === 'bulk' ? batchSize : 1
  const until = performance.now() + passAimMs
  let count = 0
  const call = async () => {
    while (count < n && performance.now() < until) {
      const jobs = ledger.issue(Math.min(step, n - count))
      count += jobs.length
      await (how === 'bulk' ? contender.enqueueMany(jobs) : contender.enqueueOne(jobs[0]!))
    }
  }
  const callers = how === 'bulk' ? contender.bulkCallers : singleCallers
  await within(passMaxMs, 'enqueuing', Promise.all(Array.from({ length: callers }, call)))
  return count
}

/** Waits until the handlers have run and the store shows it. */
async function drained(contender: Contender, ledger: Ledger): Promise<void> {
  await within(passMaxMs, 'draining', ledger.all())
  const until = performance.now() + passMaxMs
  for (let left = await contender.unfinished(); left > 0; left = await contender.unfinished()) {
    if (performance.now() > until) throw new Error(`${left} jobs never finished in the store`)
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
}

function perSecond(count: number, ms: number): number {
  return Math.round((count / ms) * 1_000)
}

function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
