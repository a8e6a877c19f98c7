/**
 * What a run may find. An invariant is a query that returns offending rows. The scheduler's session runs all of them in one round trip while
 * nothing moves.
 */
import { errorStack } from '@bellwether/base'
import type { Queryable } from '../../src/ports/database/database.js'

export interface Invariant {
  readonly name: string
  /** A single SELECT without parameters. */
  readonly sql: string
}

export type Finding =
  | { readonly kind: 'broken'; readonly invariant: string; readonly offenders: readonly unknown[] }
  /** Fibres that wait for each other, in the order of the cycle, detected before PostgreSQL ends one of them. */
  | { readonly kind: 'deadlock'; readonly fibres: readonly string[] }
  | { readonly kind: 'threw'; readonly fibre: string; readonly error: unknown }
  /** No fibre can run and no timer is left: a wake-up was lost. */
  | { readonly kind: 'stuck'; readonly fibres: readonly string[] }
  | { readonly kind: 'endless'; readonly steps: number }

export async function broken(db: Queryable, invariants: readonly Invariant[]): Promise<Finding | undefined> {
  if (invariants.length === 0) return undefined
  const text = invariants
    .map(({ sql }, index) => `(select ${index} as index, to_jsonb(o) as offender from (${sql}) o)`)
    .join(' union all ')
  const rows = await db.query<{ index: number; offender: unknown }>({ text })
  const first = rows[0]
  if (first === undefined) return undefined
  const offenders = rows.filter(({ index }) => index === first.index).map(({ offender }) => offender)
  return { kind: 'broken', invariant: invariants[first.index]!.name, offenders }
}

/** One line of text. */
export function findingText(finding: Finding): string {
  if (finding.kind === 'broken') {
    return `"${finding.invariant}" does not hold for ${JSON.stringify(finding.offenders.slice(0, 3))}`
  }
  if (finding.kind === 'deadlock') return `deadlock: ${finding.fibres.join(' → ')}`
  if (finding.kind === 'stuck') return `nobody can go on: ${finding.fibres.join(', ')}`
  if (finding.kind === 'endless') return `no end after ${finding.steps} steps`
  const { fibre, error } = finding
  return `${fibre} threw ${errorStack(error)}`
}
