/**
 * What dispatch and autopilot answer, in the names that other programs rely on. Always: `spawn` is written into the log with
 * the line that closes the run, so that whoever asks later gets the same answer. Pure.
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
  /** How the turn ended; `not_spawned` where the budget forbade it, `unknown` where the kernel has never heard of it. */
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
  /** Whether this call brought the task to the status; false: somebody else did. */
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

/** From the log's own words. */
export function reportOf(task: Task, settledHere: boolean, knowledge: KnowledgeOutcome | null): DispatchReport {
  const { taskId, title, status, reason } = task
  return { taskId, title, status, settledHere, reason, spawn: spawnOf(task), knowledge }
}

export function spawnOf(task: Task): SpawnReport | null {
  const said = task.fields['spawn']
  return typeof said === 'object' && said !== null && 'metrics' in said ? (said as SpawnReport) : null
}
