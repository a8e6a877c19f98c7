/** The types that the worker and the run of one turn share: the worker's options and the scope of a running turn. */
import type { Clock, Log } from '@bellwether/base'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { Kernel } from '../kernel/kernel.js'
import type { AgentFunction } from './agent.js'
import type { Cancellation } from './cancellation.js'
import type { TranscriptWriter } from './transcript.js'

export interface WorkerSettings {
  readonly concurrency: number
  readonly suspendTimeoutSeconds: number
  readonly resumeLeaseSeconds: number
  readonly inboxProcessingTimeoutSeconds: number
  /** The most that a turn reads of each of its two boxes. Default: 4 MiB. */
  readonly hydrateMaxBytes?: number
  /** A provider's pause that is longer than this suspends the turn. Default: 15 s. */
  readonly parkAfterSeconds?: number
  /** The longest time without a probe of a held account. Default: 6 hours. */
  readonly maxHoldSeconds?: number
}

export interface WorkerOptions {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: Log
  readonly workerId: string
  readonly workerTarget: string
  readonly settings: WorkerSettings
  /** The function that runs this turn. Undefined if this worker has none for the agent. */
  readonly agent: (turn: ClaimedTurn) => AgentFunction | undefined
  /** Called when a beat that was sent at `sentMs` (monotonic clock) confirmed the fence. Renews the guardian's timer. */
  readonly onBeat?: (turn: ClaimedTurn, sentMs: number) => void
  /** Beats for the running turns if agent code blocks the event loop. A turn is added before its agent runs. */
  readonly standby?: { add(turns: readonly ClaimedTurn[]): void; remove(turn: ClaimedTurn): void }
  /** Stores what agents say and do. */
  readonly transcript?: Pick<TranscriptWriter, 'add' | 'flush'>
  /** Whether the turn has no effects while its beats fail, because a guardian freezes its processes. Default: no turn. */
  readonly guarded?: (turn: ClaimedTurn) => boolean
}

/** One running turn. */
export interface Scope {
  readonly turn: ClaimedTurn
  readonly cancellation: Cancellation
  /** The head runs under this fence. Only then does a beat that does not confirm the turn mean that the fence is lost. */
  fenced: boolean
  /** The agent has returned. What is left is one fenced write, which needs no beats to be safe. */
  settling?: boolean
  /** How many requests of its program wait for a person. */
  asking: number
  /** Called when the last of them has ended, or the first has begun. */
  readonly onAsking: (scope: Scope) => void
  done: Promise<void>
}

/** The turn gives its place back until the returned function is called. */
export function awaitPerson(scope: Scope): () => void {
  scope.asking += 1
  scope.onAsking(scope)
  return () => {
    scope.asking -= 1
    scope.onAsking(scope)
  }
}
