/**
 * The second half of a dispatch: outcome → budget record → acceptance → done, blocked or recovery. One line closes a run,
 * decided under the lock; a closed run is left alone, so settling twice records once. If a person moved the task during the
 * turn, that move stands.
 */
import { defined, errorMessage } from '@bellwether/base'
import { budgetExceeded, InvalidInput, type BudgetKey } from '@bellwether/protocol'
import { retryCall } from '../../ports/retry.js'
import {
  withExistingAgents,
  withRun,
  forgetRun,
  watchedMs,
  type Dispatcher,
  type DispatchPolicies,
} from './dispatcher.js'
import { abortOf, iso, openRun, worktreeOf } from '../tasks/task-fields.js'
import { collectChanges } from './evidence/collect-changes.js'
import { collectEvidence, type WorktreeWork } from './evidence/collect-evidence.js'
import { mergingPayload, readWork, worktreeChanges, type RunChanges } from './evidence/worktree-work.js'
import { releaseWorktree } from './workspace.js'
import { feedbackCleared } from '../tasks/feedback.js'
import { failureCleared, recordedChanges, recordedFailure } from '../tasks/last-failure.js'
import { closedAlert } from '../tasks/person-alerts.js'
import { handoffEntry } from '../tasks/reminders.js'
import { parseObject } from '../policies/inside.js'
import { accept, claimsOf, type EvidenceRecord, type Problems } from '../policies/acceptance.js'
import { eligibleChain } from '../policies/eligible.js'
import {
  budgetPayload,
  budgetsOf,
  counted,
  degradeEffects,
  policyKeys,
  recordAndCheckBudget,
  type Usage,
} from '../policies/budget.js'
import type { Backfill, LessonSource } from '../policies/knowledge.js'
import { reportedFailure } from '../policies/reported-failure.js'
import { recover, recoveryCleared, recoveryOf, recoveryPayload } from '../policies/recovery.js'
import { recoveryFields, spawnReport, type Ended, type SpawnReport } from './report.js'
import type { BoardState, Draft, Run, Task, TaskEvent } from '../log/task.js'

/** The result of the run before budget and recovery are applied. */
type Verdict =
  | { readonly is: 'done'; readonly evidence: EvidenceRecord; readonly work?: WorktreeWork }
  /** The recovery chain decides who retries. */
  | {
      readonly is: 'failed'
      readonly reasonCode: string
      readonly detail: string
      readonly problems?: Problems
      readonly work?: WorktreeWork
    }
  /** No agent can help: it needs a person. */
  | { readonly is: 'person'; readonly reasonCode: string; readonly detail: string }

export interface Closing extends Usage {
  readonly outcome: string
  readonly error: string | null
  readonly agentTurnId: string | null
  readonly exceededKeys?: readonly BudgetKey[]
  readonly agentLimits?: readonly BudgetKey[]
  readonly deliverable?: Readonly<Record<string, unknown>> | null
  readonly verdict: Verdict
  /** What the run changed. */
  readonly changed?: RunChanges
}

export type Settled =
  | { readonly result: 'closed'; readonly status: Task['status']; readonly backfill: Backfill | null }
  /** Another process closed it, or this process is already closing it. */
  | { readonly result: 'already_closed' }
  /** The evidence is not available yet. */
  | { readonly result: 'waiting'; readonly why: readonly string[] }

export interface RunName {
  readonly taskId: string
  readonly runId: string
}

// How much of a deliverable is copied to its task; the kernel's card has all of it.
const deliverableMaxChars = 16_384
const evidenceFilesMax = 100
const reasonMaxChars = 2_000

export async function settle(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  run: RunName,
  ended: Ended,
): Promise<Settled> {
  const settled = await withRun(dispatcher, run.runId, async (): Promise<Settled> => {
    const task = dispatcher.board.state.tasks.get(run.taskId)
    if (task === undefined || openRun(task)?.runId !== run.runId) return { result: 'already_closed' }
    const verdict = await decideVerdict(dispatcher, policies, task, run.runId, ended)
    if ('waiting' in verdict) return { result: 'waiting', why: verdict.waiting }
    const work = 'work' in verdict ? verdict.work : undefined
    const { files } = claimsOf(ended.deliverable, work?.root ?? dispatcher.board.root)
    const changed =
      worktreeOf(task) === null
        ? { changes: await collectChanges(dispatcher, policies, task, run.runId, files) }
        : worktreeChanges(run.runId, work, files)
    if (verdict.is !== 'failed') dispatcher.startStates.drop(run.taskId)
    return closeRun(dispatcher, policies, run, { ...ended, verdict, changed })
  })
  return settled ?? { result: 'already_closed' }
}

