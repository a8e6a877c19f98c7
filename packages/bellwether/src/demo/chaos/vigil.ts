/**
 * Looks at the house all the time that chaos lasts: no turn past its end, and memory that stays. Always: time during which the house
 * was down, or had just come back, is not held against it; what was found once is kept to the end.
 */
import { statSync, truncateSync } from 'node:fs'
import type { Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Queryable } from '../../ports/database/database.js'
import type { House } from '../house.js'
import { overdue } from './figures.js'

export interface Vigil {
  readonly violations: ReadonlySet<string>
  /** The most that one process of the house has held. */
  readonly mostMebibytes: number
  readonly looks: number
}

export interface VigilOptions {
  readonly house: House
  readonly db: Queryable
  readonly clock: Clock
  readonly logFile: string
  readonly signal: AbortSignal
}

const lookMs = 1_000
// A watchdog looks every second, and after it was away judges nothing until it has watched for one full timeout (25 s; W2.10).
const graceSeconds = 40
// Three times what a busy one was seen to hold: a leak passes it, a burst does not.
const mebibytesMax = 600
// Chaos may run for a night: the log of the house keeps its newest part.
const logMaxBytes = 67_108_864

export function keepVigil({ house, db, clock, logFile, signal }: VigilOptions): { vigil: Vigil; ended: Promise<void> } {
  const violations = new Set<string>()
  const seen = { mostMebibytes: 0, looks: 0 }

  async function look(): Promise<void> {
    for (const { mebibytes } of house.memory()) seen.mostMebibytes = Math.max(seen.mostMebibytes, Math.round(mebibytes))
    if (seen.mostMebibytes > mebibytesMax) violations.add(`a process of the house holds more than ${mebibytesMax} MiB`)
    if (statSync(logFile).size > logMaxBytes) truncateSync(logFile)
    const sinceMs = house.upSinceMs
    if (sinceMs === undefined || clock.monotonicMs() - sinceMs < graceSeconds * 1_000) return
    for (const turnId of await overdue(db, graceSeconds)) violations.add(`turn ${turnId} is past its deadline`)
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      await look().catch((error: unknown) => {
        // A database that is away is what chaos is for; anything else must be seen at the end.
        if (!(error instanceof Retryable)) violations.add(`a look has failed: ${String(error)}`)
      })
      seen.looks += 1
      await clock.sleep(lookMs, signal)
    }
  }

  return {
    vigil: {
      violations,
      get mostMebibytes() {
        return seen.mostMebibytes
      },
      get looks() {
        return seen.looks
      },
    },
    ended: run(),
  }
}
