/** The messages and the shared data of the main thread and the standby thread. */
import type { Fence } from '../../../kernel/verdict.js'
import type { RenewalChannel } from '../../../ports/processes/renewal-channel.js'
import type { WorkerTokens } from '../../../ports/processes/token.js'

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
  /** The guardian of the worker's processes: a confirmed beat renews the turn there too. */
  readonly guard?: {
    readonly channel: RenewalChannel
    readonly ttlMs: number
    /** The part of the turn tokens that all turns of the worker share. */
    readonly tokens: WorkerTokens
  }
}

export type StandbyOrder = { readonly add: readonly Fence[] } | { readonly remove: readonly string[] }

/** What the standby thread reports. The event loop of the main thread reads it when it is free again. */
export type StandbyReport =
  | { readonly blockedMs: number }
  /** The fences that a beat confirmed, and when it was sent, on the clock that all threads share. */
  | { readonly confirmed: readonly Fence[]; readonly sentAtMs: number }
