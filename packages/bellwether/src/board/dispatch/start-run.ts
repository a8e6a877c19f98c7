/**
 * The first half of a dispatch: claim → budget precheck → hints → intent line → spawn. Always: the intent line is in the log
 * before anything is spawned, and its id is the spawn's key; whoever lost the claim meanwhile stops without an effect; a
 * process that slept between intent and spawn leaves the run to the reconciler. How a run ends is left to settle.ts.
 */
import { retryCall } from '../../ports/retry.js'
import { withRun, concurrencyLimit, type Dispatcher, type DispatchPolicies } from './dispatcher.js'
import { abortOf, claimOf, frozenOf, iso, pausedBy } from '../tasks/task-fields.js'
import { kernelIdentity, spawnTurn, buildPrompt } from './spawn-turn.js'
import type { KernelIdentity } from '../ports.js'
import { handoffEntry } from '../tasks/reminders.js'
import { budgetOf, precheckBudget } from '../policies/budget.js'
import type { KnowledgeOutcome } from '../policies/knowledge.js'
import { recoveryPayload } from '../policies/recovery.js'
import type { Readiness, ReadyRules } from '../tasks/ready.js'
import { spawnReport } from './report.js'
import type { BoardState, Draft, Task } from '../log/task.js'
import { inFlight } from '../tasks/open-runs.js'

/** Which task, decided under the lock; a text says why none. */
export type TaskPicker = (
  state: BoardState,
  nowMs: number,
  rules: ReadyRules,
) => { readonly task: Task; readonly readiness: Readiness } | { readonly none: string }

export type StartResult =
  | { readonly started: 'no'; readonly why: string }
  /** The budget forbade it; the task is blocked, nothing was spawned. */
  | { readonly started: 'over_budget'; readonly taskId: string }
  | {
      readonly started: 'yes'
      readonly taskId: string
      readonly runId: string
      readonly knowledge: KnowledgeOutcome
    }

// It stands in the log with every run.
const tokenMaxChars = 4_096

interface Claimed {
  readonly taskId: string
  readonly agent: string
  readonly claimId: string
  readonly allowed: boolean
}

export async function startRun(dispatcher: Dispatcher, pick: TaskPicker): Promise<StartResult> {
  const policies = await dispatcher.policies()
  const claimed = await claim(dispatcher, policies, pick)
  if (typeof claimed === 'string') return { started: 'no', why: claimed }
  const { taskId } = claimed
  if (!claimed.allowed) return { started: 'over_budget', taskId }
  const task = dispatcher.board.state.tasks.get(taskId)!
  const { prompt, told } = await buildPrompt(dispatcher, policies, task)
  const changeToken = await takeChangeToken(dispatcher, policies)
  const kernel = await kernelIdentity(dispatcher, policies)
  const runId = dispatcher.ids.next()
  const started = await withRun(dispatcher, runId, async (): Promise<StartResult> => {
    const beforeMs = dispatcher.clock.monotonicMs()
    const refusal = await writeIntent(dispatcher, policies, claimed, { runId, changeToken, kernel, knowledge: told })
    if (refusal !== null) return { started: 'no', why: refusal }
    await spawnTurn(dispatcher, policies, claimed, { runId, prompt, beforeMs })
    return { started: 'yes', taskId, runId, knowledge: told }
  })
  return started ?? { started: 'no', why: 'it is in hand' }
}

