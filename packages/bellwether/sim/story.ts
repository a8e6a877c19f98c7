/** What a story is: a scenario, what holds in it, and what may go wrong. */
import type { Invariant, Plan, Scenario } from './engine/index.js'

export interface Story {
  readonly scenario: Scenario
  readonly always: readonly Invariant[]
  readonly atEnd: readonly Invariant[]
  /** The fibres that plans may hit. */
  readonly fibres: readonly string[]
  /** About how many yields they come to. */
  readonly yields: number
  /** Instead of an arbitrary plan: the fault that the story is about. */
  readonly plan?: (seed: number) => Plan
}
