/**
 * Live output on a terminal: a screen that is repainted, and one progress line. Callers pass sanitized text. The terminal is restored
 * at the end, also after Ctrl-C.
 */
import { cut } from './terminal.js'

const enter = '\u001b[?1049h\u001b[?25l'
const leave = '\u001b[?25h\u001b[?1049l'
const home = '\u001b[H'
const clearLine = '\u001b[K'
const clearRest = '\u001b[J'

export interface Screen {
  paint(text: string): void
  close(): void
}

/** Undefined if stdout is not a terminal; the caller prints lines instead. */
export function openScreen(): Screen | undefined {
  const { stdout } = process
  if (!stdout.isTTY) return undefined
  stdout.write(enter)
  // Also if the process exits early.
  const close = () => void stdout.write(leave)
  process.once('exit', close)
  return {
    paint(text) {
      const rows = Math.max(1, stdout.rows - 1)
      const lines = text.split('\n')
      const more =
        lines.length > rows ? [...lines.slice(0, rows - 1), `… ${lines.length - rows + 1} more lines`] : lines
      stdout.write(`${home}${more.map((line) => `${cut(line, stdout.columns)}${clearLine}`).join('\r\n')}${clearRest}`)
    },
    close() {
      process.off('exit', close)
      close()
    },
  }
}

export interface ProgressLine {
  show(text: string): void
  clear(): void
}

/** On stderr, because stdout carries the result. Shows nothing if stderr is not a terminal. */
export function openProgress(wanted: boolean): ProgressLine {
  const { stderr } = process
  if (!wanted || !stderr.isTTY) return { show: () => undefined, clear: () => undefined }
  return {
    show: (text) => void stderr.write(`\r${cut(text, Math.max(10, stderr.columns - 1))}${clearLine}`),
    clear: () => void stderr.write(`\r${clearLine}`),
  }
}
