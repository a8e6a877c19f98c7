/**
 * What the board asks of the rest of the house, as functions that serve.ts hands it: run a turn, tell how one ended, look at
 * the disk. The board imports neither kernel nor view.
 */

/** What is wanted of an agent. `key` is the intent line's eventId: the same key never starts a second turn. */
export interface SpawnRequest {
  readonly key: string
  readonly taskId: string
  readonly agent: string
  readonly prompt: string
  readonly budget: { readonly maxTokens: number | null; readonly maxWallTimeMs: number | null }
}

/** How a turn stands. `unknown`: this kernel has never heard of the key (another data folder, past retention). */
export type TurnStatus =
  | { readonly status: 'unknown' }
  | { readonly status: 'active'; readonly agentTurnId: string }
  | {
      readonly status: 'ended'
      readonly agentTurnId: string
      readonly outcome: 'success' | 'failed' | 'timeout' | 'canceled'
      readonly error: string | null
      readonly deliverable: Readonly<Record<string, unknown>> | null
      readonly tokenUsage: number
      readonly elapsedMs: number
    }

/** Which kernel a spawner speaks to. */
export interface KernelIdentity {
  /** The same for as long as it knows its turns: another database, or one that was put back to an earlier time, has another. */
  readonly id: string
  /** By its own clock. */
  readonly nowMs: number
  /** For how long it is certain to know a turn after its end. */
  readonly retentionMs: number
}

export interface Spawner {
  /** Null: this kernel cannot tell itself from others. Retryable when it is away. */
  kernel(): Promise<KernelIdentity | null>
  /** Starts the turn of `key`, or finds the one that was started with it. Retryable when the kernel is away. */
  spawn(request: SpawnRequest, signal: AbortSignal): Promise<{ readonly agentTurnId: string }>
  /** How the turn of `key` stands now. */
  status(key: string): Promise<TurnStatus>
  /** Resolves when the turn of `key` has ended, or when the signal fires. */
  ended(key: string, signal: AbortSignal): Promise<TurnStatus>
  stop(key: string, reason: string): Promise<void>
}

/** One claimed file, looked at after a sync barrier (hazard 21). */
export interface FileEvidence {
  readonly path: string
  /** `not_ready`: the view cannot tell yet, which means wait and never missing. */
  readonly found: 'present' | 'missing' | 'not_ready'
  readonly size?: number
  readonly sha256?: string
  /** Whether it changed since the change token that was taken when the run began. */
  readonly changedSince?: boolean
}

export interface Evidence {
  /** A token for "now": what changes afterwards can be told from what was there. */
  changeToken(signal?: AbortSignal): Promise<string>
  inspect(paths: readonly string[], since: string | null, signal?: AbortSignal): Promise<readonly FileEvidence[]>
}
