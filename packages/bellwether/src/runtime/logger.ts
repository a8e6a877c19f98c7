/**
 * Where log lines go: stderr, through pino. One JSON object a line for machines; on a terminal the same facts in words.
 * Nothing else of a process writes to stderr, and nothing of the log to stdout.
 */
import { hostname } from 'node:os'
import type { Log } from '@bellwether/base'
import pino from 'pino'

const standardError = 2
const marks: Readonly<Record<number, string>> = { 30: ' ', 40: '!', 50: '✗', 60: '✗' }

/** `file`: lines are added there instead, for a process whose terminal shows something else. */
export function openLog(role: string, file?: string): Log {
  const base = { role, process: process.pid, host: hostname() }
  if (file !== undefined) return pino({ base }, pino.destination({ dest: file, sync: true, append: true }))
  if (!process.stderr.isTTY) return pino({ base }, pino.destination({ fd: standardError, sync: true }))
  return pino({ base }, { write: (line) => void process.stderr.write(`${inWords(line)}\n`) })
}

/** One line of the log as people read it: the hour, a mark, the sentence, then what else it says. */
export function inWords(line: string): string {
  const { level, time, msg, err, process: _process, host: _host, ...rest } = JSON.parse(line) as Record<string, unknown>
  const hour = typeof time === 'number' ? new Date(time).toTimeString().slice(0, 8) : ''
  const fields = Object.entries(rest).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  const cause = typeof err === 'object' && err !== null && 'message' in err ? [`(${String(err.message)})`] : []
  return [hour, marks[Number(level)] ?? ' ', String(msg), ...cause, ...fields].join(' ')
}
