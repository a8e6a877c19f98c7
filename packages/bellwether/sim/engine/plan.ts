/**
 * Faults as data. A plan says what goes wrong and where; the engine executes it; fast-check shrinks it. A place is a step of the run (the fibre
 * that is about to run is hit) or the nth yield of a named fibre; a place that the run never reaches has no effect. Only the bell faults are
 * random, and they use the run's seed.
 */
import fc from 'fast-check'

type Place = number | { readonly fibre: string; readonly nth: number }

export type Fault =
  /** Abandons the fibre at this place: its backend dies, its JavaScript never continues. */
  | { readonly kind: 'crash'; readonly at: Place }
  /** The same, at the first yield after the next COMMIT: committed, but the client does not know. */
  | { readonly kind: 'crash-after-commit'; readonly at: Place }
  /** The fibre does not run for this many steps; time passes for the others when they have nothing to do. */
  | { readonly kind: 'slow'; readonly at: Place; readonly steps: number }
  /** The wall clock and the database's clock jump, also back; sleeps are monotonic and do not end. */
  | { readonly kind: 'clock-jump'; readonly at: Place; readonly ms: number }
  /** All fibres were slow: both clocks move, sleeps end. */
  | { readonly kind: 'time-passes'; readonly at: Place; readonly ms: number }

export interface BellFaults {
  /** Chances per delivery, in [0, 1]. */
  readonly drop: number
  readonly duplicate: number
  readonly late: number
  readonly lateMs: number
}

export interface Plan {
  readonly faults: readonly Fault[]
  readonly bell?: BellFaults
  /** From this step on there are no more faults: every turn must now end. */
  readonly calmAfter?: number
}

export const noFaults: Plan = { faults: [] }

export interface PlanShape {
  /** Fibres that faults may name. */
  readonly fibres: readonly string[]
  /** About how many yields a fibre has in this scenario. */
  readonly yields: number
  readonly maxFaults?: number
  /** Bounds for slow steps and for time; the defaults suit scenarios of a few hundred steps and minutes. */
  readonly maxSlowSteps?: number
  readonly maxMs?: number
  /** Which kinds may happen; default: all. */
  readonly kinds?: readonly Fault['kind'][]
}

const everyKind = ['crash', 'crash-after-commit', 'slow', 'clock-jump', 'time-passes'] as const

export function arbitraryPlan(shape: PlanShape): fc.Arbitrary<Plan> {
  const { yields, maxFaults = 4, maxSlowSteps = 200, maxMs = 120_000 } = shape
  const at = fc.record({ fibre: fc.constantFrom(...shape.fibres), nth: fc.nat({ max: yields }) })
  const ofKind: { readonly [K in Fault['kind']]: fc.Arbitrary<Fault> } = {
    crash: fc.record({ kind: fc.constant('crash' as const), at }),
    'crash-after-commit': fc.record({ kind: fc.constant('crash-after-commit' as const), at }),
    slow: fc.record({ kind: fc.constant('slow' as const), at, steps: fc.integer({ min: 1, max: maxSlowSteps }) }),
    'clock-jump': fc.record({
      kind: fc.constant('clock-jump' as const),
      at,
      ms: fc.integer({ min: -maxMs, max: maxMs }),
    }),
    'time-passes': fc.record({ kind: fc.constant('time-passes' as const), at, ms: fc.integer({ min: 1, max: maxMs }) }),
  }
  const fault = fc.oneof(...(shape.kinds ?? everyKind).map((kind) => ofKind[kind]))
  const chance = fc.constantFrom(0, 0, 0.1, 0.5, 1)
  const bell = fc.record({ drop: chance, duplicate: chance, late: chance, lateMs: fc.integer({ min: 1, max: maxMs }) })
  return fc.record({ faults: fc.array(fault, { maxLength: maxFaults }), bell })
}
