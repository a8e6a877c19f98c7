/** What the main thread and the standby thread exchange. */
import type { Fence } from '../../kernel/verdict.js'

export interface StandbyData {
  readonly url: string
  readonly workerId: string
  readonly beatMs: number
  /** Ends the process after this time. Absent in the library, where the process is not ours. */
  readonly blockedMaxMs?: number
  /** Counts while the event loop of the main thread turns. */
  readonly turned: Int32Array
  /** The name of the process in log lines that the thread writes; absent: only the main thread logs, afterwards. */
  readonly role?: string
}

export type StandbyOrder = { readonly add: readonly Fence[] } | { readonly remove: readonly string[] }

export const fenceKey = (turn: Fence) => `${turn.agentTurnId}:${turn.turnEpoch}`
