/**
 * The first half of a dispatch: claim → budget precheck → hints → intent line → spawn. The intent line is in the log before
 * the turn is spawned, and its id is the spawn key. A dispatcher that lost its claim stops without an effect; one that was
 * stopped between intent and spawn leaves the run to the reconciler. settle.ts closes runs.
 */
import { defined } from '@bellwether/base'
import { retryCall } from '../../ports/retry.js'
import {
  findMissing,
  withRun,
  concurrencyLimit,
  readyRules,
  type Dispatcher,
  type DispatchPolicies,
} from './dispatcher.js'
import { abortOf, claimOf, frozenOf, hintedAgent, iso, pausedBy } from '../tasks/task-fields.js'
import { kernelIdentity, spawnTurn, buildPrompt, type RunDegrade } from './spawn-turn.js'
import type { KernelIdentity } from '../ports.js'
import { openWorkspace, refuseWorkspace, workspacePayload, type OpenedWorkspace } from './workspace.js'
import { handoffEntry } from '../tasks/reminders.js'
import { chooseAgent } from '../policies/eligible.js'
import { budgetsOf, degradeEffects, precheckBudget, usedByTask } from '../policies/budget.js'
import type { KnowledgeOutcome } from '@bellwether/protocol/http'
import { recoveryPayload } from '../policies/recovery.js'
import type { NextTask } from '../tasks/next-task.js'
import type { ReadyRules, WaitCode } from '../tasks/ready.js'
import { spawnReport } from './report.js'
import { changesOf } from '../tasks/last-failure.js'
import type { BoardState, Draft, Task } from '../log/task.js'
import { inFlight } from '../tasks/open-runs.js'

/** Selects the task, under the lock. */
export type TaskPicker = (state: BoardState, nowMs: number, rules: ReadyRules) => NextTask

export type StartResult =
  | { readonly started: 'no'; readonly why: string; readonly code?: WaitCode }
  /** The budget is used up: the task is blocked, and no turn was spawned. */
  | { readonly started: 'over_budget'; readonly taskId: string }
  | { readonly started: 'yes'; readonly taskId: string; readonly runId: string; readonly knowledge: KnowledgeOutcome }

// Every run stores it in the log.
const tokenMaxChars = 4_096

interface Claimed {
  readonly taskId: string
  readonly agent: string
  readonly claimId: string
  readonly allowed: boolean
}

export async function startRun(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  pick: TaskPicker,
): Promise<StartResult> {
  const claimed = await claim(dispatcher, policies, pick)
  if ('why' in claimed) return { started: 'no', ...claimed }
  const { taskId } = claimed
  if (!claimed.allowed) return { started: 'over_budget', taskId }
  const task = dispatcher.board.state.tasks.get(taskId)!
  const workspace = await openWorkspace(dispatcher, policies, task, claimed.agent)
  if ('refused' in workspace)
    return { started: 'no', why: await refuseWorkspace(dispatcher, policies, claimed, workspace) }
  const { worktree } = workspace
  const { prompt, knowledge, degrade } = await buildPrompt(dispatcher, policies, task, claimed.agent, worktree)
  // At the same time: each of them may wait for another process.
  const [changeToken, baseCommit, kernel] = await Promise.all([
    takeChangeToken(dispatcher, policies),
    readStart(dispatcher, policies, task, worktree),
    kernelIdentity(dispatcher, policies),
  ])
  const readMs = dispatcher.clock.monotonicMs()
  const runId = dispatcher.ids.next()
  const started = await withRun(dispatcher, runId, async (): Promise<StartResult> => {
    let beforeMs = readMs
    // The line is valid from here on: the wait for the lock does not count.
    const begin = () => (beforeMs = dispatcher.clock.monotonicMs()) - readMs
    const intent = { runId, changeToken, baseCommit, kernel, knowledge, degrade, workspace, begin }
    const refusal = await writeIntent(dispatcher, policies, claimed, intent)
    if (refusal !== null) return { started: 'no', why: refusal }
    await spawnTurn(dispatcher, policies, claimed, { runId, prompt, beforeMs })
    return { started: 'yes', taskId, runId, knowledge }
  })
  return started ?? { started: 'no', why: 'this process is already working on it' }
}

