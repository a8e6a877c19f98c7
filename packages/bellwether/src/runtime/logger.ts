/**
 * Opens the log of a process: pino on stderr, one JSON object per line, or one readable line on a terminal. Logs never go to
 * stdout, and nothing else of a process goes to stderr.
 */
import { hostname } from 'node:os'
import type { Log } from '@bellwether/base'
import pino from 'pino'
import { readableLine, safeLine } from './log-line.js'

const standardError = 2

/** `file`: appends there instead, for a process whose terminal shows something else. */
export function openLog(role: string, file?: string): Log {
  const base = { role, process: process.pid, host: hostname() }
  if (file !== undefined) return pino({ base }, safely(pino.destination({ dest: file, sync: true, append: true })))
  if (!process.stderr.isTTY) return pino({ base }, safely(pino.destination({ fd: standardError, sync: true })))
  return pino({ base }, { write: (line) => void process.stderr.write(`${readableLine(line)}\n`) })
}

/** Logs contain text of agents, sensors and servers, and people read them in terminals: JSON itself escapes only some controls. */
const safely = (to: { write(line: string): unknown }) => ({ write: (line: string) => void to.write(safeLine(line)) })