/** How the run ended: from the outcome, an abort, a failure that the agent reported, and the evidence. */
async function decideVerdict(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  task: Task,
  runId: string,
  ended: Ended,
): Promise<Verdict | { readonly waiting: readonly string[] }> {
  const detail = ended.explanation ?? ended.error ?? `the turn ended with ${ended.outcome}`
  if (ended.outcome !== 'success') {
    if (ended.error === budgetExceeded) return { is: 'failed', reasonCode: budgetExceeded, detail }
    return { is: 'failed', reasonCode: 'spawn_failed', detail }
  }
  // An aborted task needs no evidence.
  if (abortOf(task) !== null) return { is: 'failed', reasonCode: 'aborted', detail: 'it was aborted' }
  const failure = reportedFailure(ended.deliverable)
  if (failure !== null) return { is: 'failed', ...failure }
  const work = await readWork(dispatcher, policies, task)
  if (work !== null && 'unfinished' in work)
    return { is: 'failed', reasonCode: 'incomplete_output', detail: work.unfinished }
  if (work !== null && 'unreadable' in work) return evidenceLater(dispatcher, policies, runId, [work.unreadable])
  const findings = await collectEvidence(dispatcher, policies, task, ended.deliverable, work)
  if (findings.waitFor.length > 0) {
    // Decide only when all files can be inspected: a view that is not ready proves nothing, not even a missing file.
    const why = findings.waitFor.map((path) => `${path} cannot be inspected yet`)
    return evidenceLater(dispatcher, policies, runId, why)
  }
  const acceptance = accept(policies.acceptance, task, ended.deliverable, findings)
  if (acceptance.verdict === 'done') return { is: 'done', evidence: acceptance.evidence, ...(work && { work }) }
  const problems = 'problems' in acceptance ? { problems: acceptance.problems } : {}
  const reasons = acceptance.reasons.join('; ')
  return { is: 'failed', reasonCode: 'incomplete_output', detail: reasons, ...problems, ...(work && { work }) }
}

/** Waits for evidence that cannot be read now; after the time that the policy allows, a person decides. */
function evidenceLater(
  dispatcher: Dispatcher,
  { acceptance }: DispatchPolicies,
  runId: string,
  why: readonly string[],
): Verdict | { readonly waiting: readonly string[] } {
  const overdue = watchedMs(dispatcher, runId, 'evidence') >= acceptance.maxWaitSec * 1_000
  return overdue ? { is: 'person', reasonCode: 'evidence_unavailable', detail: why.join('; ') } : { waiting: why }
}

/** Writes the line that closes the run, then raises an alert and records the lesson. */
export async function closeRun(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  run: RunName,
  closing: Closing,
): Promise<Settled> {
  const failed = dispatcher.board.state.tasks.get(run.taskId)?.assignee ?? null
  const usable = closing.verdict.is === 'failed' ? await withExistingAgents(dispatcher, policies, failed) : policies
  const write = (end: Closing) =>
    dispatcher.board.write((state) =>
      closingDrafts(state, usable, run, end, dispatcher.clock.wallMs(), dispatcher.actor),
    )
  let lines: readonly TaskEvent[]
  try {
    lines = await write(closing)
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    // A value cannot be written to the log. Close the run without it and hand the task to a person.
    dispatcher.log.error({ err: error, ...run }, 'cannot record the end of a run as reported')
    const detail = `the end of the run cannot be recorded: ${error.message.slice(0, 200)}`
    const { deliverable: _dropped, ...rest } = closing
    lines = await write({ ...rest, verdict: { is: 'person', reasonCode: 'unrecordable', detail } })
  }
  forgetRun(dispatcher, run.runId)
  const task = dispatcher.board.state.tasks.get(run.taskId)
  if (lines.length === 0 || task === undefined) return { result: 'already_closed' }
  const spawn = lines.at(-1)?.payload['spawn'] as SpawnReport | undefined
  if (spawn?.recoveryState === 'escalated_to_human' || spawn?.recoveryState === 'human_handoff')
    dispatcher.alerts.raise(closedAlert(task))
  await releaseWorktree(dispatcher, policies, run.taskId)
  const done = closing.verdict.is === 'done' && spawn?.reasonCode === null
  const backfill =
    done || spawn === undefined
      ? null
      : await backfillLesson(dispatcher, policies, {
          taskId: run.taskId,
          agent: spawn.agent,
          reasonCode: spawn.reasonCode ?? closing.outcome,
          detail: spawn.error ?? '',
        })
  return { result: 'closed', status: task.status, backfill }
}

