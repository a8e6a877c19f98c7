/**
 * The interfaces that the board needs from outside: start and stop turns, read how a turn ended, inspect files on disk.
 * The runtime implements them; the board imports neither the kernel nor the view.
 */
import type { BudgetKey, DegradeAction } from '@bellwether/protocol'
import type { TaskPurse, Usage } from './policies/budget.js'
import type { AgentWorkspace } from './policies/workspace.js'

/** One turn to start. `key` is the eventId of the intent line: the same key never starts a second turn. */
export interface SpawnRequest {
  readonly key: string
  readonly taskId: string
  readonly agent: string
  readonly prompt: string
  /** Instead of the prompt, for an agent that resumes the session of its last run of the task. */
  readonly resumePrompt?: string
  /** Pays for the turn and its children. */
  readonly purse: TaskPurse
  /** The degrade actions of this run. */
  readonly degrade: readonly DegradeAction[]
  /** What to do, in order, when the purse does not cover a call of the turn. */
  readonly degradePolicy: readonly DegradeAction[]
  /** The git worktree in which the turn works. Absent: the project folder. */
  readonly worktree?: { readonly top: string; readonly root: string }
}

/** `unknown`: this kernel does not know the key (another database, or the turn is past retention). */
export type TurnStatus =
  | { readonly status: 'unknown' }
  /** `waitsFor`: why the turn cannot run now, if the kernel knows a reason. */
  | { readonly status: 'active'; readonly agentTurnId: string; readonly waitsFor?: string }
  | ({
      readonly status: 'ended'
      readonly agentTurnId: string
      readonly outcome: 'success' | 'failed' | 'timeout' | 'canceled'
      readonly error: string | null
      /** Why a turn that did not succeed ended, in words. */
      readonly explanation?: string
      readonly deliverable: Readonly<Record<string, unknown>> | null
      /** The limits that ended the turn with budget_exceeded. */
      readonly exceededKeys?: readonly BudgetKey[]
      /** The limits of the turn that its agent file set. */
      readonly agentLimits?: readonly BudgetKey[]
    } & Usage)

/** Identifies the kernel behind a spawner. */
export interface KernelIdentity {
  /** Constant while the kernel remembers its turns. Another database, or one restored to an earlier time, has another id. */
  readonly id: string
  /** The kernel's own clock. */
  readonly nowMs: number
  /** How long the kernel remembers a turn after its end, at least. */
  readonly retentionMs: number
}

export interface Spawner {
  /** Which of these names are not agents. Empty also if any name will do. Throws Retryable if the kernel is unreachable. */
  missingAgents(names: readonly string[]): Promise<readonly string[]>
  /** Whether the project has any agent. Throws Retryable if the kernel is unreachable. */
  hasAgents(): Promise<boolean>
  /** What the file of the agent says about its workspace. Throws Retryable if the kernel is unreachable. */
  workspaceOf(agent: string): Promise<AgentWorkspace>
  /** Null: this kernel cannot identify itself. Throws Retryable if the kernel is unreachable. */
  kernel(): Promise<KernelIdentity | null>
  /** Starts the turn of `key`, or finds the one that exists. Throws Retryable if the kernel is unreachable. */
  spawn(request: SpawnRequest, signal: AbortSignal): Promise<{ readonly agentTurnId: string }>
  status(key: string): Promise<TurnStatus>
  /** Resolves when the turn of `key` has ended, or when the signal fires. */
  ended(key: string, signal: AbortSignal): Promise<TurnStatus>
  stop(key: string, reason: string): Promise<void>
}

/** One claimed file, inspected after a sync barrier (hazard 21). */
export interface FileEvidence {
  readonly path: string
  /** `not_ready`: the view cannot answer yet. The caller waits; the file does not count as missing. */
  readonly found: 'present' | 'missing' | 'not_ready'
  readonly size?: number
  readonly sha256?: string
  /** Where the result comes from: a view, which reads the disk through a sensor, or the disk of the board's machine. */
  readonly from?: 'view' | 'disk'
  /** Whether the file changed after the change token that was taken when the run started. */
  readonly changedSince?: boolean
}

export interface Evidence {
  /** A token for "now": `inspect` reports which files changed after it. */
  changeToken(signal?: AbortSignal): Promise<string>
  inspect(paths: readonly string[], since: string | null, signal?: AbortSignal): Promise<readonly FileEvidence[]>
  /** The files that changed after the token, by anyone, at most `max`. Null: unknown. */
  changedFiles(since: string, max: number, signal?: AbortSignal): Promise<readonly string[] | null>
}
