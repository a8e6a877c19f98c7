/**
 * Reads the log file of an `up`, line by line, and follows it while other processes write to it. A file that was shortened is read from
 * its start again.
 */
import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs'
import type { Clock } from '@bellwether/base'

const chunkBytes = 1 << 20
// A longer line is split.
const lineMaxChars = 1 << 20
// Looks live to a person; each poll costs one stat.
const pollMs = 250

/** The lines of a file from `offset` on, and where they end. An unfinished line at the end is left for the next read. */
export function readLines(path: string, offset: number, each: (line: string) => void): number {
  const fd = openSync(path, 'r')
  try {
    const { size } = fstatSync(fd)
    let at = offset > size ? 0 : offset
    const chunk = Buffer.alloc(Math.max(1, Math.min(chunkBytes, size - at)))
    let rest = Buffer.alloc(0)
    for (let read = 0; at + rest.length < size;) {
      read = readSync(fd, chunk, 0, chunk.length, at + rest.length)
      if (read === 0) break
      const bytes = Buffer.concat([rest, chunk.subarray(0, read)])
      const end = bytes.lastIndexOf(0x0a) + 1
      if (end === 0 && bytes.length < lineMaxChars) {
        rest = bytes
        continue
      }
      const upTo = end === 0 ? bytes.length : end
      for (const line of bytes.toString('utf8', 0, upTo).split('\n')) if (line !== '') each(line)
      at += upTo
      rest = bytes.subarray(upTo)
    }
    return at
  } finally {
    closeSync(fd)
  }
}

/** Calls `each` with every line that is written from `offset` on, until the signal aborts. */
export async function followLines(
  path: string,
  offset: number,
  each: (line: string) => void,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  let at = offset
  for (;;) {
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
    if (size !== at && size > 0) at = readLines(path, at, each)
    // After the loop has read what was written just before the abort.
    if (signal.aborted) return
    await clock.sleep(pollMs, signal)
  }
}
