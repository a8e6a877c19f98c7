/**
 * Samples the processes of the run: the memory per role, the processor time, and every process that was ever seen, so that the end of
 * the run can tell which of them are left. A server that exits without a fault is a violation and is started again.
 */
import { statSync, truncateSync } from 'node:fs'
import { errorMessage, type Clock } from '@bellwether/base'
import { processesIn, readProcess, readProcesses, type ProcessRow } from '../processes.js'
import type { Setup } from '../setup.js'
import type { Processes } from './roles.js'

export interface Watch {
  /** The largest memory of one process, by role. */
  readonly mebibytes: Readonly<Record<string, number>>
  /** The average use of processors by all processes of the run. */
  cores(): number
  /** Processor time by role. */
  cpuSeconds(): Readonly<Record<string, number>>
  /** Processes of the run that are still alive. */
  left(): ProcessRow[]
  readonly ended: Promise<void>
}

export interface WatchOptions {
  readonly setup: Setup
  readonly processes: Processes
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Whether a fault keeps the server down. */
  readonly serverMayBeDown: () => boolean
  readonly violation: (sentence: string) => void
}

const roundMs = 3_000
// Three times the memory of a busy process: a leak exceeds it, a burst does not.
const mebibytesMax = 600
// Chaos may run for a night; the log is emptied at this size.
const logMaxBytes = 268_435_456

export function startWatch(options: WatchOptions): Watch {
  const { setup, processes, clock, signal, violation } = options
  const mebibytes: Record<string, number> = {}
  const known = new Map<string, ProcessRow>()
  const startedMs = clock.monotonicMs()
  let endedMs: number | undefined

  async function round(): Promise<void> {
    for (const row of processes.all()) {
      known.set(`${row.pid} ${row.start}`, row)
      const role = roleOf(row)
      if (role === undefined) continue
      mebibytes[role] = Math.max(mebibytes[role] ?? 0, Math.round(row.mebibytes))
      if (row.mebibytes > mebibytesMax) violation(`a process (${role}) uses more than ${mebibytesMax} MiB`)
    }
    const { logFile } = setup.folder
    if (statSync(logFile).size > logMaxBytes) truncateSync(logFile)
    if (setup.server.upSinceMs !== undefined || options.serverMayBeDown()) return
    violation('the server exited by itself')
    await setup.server.start()
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      await round().catch((error: unknown) => violation(`the watch failed: ${errorMessage(error)}`))
      await clock.sleep(roundMs, signal)
    }
    endedMs = clock.monotonicMs()
  }

  return {
    mebibytes,
    cores() {
      const seconds = [...known.values()].reduce((sum, row) => sum + row.cpuSeconds, 0)
      return seconds / (((endedMs ?? clock.monotonicMs()) - startedMs) / 1_000)
    },
    cpuSeconds() {
      const seconds: Record<string, number> = {}
      for (const row of known.values()) {
        const role = roleOf(row) ?? 'command'
        seconds[role] = (seconds[role] ?? 0) + row.cpuSeconds
      }
      return seconds
    },
    left() {
      const alive = [...known.values()].filter(({ pid, start }) => readProcess(pid)?.start === start)
      const inFolder = processesIn(readProcesses(), setup.folder.project)
      return [...new Map([...alive, ...inFolder].map((row) => [row.pid, row])).values()]
    },
    ended: run(),
  }
}

const rolesByWord: Readonly<Record<string, string>> = {
  'guardian-main': 'guardian',
  'bellwether-cleaner': 'cleaner',
  postgres: 'postgres',
}

/** Undefined for commands of agents. */
function roleOf({ command }: ProcessRow): string | undefined {
  const word = Object.keys(rolesByWord).find((one) => command.some((part) => part.includes(one)))
  if (word !== undefined) return rolesByWord[word]
  const target = command.indexOf('--target')
  if (target > 0) return `worker ${command[target + 1]}`
  return ['up', 'sensor'].find((role) => command.includes(role))
}
