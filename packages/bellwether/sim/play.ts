/**
 * Plays one seed: the number determines a story, a fault plan and a schedule. Faults stop after a while (`calmAfter`): before that nothing may
 * break, afterwards everything must end. A plan with a finding is shrunk to the smallest plan that still has one.
 */
import fc from 'fast-check'
import {
  arbitraryPlan,
  findingText,
  noFaults,
  run,
  type Finding,
  type Outcome,
  type Plan,
  type World,
} from './engine/index.js'
import { stories, type StoryName } from './scenarios.js'
import type { Story } from './story.js'

export interface Found {
  readonly seed: number
  readonly story: StoryName
  readonly finding: string
  /** The name of the invariant, or the kind of the finding. */
  readonly breaks: string
  readonly plan: Plan
  readonly trace: readonly string[]
}

export interface Played {
  readonly found: Found | undefined
  readonly hash: string
  readonly steps: number
}

// Faults happen within the first third of a typical run; the rest shows that it recovers.
const calmAfter = 1_500
export const maxSteps = 40_000
// The end of a trace explains most findings.
const traceShown = 40

/** Mostly the fleet; every third seed plays one of the small stories, in turn. */
export function storyOf(seed: number): StoryName {
  const small = (Object.keys(stories) as StoryName[]).filter((name) => name !== 'fleet')
  return seed % 3 === 0 ? small[(seed / 3) % small.length]! : 'fleet'
}

/** A story that promises that no live turn is ended must not kill an actor. */
const gentle = ['slow', 'clock-jump', 'time-passes'] as const

export async function play(world: World, seed: number, name: StoryName, faults: boolean): Promise<Played> {
  const story: Story = stories[name]
  const mustNotKill = story.atEnd.some((invariant) => invariant.name === 'no live turn is ended or reclaimed')
  const plans = arbitraryPlan({
    fibres: mustNotKill ? story.fibres.filter((fibre) => fibre.startsWith('guard')) : story.fibres,
    yields: story.yields,
    ...(mustNotKill ? { kinds: gentle } : {}),
  })
  let first: Outcome | undefined
  let worst: { outcome: Outcome; plan: Plan } | undefined
  const attempt = async (plan: Plan): Promise<boolean> => {
    const outcome = await run(world, story.scenario, {
      seed,
      plan: { ...plan, calmAfter },
      always: story.always,
      atEnd: story.atEnd,
      maxSteps,
    })
    first ??= outcome
    if (outcome.finding !== undefined) worst = { outcome, plan }
    return outcome.finding === undefined
  }
  if (faults && story.plan !== undefined) {
    await attempt(story.plan(seed))
  } else if (faults) {
    await fc.check(fc.asyncProperty(plans, attempt), {
      seed,
      numRuns: 1,
      maxSkipsPerRun: 0,
      interruptAfterTimeLimit: 120_000,
      markInterruptAsFailure: false,
    })
  } else {
    await attempt(noFaults)
  }
  if (first === undefined) throw new Error(`Seed ${seed} was not played`)
  return { found: worst && foundOf(seed, name, worst), hash: first.hash, steps: first.steps }
}

export function foundOf(seed: number, story: StoryName, { outcome, plan }: { outcome: Outcome; plan: Plan }): Found {
  const finding = outcome.finding!
  return {
    seed,
    story,
    plan,
    finding: findingText(finding),
    breaks: whatBroke(finding),
    trace: outcome.trace.slice(-traceShown),
  }
}

/** The name that a mutation can refer to: an invariant, a database constraint, or the kind of the finding. */
function whatBroke(finding: Finding): string {
  if (finding.kind === 'broken') return finding.invariant
  if (finding.kind !== 'threw') return finding.kind
  const constraint =
    finding.error instanceof Error && 'constraint' in finding.error ? finding.error.constraint : undefined
  return typeof constraint === 'string' ? `constraint ${constraint}` : 'threw'
}
