/**
 * The reports of dispatch and autopilot, with the keys that other programs rely on. `spawn` is written to the log with the
 * line that closes the run, so that a later reader gets the same report. Pure.
 */
import type { TurnStatus } from '../ports.js'
import type { DegradeAction, ExceededKey } from '../policies/budget.js'
import type { KnowledgeOutcome } from '../policies/knowledge.js'
import type { RecoveryDecision } from '../policies/recovery.js'
import type { Choice } from '../tasks/next-task.js'
import type { Task, TaskStatus } from '../log/task.js'

export interface SpawnReport {
  readonly runId: string | null
  readonly agent: string
  readonly agentTurnId: string | null
  /** How the turn ended; `not_spawned` if the budget was used up, `unknown` if the kernel does not know the turn. */
  readonly outcome: string
  readonly error: string | null
  readonly reasonCode: string | null
  readonly attempt: number
  readonly nextAssignee: string | null
  readonly action: string | null
  readonly recoveryState: string | null
  readonly cooldownActive: boolean
  readonly cooldownUntil: string | null
  readonly metrics: { readonly elapsedMs: number; readonly tokenUsage: number }
  readonly degradeAction: DegradeAction | null
  readonly exceededKeys: readonly ExceededKey[]
}

export interface DispatchReport {
  readonly taskId: string
  readonly title: string
  readonly status: TaskStatus
  /** Whether this call brought the task to its status; false: another process did. */
  readonly settledHere: boolean
  readonly reason: string | null
  readonly spawn: SpawnReport | null
  readonly knowledge: KnowledgeOutcome | null
  readonly choice?: Choice
}

export type Ended = Extract<TurnStatus, { status: 'ended' }>

export function spawnReport(
  about: Pick<SpawnReport, 'runId' | 'agent' | 'agentTurnId' | 'outcome' | 'error'>,
  rest: Partial<Omit<SpawnReport, 'runId' | 'agent' | 'agentTurnId' | 'outcome' | 'error'>> = {},
): SpawnReport {
  return {
    ...about,
    reasonCode: null,
    attempt: 0,
    nextAssignee: null,
    action: null,
    recoveryState: null,
    cooldownActive: false,
    cooldownUntil: null,
    metrics: { elapsedMs: 0, tokenUsage: 0 },
    degradeAction: null,
    exceededKeys: [],
    ...rest,
  }
}

export function recoveryFields(decision: RecoveryDecision): Partial<SpawnReport> {
  const { reasonCode, attempt, nextAssignee, action, recoveryState, cooldownActive, cooldownUntil } = decision
  return { reasonCode, attempt, nextAssignee, action, recoveryState, cooldownActive, cooldownUntil }
}

export function reportOf(task: Task, settledHere: boolean, knowledge: KnowledgeOutcome | null): DispatchReport {
  const { taskId, title, status, reason } = task
  return { taskId, title, status, settledHere, reason, spawn: spawnOf(task), knowledge }
}

export function spawnOf(task: Task): SpawnReport | null {
  const { spawn } = task.fields
  return typeof spawn === 'object' && spawn !== null && 'metrics' in spawn ? (spawn as SpawnReport) : null
}
