/**
 * Prints the narration. On a terminal, sentences scroll above a table that is redrawn in place; elsewhere, only the sentences
 * are printed.
 */
export interface Screen {
  /** Prints a sentence with the elapsed time. */
  say(sentence: string): void
  /** Draws the live table, on a terminal only. */
  show(lines: readonly string[]): void
  /** Removes the live table. */
  clear(): void
}

interface Output {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

const up = (lines: number) => (lines === 0 ? '' : `\u001B[${lines}A\u001B[J`)

export function openScreen(output: Output, elapsedMs: () => number): Screen {
  const live = output.isTTY === true
  let shown: readonly string[] = []
  const draw = (above: string, lines: readonly string[]) => {
    const width = (output.columns || 80) - 1
    const cut = lines.map((line) => line.slice(0, width))
    output.write(`${up(shown.length)}${above}${cut.map((line) => `${line}\n`).join('')}`)
    shown = cut
  }
  return {
    say(sentence) {
      const stamp = `${(elapsedMs() / 1_000).toFixed(1).padStart(5)}s`
      draw(`${stamp}  ${sentence}\n`, shown)
    },
    show(lines) {
      if (live) draw('', lines)
    },
    clear: () => draw('', []),
  }
}

/** Pads the cells of each column to one width. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths = rows.reduce<number[]>((most, row) => row.map((cell, at) => Math.max(most[at] ?? 0, cell.length)), [])
  return rows.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}
