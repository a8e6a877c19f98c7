/** Compares JSON values of a trail, whatever the order of their keys. Pure. */
import { createHash } from 'node:crypto'
import { canonicalJson } from '@bellwether/base'
import type { Difference } from '@bellwether/protocol/http'

export const sha256 = (value: unknown) => createHash('sha256').update(canonicalJson(value)).digest('hex')

// As much as a person compares by eye.
const shownMax = 2_000

/** Undefined if both are equal. */
export function differenceOf(
  step: number | null,
  what: string,
  recorded: unknown,
  replayed: unknown,
): Difference | undefined {
  const [left, right] = [canonicalJson(recorded), canonicalJson(replayed)]
  if (left === right) return undefined
  // Shows the place where they differ.
  let from = 0
  while (left[from] === right[from]) from += 1
  const start = Math.max(0, from - 200)
  const cut = (text: string) => `${start > 0 ? '…' : ''}${text.slice(start, start + shownMax)}`.toWellFormed()
  return { step, what, recorded: cut(left), replayed: cut(right) }
}
