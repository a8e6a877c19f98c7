/** What `up` tells a person at its terminal, from its first log line to its end. The command line decides how it looks. */
import { type Log, onAbort, systemClock } from '@bellwether/base'
import { loop } from '../../ports/loop.js'
import { openLog } from '../logger.js'
import { type ActivityMonitor, type ActivityOptions, openActivity, type RunningTurn } from './activity.js'
import type { LogFile } from './log-file.js'
import type { Activity } from './task-activity.js'

export interface UpTerminal {
  /** Gets the log lines of all processes. */
  readonly logFile: LogFile
  /** A log line of this process. */
  log(level: 'info' | 'warn' | 'error', fields: object, message: string): void
  report(activity: Activity): void
  /** The first signal: `up` waits for these turns, at most so long. */
  stopping(running: readonly RunningTurn[], drainSeconds: number): void
  /** The second signal: the process exits now. */
  exiting(): void
  /** Everything has stopped. These turns have not ended; they are in the queue again. */
  stopped(left: readonly RunningTurn[]): void
}

/** The log of `up`: in the file, and reported to the terminal. */
export function openTerminalLog(terminal: UpTerminal): Log {
  const log = openLog('up', terminal.logFile.path)
  const both = (level: 'info' | 'warn' | 'error') => (fields: object, message: string) => {
    log[level](fields, message)
    terminal.log(level, fields, message)
  }
  return { info: both('info'), warn: both('warn'), error: both('error') }
}

export interface TerminalReports {
  /** Begins to report turns and tasks. */
  start(options: Omit<ActivityOptions, 'report'>): Promise<void>
  /** Reports what ended during the drain. */
  stop(): Promise<void>
  /** After everything else. */
  close(): void
}

// At full speed a worker writes a few megabytes in that time.
const limitIntervalMs = 30_000

/** Connects `up` to the terminal. Without a terminal, it does nothing. */
export function openReports(
  terminal: UpTerminal | undefined,
  { signal, log, drainSeconds }: { readonly signal: AbortSignal; readonly log: Log; readonly drainSeconds: number },
): TerminalReports {
  if (terminal === undefined)
    return { start: async () => undefined, stop: async () => undefined, close: () => undefined }
  let monitor: ActivityMonitor | undefined
  const waitingFor = new Map<string, RunningTurn>()
  const release = onAbort(signal, () => {
    for (const turn of monitor?.running() ?? []) waitingFor.set(turn.id, turn)
    terminal.stopping([...waitingFor.values()], drainSeconds)
  })
  const report = (activity: Activity) => {
    if (activity.what === 'turn' && activity.change === 'ended') waitingFor.delete(activity.id)
    terminal.report(activity)
  }
  const limit = async () => terminal.logFile.limit()
  const common = { clock: systemClock, log, signal, steady: true }
  void loop({ ...common, name: 'log file limit', intervalMs: limitIntervalMs }, limit)
  return {
    async start(options) {
      monitor = await openActivity({ ...options, report })
    },
    stop: async () => monitor?.stop(),
    close() {
      release()
      terminal.stopped([...waitingFor.values()])
    },
  }
}
