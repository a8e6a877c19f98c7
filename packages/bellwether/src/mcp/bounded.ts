/** Answers that fit into a model's window. Always: what is cut says so, with the size of the whole. Pure. */

/** About 12,000 tokens: below the point at which clients cut for themselves, where nobody learns of it. */
export const answerChars = 40_000
/** A value within a list or an object: titles, reasons, activities. */
const valueChars = 2_000

export interface Piece {
  readonly text: string
  readonly offset: number
  readonly total: number
  /** Where the next piece begins; null at the end. */
  readonly next: number | null
}

/** A piece of a long text; no character is cut in half. */
export function pieceOf(text: string, offset: number, chars: number): Piece {
  const begin = Math.min(offset, text.length)
  let end = Math.min(text.length, begin + chars)
  if (end < text.length && isHighHalf(text.charCodeAt(end - 1)) && end - 1 > begin) end -= 1
  return { text: text.slice(begin, end), offset: begin, total: text.length, next: end < text.length ? end : null }
}

const isHighHalf = (unit: number) => unit >= 0xd800 && unit <= 0xdbff

/** The same value with long texts cut. */
export function shortened(value: unknown, chars = valueChars): unknown {
  if (typeof value === 'string')
    return value.length <= chars ? value : `${pieceOf(value, 0, chars).text}… (cut: ${value.length} characters in all)`
  if (Array.isArray(value)) return value.map((one) => shortened(one, chars))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shortened(one, chars)]))
}

/** As many items from the front as fit, in their shortened form. */
export function fitting(
  items: readonly unknown[],
  chars = answerChars,
): { readonly shown: unknown[]; readonly left: number } {
  const shown: unknown[] = []
  let used = 0
  for (const item of items) {
    const short = shortened(item)
    used += JSON.stringify(short).length + 1
    if (used > chars && shown.length > 0) break
    shown.push(short)
  }
  return { shown, left: items.length - shown.length }
}