/** Best effort: the run is already closed. */
async function backfillLesson(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  lesson: LessonSource,
): Promise<Backfill> {
  try {
    const call = { kind: 'local_state', name: `recording the lesson of ${lesson.taskId}` } as const
    return await retryCall(policies.calls, call, () => dispatcher.knowledge.backfill(lesson), dispatcher)
  } catch (error) {
    const reason = errorMessage(error)
    return { written: false, mistakes: 0, patterns: 0, tags: [], reason }
  }
}

/** Pure. No draft: the run is already closed. */
function closingDrafts(
  state: BoardState,
  policies: DispatchPolicies,
  { taskId, runId }: RunName,
  closing: Closing,
  nowMs: number,
  actor: string,
): readonly Draft[] {
  const task = state.tasks.get(taskId)
  const run = task === undefined ? null : openRun(task)
  if (task === undefined || run?.runId !== runId) return []
  const { outcome, verdict } = closing
  const [tokenUsage, elapsedMs] = [counted(closing.tokenUsage), counted(closing.elapsedMs)]
  const costMicros = counted(closing.costMicros ?? 0)
  const isStopped = verdict.is === 'failed' && verdict.reasonCode === budgetExceeded
  const stoppedBy = isStopped ? policyKeys(closing.exceededKeys ?? []) : undefined
  const agentLimits = policyKeys(closing.agentLimits ?? [])
  const usage = { ...closing, taskId, agent: run.agent, stoppedBy, agentLimits }
  const budget = recordAndCheckBudget(policies.budget, budgetsOf(task), usage, iso(nowMs))
  const ending = {
    runId,
    outcome,
    tokenUsage,
    elapsedMs,
    ...defined({ agentTurnId: closing.agentTurnId ?? undefined }),
    ...budgetPayload(task, budget.entry),
    ...(closing.deliverable === undefined ? {} : { deliverable: boundedDeliverable(closing.deliverable) }),
    ...recordedReasons(task, runId, closing),
  }
  const error = verdict.is === 'done' ? null : verdict.detail.slice(0, reasonMaxChars)
  const about = { runId, agent: run.agent, agentTurnId: closing.agentTurnId ?? run.agentTurnId ?? null, outcome, error }
  const metrics = { elapsedMs, tokenUsage, costMicros }
  // A person moved the task during the turn: record the result, change nothing else.
  if (task.status !== 'in_progress')
    return [
      {
        taskId,
        type: 'task_noted',
        actor,
        payload: { ...ending, abort: null, spawn: spawnReport(about, { metrics }) },
      },
    ]

  const abort = abortOf(task)
  if (abort !== null) {
    const spawn = spawnReport(about, { metrics, reasonCode: 'aborted' })
    const reason = `aborted by ${abort.by}${abort.reason === undefined ? '' : `: ${abort.reason}`}`
    return [
      { taskId, type: 'task_failed', actor, payload: { ...ending, reason, reasonCode: 'aborted', abort: null, spawn } },
    ]
  }
  if (!budget.verdict.allowed) {
    const { degradeAction, exceededKeys, reasonCode, nextAssignee, action } = budget.verdict
    const entry = handoffEntry(policies.recovery, taskId, reasonCode, nowMs, 'escalate')
    const spawn = spawnReport(
      { ...about, error: budget.verdict.text },
      {
        metrics,
        reasonCode,
        nextAssignee,
        action,
        degradeAction,
        degradeEffect: degradeEffects[degradeAction],
        exceededKeys,
        recoveryState: entry.recoveryState,
      },
    )
    const accepted = verdict.is === 'done' ? { evidence: boundedEvidence(verdict.evidence) } : {}
    const payload = { ...ending, ...accepted, spawn, degradeAction }
    if (degradeAction === 'stop_run')
      return [{ taskId, type: 'task_failed', actor, payload: { ...payload, reason: reasonCode, reasonCode } }]
    const assigned = degradeAction === 'manual_handoff' ? { assignee: nextAssignee } : {}
    return [blocked(task, actor, reasonCode, reasonCode, { ...payload, ...assigned, ...recoveryPayload(task, entry) })]
  }
  if (verdict.is === 'done') {
    const spawn = spawnReport(about, { metrics, attempt: task.runs.length })
    const merging = mergingPayload(task, verdict.work)
    const type = needsReview(task) || 'merging' in merging ? 'task_review' : 'task_done'
    return [
      {
        taskId,
        type,
        actor,
        payload: {
          ...ending,
          evidence: boundedEvidence(verdict.evidence),
          reasonCode: null,
          spawn,
          ...recoveryCleared,
          ...feedbackCleared(task),
          ...merging,
        },
      },
    ]
  }
  if (verdict.is === 'person') {
    const { reasonCode } = verdict
    const entry = handoffEntry(policies.recovery, taskId, reasonCode, nowMs, 'escalate')
    const { nextAssignee, action, recoveryState } = entry
    const spawn = spawnReport(about, { metrics, reasonCode, nextAssignee, action, recoveryState })
    return [
      blocked(task, actor, reasonCode, `${reasonCode}: ${verdict.detail}`, {
        ...ending,
        spawn,
        ...recoveryPayload(task, entry),
      }),
    ]
  }
  return [failed(task, run, policies, verdict, { ending, about, metrics, nowMs, actor })]
}

