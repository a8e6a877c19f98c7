/** The messages and the shared data of the main thread and the standby thread. */
import type { Fence } from '../../kernel/verdict.js'

export interface StandbyData {
  readonly url: string
  readonly workerId: string
  readonly beatMs: number
  /** The thread ends the process if it is blocked for this long. Absent in the library, where the process belongs to the caller. */
  readonly blockedMaxMs?: number
  /** A counter that the main thread increments while its event loop runs. */
  readonly ticks: Int32Array
  /** The name of the process in log lines that the thread writes; absent: only the main thread logs, after it was blocked. */
  readonly role?: string
}

export type StandbyOrder = { readonly add: readonly Fence[] } | { readonly remove: readonly string[] }

export const fenceKey = (turn: Fence) => `${turn.agentTurnId}:${turn.turnEpoch}`