interface Refusal {
  readonly why: string
  readonly code?: WaitCode
}

/** Claims the task; if its budget is used up, also blocks it in the same group of lines. */
async function claim(dispatcher: Dispatcher, policies: DispatchPolicies, pick: TaskPicker): Promise<Claimed | Refusal> {
  const { actor, settings } = dispatcher
  const claimId = dispatcher.ids.next()
  const rules = readyRules(dispatcher, policies)
  // A hint of the reference may be any name, also that of a person: only an agent can get the task.
  const likely = pick(dispatcher.board.state, dispatcher.clock.wallMs(), rules).task
  const hint = likely === null ? null : hintedAgent(likely)
  const missing = await findMissing(dispatcher, policies, hint === null ? [] : [hint])
  let result: Claimed | Refusal = { why: '' }
  await dispatcher.board.write((state) => {
    const nowMs = dispatcher.clock.wallMs()
    const paused = pausedBy(state)
    if (paused !== null) return refuse(`${paused.by} paused the board`)
    const inFlightNow = inFlight(state, nowMs)
    if (inFlightNow >= concurrencyLimit(dispatcher, policies))
      return refuse(`the limit of concurrent turns and merges is reached (${inFlightNow})`)
    const next = pick(state, nowMs, rules)
    if (next.task === null) return refuse(next.because, next.code)
    const { task } = next
    const isMissing = hintedAgent(task) !== null && missing.has(next.assignee)
    const choice = isMissing
      ? chooseAgent(rules.agents ?? [], task, settings.firstAgent, false)
      : { agent: next.assignee }
    if ('why' in choice) return refuse(choice.why, 'no_agent')
    const { agent } = choice
    const { taskId } = task
    const verdict = precheckBudget(policies.budget, budgetsOf(task), agent)
    result = { taskId, agent, claimId, allowed: verdict.allowed }
    const hold = { id: claimId, by: actor, since: iso(nowMs), until: iso(nowMs + settings.claimLeaseMs) }
    // An expired claim is taken over in place: the task already has the status.
    const type = task.status === 'claimed' ? 'task_noted' : 'task_claimed'
    const drafts: Draft[] = [{ taskId, type, actor, payload: { assignee: agent, claim: hold } }]
    if (verdict.allowed) return drafts
    const { reasonCode, nextAssignee, action, degradeAction, exceededKeys } = verdict
    const entry = handoffEntry(policies.recovery, taskId, reasonCode, nowMs, 'escalate')
    const spent = usedByTask(budgetsOf(task))
    const spawn = spawnReport(
      { runId: null, agent, agentTurnId: null, outcome: 'not_spawned', error: verdict.text },
      {
        reasonCode,
        nextAssignee,
        action,
        recoveryState: entry.recoveryState,
        degradeAction,
        degradeEffect: degradeEffects[degradeAction],
        exceededKeys,
        metrics: { elapsedMs: spent.wallTimeMs, tokenUsage: spent.tokens, costMicros: spent.costMicros },
      },
    )
    const payload = { reason: reasonCode, reasonCode, claim: null, spawn, ...recoveryPayload(task, entry) }
    return [...drafts, { taskId, type: 'task_blocked', actor, payload }]
  })
  return result

  function refuse(why: string, code?: WaitCode): readonly Draft[] {
    result = { why, ...defined({ code }) }
    return []
  }
}

async function takeChangeToken(dispatcher: Dispatcher, policies: DispatchPolicies): Promise<string | null> {
  try {
    const call = { kind: 'local_state', name: 'the change token' } as const
    const token = await retryCall(policies.calls, call, (signal) => dispatcher.evidence.changeToken(signal), dispatcher)
    return token.length <= tokenMaxChars ? token : null
  } catch (error) {
    // Without a token, acceptance cannot see which files changed, and reports that.
    dispatcher.log.warn({ err: error }, 'cannot take a change token')
    return null
  }
}

