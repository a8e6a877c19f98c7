/** Reads the line that begins at a byte of a log, complete and without its newline. */
import type { LogFile } from '../../../ports/disk/disk.js'

// Most lines are shorter; a longer one is read in steps.
const firstReadBytes = 65_536
const newline = 0x0a

export async function lineAt(file: Pick<LogFile, 'read'>, place: number): Promise<string> {
  for (let size = firstReadBytes; ; size *= 4) {
    const buffer = Buffer.alloc(size)
    const bytesRead = await file.read(buffer, place)
    const end = buffer.subarray(0, bytesRead).indexOf(newline)
    if (end >= 0 || bytesRead < size) return buffer.toString('utf8', 0, end >= 0 ? end : bytesRead)
  }
}
