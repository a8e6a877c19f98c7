/** Rows under headings for a terminal: as wide as needed, cut where the terminal ends. Pure. */
import { plain } from './root.js'

const widestMax = 60
const gap = '  '

export function table(headings: readonly string[], rows: readonly (readonly string[])[], columns = 100): string {
  const cells = [headings, ...rows].map((row) => row.map((cell) => plain(cell)))
  const widths = headings.map((_, column) =>
    Math.min(widestMax, Math.max(...cells.map((row) => row[column]?.length ?? 0))),
  )
  const lines = cells.map((row) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : fit(cell, widths[column] ?? 0)))
      .join(gap)
      .trimEnd(),
  )
  return lines.map((line) => (line.length > columns ? `${line.slice(0, Math.max(1, columns - 1))}…` : line)).join('\n')
}

function fit(cell: string, width: number): string {
  return cell.length > width ? `${cell.slice(0, width - 1)}…` : cell.padEnd(width)
}
