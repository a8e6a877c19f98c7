/** Formats tables, fields and instants for a terminal. Every cell is sanitized. Pure. */
import { plain } from '../../client/sanitize.js'

const gap = '  '
// For tables without a width: enough to read, small enough for thousands of rows.
const cellMax = 200
const columnMin = 6

const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]/u

/** The number of terminal columns that the text takes. */
export function widthOf(text: string): number {
  let width = 0
  for (const character of text) width += /\p{M}/u.test(character) ? 0 : wide.test(character) ? 2 : 1
  return width
}

/** Cuts the text to a width and marks the cut with an ellipsis. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  let [head, used] = ['', 0]
  for (const character of text) {
    const more = widthOf(character)
    if (used + more > width - 1) break
    head += character
    used += more
  }
  return `${head}…`
}

const padded = (text: string, width: number) => `${text}${' '.repeat(Math.max(0, width - widthOf(text)))}`

/**
 * Rows under headings, within `columns` if it is known, otherwise as wide as needed. The columns in `uncut` are never shortened,
 * because a shortened id is useless.
 */
export function table(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  columns?: number,
  uncut: readonly number[] = [],
): string {
  const cells = [headings, ...rows].map((row) => row.map((cell) => cut(plain(cell), cellMax)))
  const needed = headings.map((_, column) => Math.max(...cells.map((row) => widthOf(row[column] ?? ''))))
  const widths = columns === undefined ? needed : fitted(needed, columns - gap.length * (headings.length - 1), uncut)
  const lines = cells.map((row) =>
    row
      .map((cell, column) => padded(cut(cell, widths[column] ?? 0), widths[column] ?? 0))
      .join(gap)
      .trimEnd(),
  )
  return lines.map((line) => (columns === undefined ? line : cut(line, columns))).join('\n')
}

/** Shortens the widest columns first, until all fit. */
function fitted(needed: readonly number[], room: number, uncut: readonly number[]): number[] {
  const widths = [...needed]
  const spare = (column: number) => (uncut.includes(column) ? 0 : widths[column]! - columnMin)
  for (let over = sum(widths) - room; over > 0; over -= 1) {
    const widest = widths.reduce(
      (best, width, column) => (spare(column) > 0 && (best < 0 || width > widths[best]!) ? column : best),
      -1,
    )
    if (widest < 0) break
    widths[widest]! -= 1
  }
  return widths
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0)

/** An instant in UTC, to the second. */
export function instant(at: string | number | null | undefined): string {
  if (at === null || at === undefined) return '–'
  const text = typeof at === 'number' ? new Date(at * 1_000).toISOString() : at
  return text.slice(0, 19).replace('T', ' ')
}

/** An instant in UTC for a narrow table: the time if it is of today, else the day and the time. */
export function shortInstant(at: string, nowMs: number): string {
  const isToday = at.slice(0, 10) === new Date(nowMs).toISOString().slice(0, 10)
  return isToday ? at.slice(11, 19) : at.slice(5, 16).replace('T', ' ')
}

/** Named values, one per line. */
export function facts(lines: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(0, ...lines.map(([name]) => widthOf(name)))
  return lines.map(([name, value]) => `  ${padded(name, width)}  ${plain(value)}`.trimEnd()).join('\n')
}

export function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let [size, unit] = [count, 0]
  for (; size >= 1_000 && unit < units.length - 1; unit += 1) size /= 1_000
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`
}