/** The commit that is checked out; a diff of the run is made against it. */
async function readCommit({ git, ...dispatcher }: Dispatcher, policies: DispatchPolicies): Promise<string | null> {
  if (git === undefined) return null
  try {
    const call = { kind: 'local_state', name: 'reading the commit' } as const
    const found = await retryCall(policies.calls, call, (signal) => git.head(signal), dispatcher)
    return 'commit' in found ? found.commit : null
  } catch (error) {
    dispatcher.log.warn({ err: error }, 'cannot read the commit of the task root')
    return null
  }
}

/** The commit of the project folder. If it has none, its files are read instead, unless the task has a worktree. */
async function readStart(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  task: Task,
  worktree: OpenedWorkspace['worktree'],
): Promise<string | null> {
  const commit = await readCommit(dispatcher, policies)
  if (dispatcher.git !== undefined && commit === null && worktree === null) await takeFiles(dispatcher, task)
  return commit
}

/** Best effort: without them, the changes of the run are a list of paths. */
async function takeFiles({ startStates, board, log }: Dispatcher, task: Task): Promise<void> {
  try {
    await startStates.take(task.taskId, board.root, changesOf(task) !== null)
  } catch (error) {
    log.warn({ err: error, taskId: task.taskId }, 'cannot read the files of the task root')
  }
}

const wasDegraded = ({ fields }: Task) => (fields['degrade'] ?? fields['degradeAction'] ?? null) !== null

interface Intent {
  readonly runId: string
  readonly changeToken: string | null
  readonly baseCommit: string | null
  readonly kernel: KernelIdentity | null | 'unreachable'
  readonly knowledge: KnowledgeOutcome
  readonly degrade: RunDegrade
  readonly workspace: OpenedWorkspace
  /** Called when the line is about to be written. Returns the time since the kernel's clock was read. */
  readonly begin: () => number
}

/** Writes the intent line. A string: why not. */
async function writeIntent(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  { taskId, agent, claimId }: Claimed,
  { runId, changeToken, baseCommit, kernel, knowledge, degrade, workspace, begin }: Intent,
): Promise<string | null> {
  let refused: string | null = null
  const lines = await dispatcher.board.write((state) => {
    // Called again if the lock was lost: discard the earlier result.
    refused = null
    const sinceReadMs = begin()
    const task = state.tasks.get(taskId)
    const hold = task === undefined ? null : claimOf(task)
    if (task?.status !== 'claimed' || hold?.id !== claimId) return refuse('another process claimed it')
    const stop = pausedBy(state) ?? frozenOf(task) ?? abortOf(task)
    const crowded = inFlight(state, dispatcher.clock.wallMs()) > concurrencyLimit(dispatcher, policies)
    // Without the kernel's identity, a spawn that fails could never be repeated, so the task waits for the kernel.
    if (kernel === 'unreachable' || stop !== null || crowded) {
      refused =
        stop !== null
          ? `${stop.by} stopped it`
          : crowded
            ? 'the limit of concurrent turns and merges is reached'
            : 'the kernel is unreachable'
      const over = { ...hold, until: hold.since }
      return [{ taskId, type: 'task_noted', actor: dispatcher.actor, payload: { claim: over } }]
    }
    const payload = {
      run: { agent },
      assignee: agent,
      claim: null,
      reasonCode: null,
      changeToken,
      ...(dispatcher.git === undefined ? {} : { baseCommit }),
      // The kernel that should run it: the reconciler can then distinguish "never started" from "forgotten".
      intent: kernel === null ? null : { runId, kernel: kernel.id, atMs: kernel.nowMs + sinceReadMs, again: 0 },
      knowledge: { knowledgeTags: knowledge.knowledgeTags, degraded: knowledge.degraded },
      ...workspacePayload(task, workspace),
      // The action that was taken at the last limit applies to one run.
      ...(wasDegraded(task) || degrade.actions.length > 0
        ? { degrade: degrade.actions.length > 0 ? degrade : null, degradeAction: null }
        : {}),
    }
    return [{ eventId: runId, taskId, type: 'task_started', actor: dispatcher.actor, payload }]
  })
  return refused ?? (lines.length === 0 ? 'another process claimed it' : null)

  function refuse(why: string): readonly Draft[] {
    refused = why
    return []
  }
}
