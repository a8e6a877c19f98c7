/** Compares the variants of a run with each other, and a run with an earlier one of its suite. Pure. */
import { evalLimits } from '@bellwether/protocol'
import type { EvalDefinition, EvalRun } from '@bellwether/protocol/http'

export interface PassCount {
  readonly case_no: number
  readonly variant_no: number
  readonly done: number
  readonly passed: number
}

interface RunCounts {
  readonly definition: EvalDefinition
  readonly counts: readonly PassCount[]
}

/** The numbers of the cases of which one variant passed more often than another. */
export function differingCases(counts: readonly PassCount[]): number[] {
  const rates = new Map<number, Set<number>>()
  for (const { case_no: number, done, passed } of counts) {
    if (done === 0) continue
    const known = rates.get(number) ?? new Set()
    rates.set(number, known.add(passed / done))
  }
  return [...rates].flatMap(([number, one]) => (one.size > 1 ? [number] : []))
}

type Comparison = NonNullable<EvalRun['comparison']>

export function compareRuns(now: RunCounts, before: RunCounts & { readonly runId: string }): Comparison {
  const key = ({ definition }: RunCounts, one: PassCount) =>
    JSON.stringify([definition.cases[one.case_no]!.name, definition.variants[one.variant_no]!.name])
  const counted = (run: RunCounts) =>
    new Map(run.counts.flatMap((one) => (one.done === 0 ? [] : [[key(run, one), one] as const])))
  const current = counted(now)
  const regressions: Comparison['regressions'][number][] = []
  const improvements: Comparison['improvements'][number][] = []
  const missing: Comparison['missing'][number][] = []
  let compared = 0
  for (const [name, earlier] of counted(before)) {
    const [one, variant] = JSON.parse(name) as [string, string]
    const later = current.get(name)
    if (later === undefined) {
      missing.push({ case: one, variant })
      continue
    }
    compared += 1
    const change = {
      case: one,
      variant,
      before: `${earlier.passed}/${earlier.done}`,
      now: `${later.passed}/${later.done}`,
    }
    const difference = later.passed / later.done - earlier.passed / earlier.done
    if (difference < 0) regressions.push(change)
    if (difference > 0) improvements.push(change)
  }
  return {
    against: before.runId,
    compared,
    regressions: regressions.slice(0, evalLimits.changes),
    improvements: improvements.slice(0, evalLimits.changes),
    missing: missing.slice(0, evalLimits.changes),
  }
}