/** The claim, and with an exhausted budget its end, as one group of lines. */
async function claim(dispatcher: Dispatcher, policies: DispatchPolicies, pick: TaskPicker): Promise<Claimed | string> {
  const { actor, settings } = dispatcher
  const claimId = dispatcher.ids.next()
  let result: Claimed | string = ''
  await dispatcher.board.write((state) => {
    const nowMs = dispatcher.clock.wallMs()
    const paused = pausedBy(state)
    if (paused !== null) return refuse(`${paused.by} paused the board`)
    const flying = inFlight(state, nowMs)
    if (flying >= concurrencyLimit(dispatcher, policies))
      return refuse(`${flying} turns are under way, and no more may be`)
    const picked = pick(state, nowMs, { firstAgent: settings.firstAgent, recovery: policies.recovery })
    if ('none' in picked) return refuse(picked.none)
    const { task, readiness } = picked
    if (!readiness.ready) return refuse(readiness.why)
    const agent = readiness.assignee
    const { taskId } = task
    const verdict = precheckBudget(policies.budget, budgetOf(task, agent), agent)
    result = { taskId, agent, claimId, allowed: verdict.allowed }
    const hold = { id: claimId, by: actor, since: iso(nowMs), until: iso(nowMs + settings.claimLeaseMs) }
    // A claim that ran out is taken over in place: the status is there already.
    const type = task.status === 'claimed' ? 'task_noted' : 'task_claimed'
    const drafts: Draft[] = [{ taskId, type, actor, payload: { assignee: agent, claim: hold } }]
    if (verdict.allowed) return drafts
    const { reasonCode, nextAssignee, action, degradeAction, exceededKeys } = verdict
    const entry = handoffEntry(policies.recovery, taskId, reasonCode, nowMs, 'escalate')
    const spent = budgetOf(task, agent)
    const spawn = spawnReport(
      { runId: null, agent, agentTurnId: null, outcome: 'not_spawned', error: null },
      {
        reasonCode,
        nextAssignee,
        action,
        recoveryState: entry.recoveryState,
        degradeAction,
        exceededKeys,
        metrics: { elapsedMs: spent?.elapsedMs ?? 0, tokenUsage: spent?.tokenUsage ?? 0 },
      },
    )
    const payload = { reason: reasonCode, reasonCode, claim: null, spawn, ...recoveryPayload(task, entry) }
    return [...drafts, { taskId, type: 'task_blocked', actor, payload }]
  })
  return result

  function refuse(why: string): readonly Draft[] {
    result = why
    return []
  }
}

async function takeChangeToken(dispatcher: Dispatcher, policies: DispatchPolicies): Promise<string | null> {
  try {
    const call = { kind: 'local_state', name: 'the change token' } as const
    const token = await retryCall(policies.calls, call, (signal) => dispatcher.evidence.changeToken(signal), dispatcher)
    return token.length <= tokenMaxChars ? token : null
  } catch (error) {
    // Without it, files cannot be told from what was there before, and acceptance says so.
    dispatcher.log.warn({ err: error }, 'no change token could be taken')
    return null
  }
}

interface Intent {
  readonly runId: string
  readonly changeToken: string | null
  readonly kernel: KernelIdentity | null
  readonly knowledge: KnowledgeOutcome
}

/** Writes the intent line; a text says why not. */
async function writeIntent(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  { taskId, agent, claimId }: Claimed,
  { runId, changeToken, kernel, knowledge }: Intent,
): Promise<string | null> {
  let refused: string | null = null
  const lines = await dispatcher.board.write((state) => {
    // Decided again when the lock was lost meanwhile: what was thought before does not count.
    refused = null
    const task = state.tasks.get(taskId)
    const hold = task === undefined ? null : claimOf(task)
    if (task?.status !== 'claimed' || hold?.id !== claimId) return refuse('somebody else has taken it meanwhile')
    const stop = pausedBy(state) ?? frozenOf(task) ?? abortOf(task)
    const crowded = inFlight(state, dispatcher.clock.wallMs()) > concurrencyLimit(dispatcher, policies)
    if (stop !== null || crowded) {
      refused = stop === null ? 'too many turns are under way' : `${stop.by} stopped it`
      const over = { ...hold, until: hold.since }
      return [{ taskId, type: 'task_noted', actor: dispatcher.actor, payload: { claim: over } }]
    }
    const payload = {
      run: { agent },
      assignee: agent,
      claim: null,
      reasonCode: null,
      changeToken,
      // Whom it was meant for: what lets a reconciler tell "never started" from "forgotten".
      intent: kernel === null ? null : { runId, kernel: kernel.id, atMs: kernel.nowMs, again: 0 },
      knowledge: { knowledgeTags: knowledge.knowledgeTags, degraded: knowledge.degraded },
    }
    return [{ eventId: runId, taskId, type: 'task_started', actor: dispatcher.actor, payload }]
  })
  return refused ?? (lines.length === 0 ? 'somebody else has taken it meanwhile' : null)

  function refuse(why: string): readonly Draft[] {
    refused = why
    return []
  }
}
