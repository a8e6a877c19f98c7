/**
 * The first half of a dispatch: claim → budget precheck → hints → intent line → spawn. Always: the intent line is in the log
 * before anything is spawned, and its id is the spawn's key; whoever lost the claim meanwhile stops without an effect; a
 * process that slept between intent and spawn leaves the run to the reconciler. How a run ends is left to settle.ts.
 */
import { Terminal } from '@bellwether/protocol'
import { retrying } from '../ports/retry.js'
import { forget, holding, roomOf, type Desk, type DeskPolicies } from './desk.js'
import { abortOf, claimOf, frozenOf, iso, isOver, openRun, pausedBy } from './facts.js'
import type { TurnStanding } from './outside.js'
import { personEntry } from './people.js'
import { budgetOf, precheckBudget, spawnBudget } from './policies/budget.js'
import type { KnowledgeOutcome } from './policies/knowledge.js'
import { recoveryPayload } from './policies/recovery.js'
import { promptFor } from './prompt.js'
import type { Readiness, ReadyRules } from './ready.js'
import { spawnReport } from './report.js'
import { closeRun } from './settle.js'
import type { BoardState, Draft, Task } from './task.js'

/** Which task, decided under the lock; a text says why none. */
export type Pick = (
  state: BoardState,
  nowMs: number,
  rules: ReadyRules,
) => { readonly task: Task; readonly readiness: Readiness } | { readonly none: string }

