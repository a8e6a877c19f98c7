/**
 * Opens the log of a process: pino on stderr, one JSON object per line, or one readable line on a terminal. Logs never go to
 * stdout, and nothing else of a process goes to stderr.
 */
import { hostname } from 'node:os'
import type { Log } from '@bellwether/base'
import pino from 'pino'

const standardError = 2
const marks: Readonly<Record<number, string>> = { 30: ' ', 40: '!', 50: '✗', 60: '✗' }

/** `file`: appends there instead, for a process whose terminal shows something else. */
export function openLog(role: string, file?: string): Log {
  const base = { role, process: process.pid, host: hostname() }
  if (file !== undefined) return pino({ base }, pino.destination({ dest: file, sync: true, append: true }))
  if (!process.stderr.isTTY) return pino({ base }, pino.destination({ fd: standardError, sync: true }))
  return pino({ base }, { write: (line) => void process.stderr.write(`${readableLine(line)}\n`) })
}

/** A JSON log line for people: the time, a mark for the level, the phrase, then the fields. */
export function readableLine(line: string): string {
  const { level, time, msg, err, process: _process, host: _host, ...rest } = JSON.parse(line) as Record<string, unknown>
  const timeOfDay = typeof time === 'number' ? new Date(time).toTimeString().slice(0, 8) : ''
  const fields = Object.entries(rest).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  const cause = typeof err === 'object' && err !== null && 'message' in err ? [`(${String(err.message)})`] : []
  return [timeOfDay, marks[Number(level)] ?? ' ', String(msg), ...cause, ...fields].join(' ')
}
