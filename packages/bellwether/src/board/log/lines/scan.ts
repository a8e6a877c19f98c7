/**
 * Finds lines of a log by their bytes, without parsing the others: those that contain a text, or all of them. Memory is bounded: a line
 * that is longer than any line that counts is skipped.
 */
import type { LogFile } from '../../../ports/disk/disk.js'
import { lineReadMaxBytes } from './line.js'

export interface FoundLine {
  /** The byte at which the line begins. */
  readonly place: number
  /** Without the newline. */
  readonly bytes: Buffer
}

const chunkBytes = 2 ** 18
const newline = 0x0a

/** The lines between two bytes, in order. `from` is the start of a line. */
export async function* scanLines(
  file: Pick<LogFile, 'read'>,
  from: number,
  to: number,
  text: Buffer = Buffer.alloc(0),
): AsyncGenerator<FoundLine> {
  const chunk = Buffer.allocUnsafe(chunkBytes)
  // The beginning of a line whose end has not been read yet.
  let open = Buffer.alloc(0)
  let isTooLong = false
  let at = from
  while (at < to) {
    const bytesRead = await file.read(chunk.subarray(0, Math.min(chunkBytes, to - at)), at)
    if (bytesRead === 0) break
    const bytes = Buffer.concat([open, chunk.subarray(0, bytesRead)])
    const place = at - open.length
    at += bytesRead
    let start = 0
    for (;;) {
      const hit = isTooLong ? start : bytes.indexOf(text, start)
      const stop = hit < 0 ? -1 : bytes.indexOf(newline, hit)
      if (stop < 0) break
      const lineStart = hit === start ? start : Math.max(start, bytes.lastIndexOf(newline, hit - 1) + 1)
      if (!isTooLong) yield { place: place + lineStart, bytes: bytes.subarray(lineStart, stop) }
      isTooLong = false
      start = stop + 1
    }
    open = Buffer.from(bytes.subarray(Math.max(start, bytes.lastIndexOf(newline) + 1)))
    isTooLong ||= open.length > lineReadMaxBytes
    if (isTooLong) open = Buffer.alloc(0)
  }
  if (open.length > 0 && open.includes(text)) yield { place: at - open.length, bytes: open }
}