/** What failed and what changed, for people and for the next run; cleared when it no longer holds. */
function recordedReasons(task: Task, runId: string, { verdict, changed = { changes: null } }: Closing) {
  const { changes, ...more } = changed
  const problems = verdict.is === 'failed' ? verdict.problems : undefined
  return {
    ...failureCleared(task),
    ...(problems === undefined ? {} : { failure: recordedFailure(runId, problems) }),
    ...recordedChanges(task, changes),
    ...more,
  }
}

const needsReview = ({ fields }: Task): boolean => fields['review'] === true

interface Parts {
  readonly ending: Readonly<Record<string, unknown>>
  readonly about: Pick<SpawnReport, 'runId' | 'agent' | 'agentTurnId' | 'outcome' | 'error'>
  readonly metrics: SpawnReport['metrics']
  readonly nowMs: number
  readonly actor: string
}

function failed(
  task: Task,
  run: Run,
  policies: DispatchPolicies,
  verdict: Extract<Verdict, { is: 'failed' }>,
  parts: Parts,
): Draft {
  const { reasonCode } = verdict
  const failure = { taskId: task.taskId, reasonCode, assignee: run.agent }
  const recovery = eligibleChain(policies.recovery, policies.runtime?.agents ?? [], task)
  const decision = recover(recovery, recoveryOf(task, reasonCode), failure, parts.nowMs)
  const spawn = spawnReport(parts.about, { metrics: parts.metrics, ...recoveryFields(decision) })
  return blocked(task, parts.actor, reasonCode, decision.blockedReason, {
    ...parts.ending,
    spawn,
    ...recoveryPayload(task, decision.entry),
  })
}

function blocked(
  task: Task,
  actor: string,
  reasonCode: string,
  reason: string,
  payload: Readonly<Record<string, unknown>>,
): Draft {
  return {
    taskId: task.taskId,
    type: 'task_blocked',
    actor,
    payload: { ...payload, reason: reason.slice(0, reasonMaxChars), reasonCode },
  }
}

function boundedDeliverable(deliverable: Readonly<Record<string, unknown>> | null): unknown {
  if (deliverable === null) return null
  const text = JSON.stringify(deliverable)
  if (text.length <= deliverableMaxChars && 'value' in parseObject(text)) return deliverable
  return { cut: true, start: text.slice(0, deliverableMaxChars) }
}

/** Bounds the line: files beyond the first hundred are counted, not listed. */
function boundedEvidence(evidence: EvidenceRecord): Readonly<Record<string, unknown>> {
  const { files, commands, fields } = evidence
  const more = files.length - evidenceFilesMax
  return { files: files.slice(0, evidenceFilesMax), commands, fields, ...(more > 0 ? { moreFiles: more } : {}) }
}
