/**
 * The log file of an `up` that runs on a terminal: all its processes append to it. When it is too long, it becomes the older file, so that
 * both together stay near twice the limit. Lines that a process writes during that moment may be lost.
 */
import { closeSync, copyFileSync, mkdirSync, openSync, statSync, truncateSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const logFileOf = (dataDir: string) => join(dataDir, 'logs', 'up.log')
export const olderLogFile = (path: string) => `${path}.1`

// About 50,000 lines: days of an idle `up`, an hour of a busy one.
const defaultMaxBytes = 10 * 1024 * 1024

export interface LogFile {
  readonly path: string
  /** Moves the lines to the older file if there are too many. */
  limit(): void
}

export function openLogFile(dataDir: string, maxBytes = defaultMaxBytes): LogFile {
  const path = logFileOf(dataDir)
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  closeSync(openSync(path, 'a', 0o600))
  const file = {
    path,
    limit() {
      if (statSync(path).size <= maxBytes) return
      // Other processes have the file open for appending: they continue at its new end.
      copyFileSync(path, olderLogFile(path))
      truncateSync(path)
    },
  }
  file.limit()
  return file
}
