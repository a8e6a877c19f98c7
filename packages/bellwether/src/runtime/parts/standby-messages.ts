/** What the main thread and the standby thread exchange. */
import type { Fence } from '../../kernel/verdict.js'

export interface StandbyData {
  readonly url: string
  readonly workerId: string
  readonly beatMs: number
  /** Ends the process after this time. Absent in the library, where the process is not ours. */
  readonly blockedMaxMs?: number
  /** The last time at which the event loop turned, in nanoseconds of `process.hrtime`, which all threads share. */
  readonly turnedAt: BigInt64Array
  /** The name of the process in log lines that the thread writes; absent: only the main thread logs, afterwards. */
  readonly role?: string
}

export type StandbyOrder = { readonly add: readonly Fence[] } | { readonly remove: readonly string[] }

export const fenceKey = (turn: Fence) => `${turn.agentTurnId}:${turn.turnEpoch}`
