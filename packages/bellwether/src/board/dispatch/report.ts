/**
 * The reports of dispatch and autopilot, with the keys that other programs rely on. `spawn` is written to the log with the
 * line that closes the run, so that a later reader gets the same report. Pure.
 */
import { isObject } from '@bellwether/base'
import type { DispatchReport, KnowledgeOutcome } from '@bellwether/protocol/http'
import type { TurnStatus } from '../ports.js'
import type { RecoveryDecision } from '../policies/recovery.js'
import type { Task } from '../log/task.js'

export type SpawnReport = NonNullable<DispatchReport['spawn']>

export type Ended = Extract<TurnStatus, { status: 'ended' }>

export function spawnReport(
  about: Pick<SpawnReport, 'runId' | 'agent' | 'agentTurnId' | 'outcome' | 'error'>,
  rest: Partial<SpawnReport> = {},
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
    metrics: { elapsedMs: 0, tokenUsage: 0, costMicros: 0 },
    degradeAction: null,
    degradeEffect: null,
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
  return isObject(spawn) && 'metrics' in spawn ? (spawn as SpawnReport) : null
}
