/**
 * One simulated run: empty the world, let the scenario spawn its fibres, then step them one at a time until the work is done or something is
 * found. All choices come from the seed, the schedule and the plan, so the same three give the same trace. Time passes only when no fibre
 * can run, or by plan. The run ends at its first finding, or when every fibre except the daemons has returned or died.
 */
import { createHash } from 'node:crypto'
import type { Clock, Random } from '@bellwether/base'
import type { Queryable } from '../../src/ports/database/database.js'
import { uuidv7, type Ids } from '../../src/ports/ids.js'
import { SimulatedBell } from './bell.js'
import { Fibres, type Body, type SpawnOptions } from './fibres.js'
import { FaultBook, type Hit } from './faults.js'
import { virtualClock } from './fibre.js'
import { broken, type Finding, type Invariant } from './finding.js'
import { noFaults, type Plan } from './plan.js'
import { prng } from './prng.js'
import { replay, strategyOf, type Strategy } from './strategy.js'
import type { Option, Strand } from './strand.js'
import { VirtualTime } from './time.js'
import type { World } from './world.js'

export interface Stage {
  /** Without yields and faults: for preparing rows. */
  readonly db: Queryable
  readonly clock: Omit<Clock, 'sleep'>
  readonly ids: Ids
  readonly random: Random
  /** Can also be called inside a fibre. Names must be unique. */
  readonly spawn: (name: string, body: Body, options?: SpawnOptions) => void
}

export type Scenario = (stage: Stage) => Promise<void> | void

export interface RunOptions {
  readonly seed: number
  /** Replaces the seed's strategy; a list of numbers is replayed. Ids and bell faults still come from the seed. */
  readonly schedule?: Strategy | readonly number[]
  readonly plan?: Plan
  /** Checked after every COMMIT and at the end. */
  readonly always?: readonly Invariant[]
  /** Checked at the end of a run that found nothing. */
  readonly atEnd?: readonly Invariant[]
  /** A run that does not end within this many steps is a finding. */
  readonly maxSteps?: number
}

export interface Outcome {
  readonly finding: Finding | undefined
  /** `fibre:label` for each step, and lines with `!` for events of fibres and time. */
  readonly trace: readonly string[]
  readonly hash: string
  readonly steps: number
  /** How many yields each fibre had. */
  readonly yields: ReadonlyMap<string, number>
  readonly simulatedMs: number
}

// Scenarios take hundreds of steps; this many means that a fibre loops.
const defaultMaxSteps = 20_000

export async function run(world: World, scenario: Scenario, options: RunOptions): Promise<Outcome> {
  const { seed, plan = noFaults, always = [], atEnd = [], schedule = strategyOf(seed) } = options
  const random = prng(seed).fork('world')
  const time = new VirtualTime()
  const faults = new FaultBook(plan)
  const ids = uuidv7(virtualClock(time), random.fork('ids'))
  const bell = new SimulatedBell(random.fork('bell'), () => (faults.calm ? undefined : plan.bell))
  const fibres = new Fibres({ control: world.control, time, bell, ids, random })
  const choose = typeof schedule === 'function' ? schedule : replay(schedule)
  const maxSteps = options.maxSteps ?? defaultMaxSteps
  await world.reset(time.wallUs)
  let steps = 0
  try {
    await scenario({
      db: world.db,
      clock: virtualClock(time),
      ids,
      random: random.fork('stage'),
      spawn: (name, body, how) => fibres.spawn(name, body, how),
    })
    await fibres.settle()
    steps = await stepUntilDone({ world, fibres, time, faults, choose, always, maxSteps })
  } finally {
    await fibres.leave()
  }
  fibres.finding ??= await broken(world.db, [...always, ...atEnd])
  return {
    finding: fibres.finding,
    trace: fibres.trace,
    hash: createHash('sha256').update(fibres.trace.join('\n')).digest('hex').slice(0, 16),
    steps,
    yields: new Map(fibres.strands.map(({ name, arrivals }) => [name, arrivals])),
    simulatedMs: time.monotonicUs / 1000,
  }
}

interface Course {
  readonly world: World
  readonly fibres: Fibres
  readonly time: VirtualTime
  readonly faults: FaultBook
  readonly choose: Strategy
  readonly always: readonly Invariant[]
  readonly maxSteps: number
}

async function stepUntilDone(course: Course): Promise<number> {
  const { world, fibres, time, faults, choose, always, maxSteps } = course
  let step = 0
  while (fibres.finding === undefined && fibres.busy) {
    faults.step = step
    const chosen = pick(enabled(fibres, time, step), choose, step)
    const hits = faults.due(fibres.strands, chosen?.strand)
    for (const hit of hits) await strike(course, hit)
    if (hits.length > 0) continue
    if (chosen !== undefined) {
      await fibres.step(chosen.strand, chosen.option)
      if (chosen.option.label === 'commit') fibres.finding ??= await broken(world.db, always)
    } else {
      const atUs = nextTimer(fibres, time)
      if (atUs === undefined) fibres.finding ??= { kind: 'stuck', fibres: fibres.alive.map(({ name }) => name) }
      else await passTime(course, 'pass', atUs - time.monotonicUs)
    }
    // Waiting counts too: time could pass without end for a client that gets no answer.
    step += 1
    if (step >= maxSteps) fibres.finding ??= { kind: 'endless', steps: step }
  }
  return step
}

interface Move {
  readonly strand: Strand
  readonly option: Option
}

function enabled(fibres: Fibres, time: VirtualTime, step: number): Move[] {
  const all = fibres.alive.flatMap((strand) => strand.options().map((option) => ({ strand, option })))
  const prompt = all.filter(({ strand }) => strand.slowUntil <= step)
  // While a fibre is slow, time passes for sleeping fibres; when none sleeps, the slow fibre continues.
  return prompt.length > 0 || nextTimer(fibres, time) !== undefined ? prompt : all
}

function pick(moves: readonly Move[], choose: Strategy, step: number): Move | undefined {
  if (moves.length === 0) return undefined
  return moves[
    choose(
      moves.map(({ strand, option }) => ({ fibre: strand.name, label: option.label })),
      step,
    )
  ]
}

function nextTimer(fibres: Fibres, time: VirtualTime): number | undefined {
  const later = fibres.alive
    .flatMap(({ timers }) => timers.map(({ atUs }) => atUs))
    .filter((atUs) => atUs > time.monotonicUs)
  return later.length === 0 ? undefined : Math.min(...later)
}

async function strike(course: Course, { strand, fault }: Hit): Promise<void> {
  if (fault.kind === 'crash' && strand.alive) await course.fibres.crash(strand)
  else if (fault.kind === 'clock-jump') await passTime(course, 'jump', fault.ms * 1000)
  else if (fault.kind === 'time-passes') await passTime(course, 'pass', fault.ms * 1000)
  else course.fibres.trace.push(`! ${strand.name} is to be hit by ${fault.kind}`)
}

async function passTime({ world, fibres, time }: Course, how: 'pass' | 'jump', us: number): Promise<void> {
  time[how](us)
  fibres.trace.push(`! time ${how === 'pass' ? 'passes' : 'jumps'} ${us / 1000} ms`)
  await world.db.query({ name: 'sim-clock', text: `select setval('sim.clock', $1)`, values: [time.wallUs] })
}
