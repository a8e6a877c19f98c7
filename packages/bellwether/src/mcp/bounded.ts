/** Limits results of tools to a model's context window. A cut text states its full length. Pure. */

import { escapeUnsafe } from '../client/sanitize.js'

/** About 12,000 tokens. Clients cut longer results themselves, without a notice. */
export const resultChars = 40_000
/** Per value in a list or an object: titles, reasons, activities. */
const valueChars = 2_000

export interface Piece {
  readonly text: string
  readonly offset: number
  readonly total: number
  /** The offset of the next piece; null at the end. */
  readonly next: number | null
}

/** A piece of a long text. It does not split a surrogate pair. */
export function pieceOf(text: string, offset: number, chars: number): Piece {
  const start = Math.min(offset, text.length)
  let end = Math.min(text.length, start + chars)
  if (end < text.length && isHighHalf(text.charCodeAt(end - 1)) && end - 1 > start) end -= 1
  return { text: text.slice(start, end), offset: start, total: text.length, next: end < text.length ? end : null }
}

const isHighHalf = (unit: number) => unit >= 0xd800 && unit <= 0xdbff

/** The value with long texts cut. */
export function shortened(value: unknown, chars = valueChars): unknown {
  if (typeof value === 'string')
    return value.length <= chars
      ? value
      : `${pieceOf(value, 0, chars).text}… (cut: ${value.length} characters in total)`
  if (Array.isArray(value)) return value.map((one) => shortened(one, chars))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shortened(one, chars)]))
}

/** A value as the client gets it: no character of it changes how the text around it looks. */
export const shownJson = (value: unknown) => escapeUnsafe(JSON.stringify(value, null, 1))

/** The first items that fit, shortened; at least one. */
export function fitting(
  items: readonly unknown[],
  chars = resultChars,
  short: (item: unknown) => unknown = shortened,
): { readonly shown: unknown[]; readonly left: number } {
  const shown: unknown[] = []
  let used = 0
  for (const item of items) {
    const one = short(item)
    used += shownJson(one).length + 1
    if (used > chars && shown.length > 0) break
    shown.push(one)
  }
  return { shown, left: items.length - shown.length }
}
