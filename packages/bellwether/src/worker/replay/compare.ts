/** Compares JSON values of a trail, whatever the order of their keys. Pure. */
import { createHash } from 'node:crypto'

/** JSON with sorted keys: equal values have equal texts. */
export function canonical(value: unknown): string {
  return JSON.stringify(sorted(value)) ?? 'null'
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => sorted(one) ?? null)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([, one]) => one !== undefined)
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, one]) => [name, sorted(one)]))
}

export const sha256 = (value: unknown) => createHash('sha256').update(canonical(value)).digest('hex')

/** The first difference between what was recorded and what the replay made. */
export interface Difference {
  readonly step: number | null
  readonly what: string
  readonly recorded: string
  readonly replayed: string
}

// As much as a person compares by eye.
const shownMax = 2_000

/** Undefined if both are equal. */
export function differenceOf(
  step: number | null,
  what: string,
  recorded: unknown,
  replayed: unknown,
): Difference | undefined {
  const [left, right] = [canonical(recorded), canonical(replayed)]
  if (left === right) return undefined
  // Shows the place where they differ.
  let from = 0
  while (left[from] === right[from]) from += 1
  const start = Math.max(0, from - 200)
  const cut = (text: string) => `${start > 0 ? '…' : ''}${text.slice(start, start + shownMax)}`.toWellFormed()
  return { step, what, recorded: cut(left), replayed: cut(right) }
}
