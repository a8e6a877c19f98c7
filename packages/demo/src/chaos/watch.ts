/**
 * Watches the server during chaos: no turn may pass its deadline, and memory must stay bounded. Time while the server is down,
 * or has just restarted, does not count.
 */
import { statSync, truncateSync } from 'node:fs'
import type { Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Queryable } from '../database.js'
import type { Server } from '../server.js'
import { overdue } from './measurements.js'

export interface Watch {
  readonly violations: ReadonlySet<string>
  /** The largest memory of one process. */
  readonly mostMebibytes: number
  /** Completed rounds. */
  readonly rounds: number
}

export interface WatchOptions {
  readonly server: Server
  readonly db: Queryable
  readonly clock: Clock
  readonly logFile: string
  readonly signal: AbortSignal
}

const roundMs = 1_000
// A watchdog sweeps every second; after a pause it ends nothing until it has watched for one full timeout (25 s; W2.10).
const graceSeconds = 40
// Three times the memory of a busy process: a leak exceeds it, a burst does not.
const mebibytesMax = 600
// Chaos may run for a night; the log is emptied at this size.
const logMaxBytes = 67_108_864

export function startWatch({ server, db, clock, logFile, signal }: WatchOptions): {
  watch: Watch
  ended: Promise<void>
} {
  const violations = new Set<string>()
  const seen = { mostMebibytes: 0, rounds: 0 }

  async function round(): Promise<void> {
    for (const { mebibytes } of server.memory())
      seen.mostMebibytes = Math.max(seen.mostMebibytes, Math.round(mebibytes))
    if (seen.mostMebibytes > mebibytesMax) violations.add(`a process uses more than ${mebibytesMax} MiB`)
    if (statSync(logFile).size > logMaxBytes) truncateSync(logFile)
    const sinceMs = server.upSinceMs
    if (sinceMs === undefined || clock.monotonicMs() - sinceMs < graceSeconds * 1_000) return
    for (const turnId of await overdue(db, graceSeconds)) violations.add(`turn ${turnId} is past its deadline`)
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      await round().catch((error: unknown) => {
        // Chaos takes the database away on purpose; any other error is a violation.
        if (!(error instanceof Retryable)) violations.add(`the watch failed: ${String(error)}`)
      })
      seen.rounds += 1
      await clock.sleep(roundMs, signal)
    }
  }

  return {
    watch: {
      violations,
      get mostMebibytes() {
        return seen.mostMebibytes
      },
      get rounds() {
        return seen.rounds
      },
    },
    ended: run(),
  }
}