export type Begun =
  | { readonly begun: 'no'; readonly why: string }
  /** The budget forbade it; the task is blocked, nothing was spawned. */
  | { readonly begun: 'over_budget'; readonly taskId: string }
  | {
      readonly begun: 'yes'
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

/** Turns under way, and claims about to become some. */
export function inFlight(state: BoardState, nowMs: number): number {
  let count = 0
  for (const task of state.tasks.values()) {
    const claim = task.status === 'claimed' ? claimOf(task) : null
    if (openRun(task) !== null || (claim !== null && !isOver(claim, nowMs))) count += 1
  }
  return count
}

export async function begin(desk: Desk, pick: Pick): Promise<Begun> {
  const policies = await desk.policies()
  const claimed = await claim(desk, policies, pick)
  if (typeof claimed === 'string') return { begun: 'no', why: claimed }
  const { taskId } = claimed
  if (!claimed.allowed) return { begun: 'over_budget', taskId }
  const task = desk.board.state.tasks.get(taskId)!
  const { section, told } = await hintsFor(desk, task)
  const changeToken = await takeToken(desk, policies)
  const runId = desk.ids.next()
  const begun = await holding(desk, runId, async (): Promise<Begun> => {
    const beforeMs = desk.clock.monotonicMs()
    const refusal = await intend(desk, policies, claimed, { runId, changeToken, knowledge: told })
    if (refusal !== null) return { begun: 'no', why: refusal }
    const prompt = promptFor({
      task,
      policy: policies.acceptance,
      hints: section,
      reduced: task.fields['degradeAction'] === 'reduced_context',
    })
    await launch(desk, policies, claimed, { runId, prompt, beforeMs })
    return { begun: 'yes', taskId, runId, knowledge: told }
  })
  return begun ?? { begun: 'no', why: 'it is in hand' }
}

/** Advice is welcome and never owed: whatever goes wrong with it is told, and the dispatch goes on. */
async function hintsFor(desk: Desk, task: Task): ReturnType<Desk['knowledge']['hints']> {
  try {
    return await desk.knowledge.hints(task)
  } catch (error) {
    const degradeReason = `the hints failed: ${error instanceof Error ? error.message : String(error)}`
    return { section: '', told: { degraded: true, degradeReason, knowledgeTags: [], backfill: null } }
  }
}

/** The claim, and with an exhausted budget its end, as one group of lines. */
async function claim(desk: Desk, policies: DeskPolicies, pick: Pick): Promise<Claimed | string> {
  const { actor, settings } = desk
  const claimId = desk.ids.next()
  let result: Claimed | string = ''
  await desk.board.write((state) => {
    const nowMs = desk.clock.wallMs()
    const paused = pausedBy(state)
    if (paused !== null) return refuse(`${paused.by} paused the board`)
    const flying = inFlight(state, nowMs)
    if (flying >= roomOf(desk, policies)) return refuse(`${flying} turns are under way, and no more may be`)
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
    const entry = personEntry(policies.recovery, taskId, reasonCode, nowMs, 'escalate')
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

async function takeToken(desk: Desk, policies: DeskPolicies): Promise<string | null> {
  try {
    const call = { kind: 'local_state', name: 'the change token' } as const
    const token = await retrying(policies.calls, call, () => desk.evidence.changeToken(), desk)
    return token.length <= tokenMaxChars ? token : null
  } catch (error) {
    // Without it, files cannot be told from what was there before, and acceptance says so.
    desk.log.warn({ err: error }, 'no change token could be taken')
    return null
  }
}

interface Intent {
  readonly runId: string
  readonly changeToken: string | null
  readonly knowledge: KnowledgeOutcome
}

/** Writes the intent line; a text says why not. */
async function intend(
  desk: Desk,
  policies: DeskPolicies,
  { taskId, agent, claimId }: Claimed,
  { runId, changeToken, knowledge }: Intent,
): Promise<string | null> {
  let refused: string | null = null
  const lines = await desk.board.write((state) => {
    // Decided again when the lock was lost meanwhile: what was thought before does not count.
    refused = null
    const task = state.tasks.get(taskId)
    const hold = task === undefined ? null : claimOf(task)
    if (task?.status !== 'claimed' || hold?.id !== claimId) return refuse('somebody else has taken it meanwhile')
    const stop = pausedBy(state) ?? frozenOf(task) ?? abortOf(task)
    const crowded = inFlight(state, desk.clock.wallMs()) > roomOf(desk, policies)
    if (stop !== null || crowded) {
      refused = stop === null ? 'too many turns are under way' : `${stop.by} stopped it`
      const over = { ...hold, until: hold.since }
      return [{ taskId, type: 'task_noted', actor: desk.actor, payload: { claim: over } }]
    }
    const payload = {
      run: { agent },
      assignee: agent,
      claim: null,
      reasonCode: null,
      changeToken,
      knowledge: { knowledgeTags: knowledge.knowledgeTags, degraded: knowledge.degraded },
    }
    return [{ eventId: runId, taskId, type: 'task_started', actor: desk.actor, payload }]
  })
  return refused ?? (lines.length === 0 ? 'somebody else has taken it meanwhile' : null)

  function refuse(why: string): readonly Draft[] {
    refused = why
    return []
  }
}

interface Launch {
  readonly runId: string
  readonly prompt: string
  /** Before the intent line was written, on the monotonic scale. */
  readonly beforeMs: number
}

async function launch(
  desk: Desk,
  policies: DeskPolicies,
  claimed: Claimed,
  { runId, prompt, beforeMs }: Launch,
): Promise<void> {
  const { taskId, agent } = claimed
  // Whoever slept here for long may have been given up by another process: then nothing is spawned any more.
  if (desk.clock.monotonicMs() - beforeMs > desk.settings.spawnGraceMs / 2) return
  const task = desk.board.state.tasks.get(taskId)
  const verdict = precheckBudget(policies.budget, task === undefined ? undefined : budgetOf(task, agent), agent)
  const request = { key: runId, taskId, agent, prompt, budget: spawnBudget(verdict) }
  const call = { kind: 'command_routing', name: `the spawn of ${taskId}` } as const
  let givenUp = false
  const spawn = (signal: AbortSignal) => {
    const started = desk.spawner.spawn(request, signal)
    // A try that was given up as too late may still begin: then nobody would look at what it does.
    void started.then(
      () => (givenUp ? stopQuietly(desk, policies, runId, 'the spawn was given up') : undefined),
      () => undefined,
    )
    return started
  }
  let agentTurnId: string
  try {
    agentTurnId = (await retrying(policies.calls, call, spawn, desk)).agentTurnId
  } catch (error) {
    givenUp = (await failedSpawn(desk, policies, { taskId, runId }, error)) === 'closed'
    return
  }
  const lines = await desk.board.write((state) => {
    const now = state.tasks.get(taskId)
    const run = now === undefined ? null : openRun(now)
    if (run?.runId !== runId) return []
    return [{ taskId, type: 'task_noted', actor: desk.actor, payload: { runId, agentTurnId } }]
  })
  // Given up by somebody while it was being started: nobody would look at what it does.
  if (lines.length === 0) await stopQuietly(desk, policies, runId, 'the run was closed before it began')
}

async function stopQuietly(desk: Desk, policies: DeskPolicies, runId: string, reason: string): Promise<void> {
  try {
    const call = { kind: 'command_routing', name: `the stop of ${runId}` } as const
    await retrying(policies.calls, call, () => desk.spawner.stop(runId, reason), desk)
  } catch (error) {
    desk.log.warn({ err: error, runId }, 'a turn that nobody waits for could not be stopped')
  }
}

/** The call failed; whether the turn exists only the kernel can tell. */
async function failedSpawn(
  desk: Desk,
  policies: DeskPolicies,
  run: { readonly taskId: string; readonly runId: string },
  error: unknown,
): Promise<'closed' | 'open'> {
  const why = error instanceof Error ? error.message : String(error)
  desk.log.warn({ err: error, ...run }, 'a turn could not be started')
  let standing: TurnStanding
  try {
    const call = { kind: 'command_routing', name: `the standing of ${run.taskId}` } as const
    standing = await retrying(policies.calls, call, () => desk.spawner.standing(run.runId), desk)
  } catch (silence) {
    // The kernel is away: the run stays open, and the reconciler asks when it is back.
    desk.log.warn({ err: silence, ...run }, 'nobody knows whether the turn was started')
    return 'open'
  }
  if (standing.standing !== 'unknown') return 'open'
  const outcome = { outcome: 'failed', error: why, agentTurnId: null, tokenUsage: 0, elapsedMs: 0 } as const
  await closeRun(desk, policies, run, {
    ...outcome,
    verdict: { is: 'failed', reasonCode: 'spawn_failed', detail: why },
  })
  forget(desk, run.runId)
  if (!(error instanceof Terminal)) await stopQuietly(desk, policies, run.runId, 'the spawn was given up')
  return 'closed'
}
