/** The type of a story: a scenario, the invariants that hold in it, and the faults that may happen. */
import type { Invariant, Plan, Scenario } from './engine/index.js'

export interface Story {
  readonly scenario: Scenario
  readonly always: readonly Invariant[]
  readonly atEnd: readonly Invariant[]
  /** The fibres that fault plans may name. */
  readonly fibres: readonly string[]
  /** About how many yields they have. */
  readonly yields: number
  /** The fault of this story, instead of an arbitrary plan. */
  readonly plan?: (seed: number) => Plan
}
