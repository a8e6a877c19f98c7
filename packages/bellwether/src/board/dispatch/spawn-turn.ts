/**
 * Spawns the turn of an intent line. The id of the line is the spawn key, so repeated spawns by several processes create one
 * turn. A process that was stopped for too long after the line leaves it to the reconciler. A turn whose run was closed
 * before it started is stopped. start-run.ts and respawn.ts decide when to spawn.
 */
import { defined, errorMessage } from '@bellwether/base'
import { degradeActionsIn, Terminal, type DegradeAction } from '@bellwether/protocol'
import { retryCall } from '../../ports/retry.js'
import { forgetRun, type Dispatcher, type DispatchPolicies } from './dispatcher.js'
import { openRun, worktreeOf, type TaskWorktree } from '../tasks/task-fields.js'
import type { KernelIdentity, TurnStatus } from '../ports.js'
import { limitsFor, nextRunDegrade, purseOf } from '../policies/budget.js'
import type { KnowledgeOutcome } from '@bellwether/protocol/http'
import { promptFor, resumePromptFor } from './prompt.js'
import { closeRun } from './settle.js'
import type { Task } from '../log/task.js'

/** The prompt for the agent, the result of looking for hints, and how the run is degraded. */
export async function buildPrompt(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  task: Task,
  agent: string,
  worktree: TaskWorktree | null,
): Promise<{ readonly prompt: string; readonly knowledge: KnowledgeOutcome; readonly degrade: RunDegrade }> {
  const { section, outcome: knowledge } = await hintsFor(dispatcher, policies, task)
  const actions = degradeOfRun(policies, task, agent)
  const build = (reduced: boolean) =>
    promptFor({ task, policy: policies.acceptance, hints: section, reduced, worktree })
  const full = build(false)
  const prompt = actions.includes('reduced_context') ? build(true) : full
  return { prompt, knowledge, degrade: { actions, promptChars: prompt.length, fullPromptChars: full.length } }
}

/** How a run is degraded, as its intent line records it. */
export interface RunDegrade {
  readonly actions: readonly DegradeAction[]
  readonly promptChars: number
  readonly fullPromptChars: number
}

/** The actions of the open run, which its intent line has; before it, those of the next run. */
function degradeOfRun({ budget }: DispatchPolicies, task: Task, agent: string): readonly DegradeAction[] {
  if (openRun(task) === null) return nextRunDegrade(budget, task, agent)
  const { actions } = (task.fields['degrade'] ?? {}) as { readonly actions?: unknown }
  return degradeActionsIn(actions)
}

/** Hints are optional: an error is reported, and the dispatch continues without them. */
async function hintsFor(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  task: Task,
): ReturnType<Dispatcher['knowledge']['hints']> {
  try {
    const call = { kind: 'local_state', name: `reading hints for ${task.taskId}` } as const
    return await retryCall(policies.calls, call, () => dispatcher.knowledge.hints(task), dispatcher)
  } catch (error) {
    const degradeReason = `cannot read hints: ${errorMessage(error)}`
    return { section: '', outcome: { degraded: true, degradeReason, knowledgeTags: [], backfill: null } }
  }
}

/** Null: the kernel cannot be identified; then no turn is spawned again. */
export async function kernelIdentity(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
): Promise<KernelIdentity | null | 'unreachable'> {
  try {
    const call = { kind: 'command_routing', name: 'reading the kernel instance id' } as const
    return await retryCall(policies.calls, call, () => dispatcher.spawner.kernel(), dispatcher)
  } catch (error) {
    dispatcher.log.warn({ err: error }, 'the kernel did not report its instance id')
    return 'unreachable'
  }
}

export interface SpawnInput {
  readonly runId: string
  readonly prompt: string
  /** Monotonic time before the intent line was written. */
  readonly beforeMs: number
}

export async function spawnTurn(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  intended: { readonly taskId: string; readonly agent: string },
  { runId, prompt, beforeMs }: SpawnInput,
): Promise<void> {
  const { taskId, agent } = intended
  // If this process was stopped for long, another one may have given up the run: do not spawn.
  if (dispatcher.clock.monotonicMs() - beforeMs > dispatcher.settings.spawnGraceMs / 2) return
  const task = dispatcher.board.state.tasks.get(taskId)
  if (task === undefined) return
  const worktree = worktreeOf(task)
  const resumePrompt = resumePromptFor(task)
  const request = {
    key: runId,
    taskId,
    agent,
    prompt,
    purse: purseOf(policies.budget, task, agent),
    degrade: degradeOfRun(policies, task, agent),
    degradePolicy: limitsFor(policies.budget, agent).degradePolicy,
    ...defined({ resumePrompt }),
    ...(worktree === null ? {} : { worktree: { top: worktree.top, root: worktree.root } }),
  }
  const call = { kind: 'command_routing', name: `spawning the turn of ${taskId}` } as const
  let givenUp = false
  const spawn = (signal: AbortSignal) => {
    const started = dispatcher.spawner.spawn(request, signal)
    // A spawn that timed out may still succeed after the run was closed: then stop its turn.
    void started.then(
      () => (givenUp ? stopQuietly(dispatcher, policies, runId, 'its spawn was given up') : undefined),
      () => undefined,
    )
    return started
  }
  let agentTurnId: string
  try {
    agentTurnId = (await retryCall(policies.calls, call, spawn, dispatcher)).agentTurnId
  } catch (error) {
    givenUp = (await handleFailedSpawn(dispatcher, policies, { taskId, runId }, error)) === 'closed'
    return
  }
  const lines = await dispatcher.board.write((state) => {
    const now = state.tasks.get(taskId)
    const run = now === undefined ? null : openRun(now)
    if (run?.runId !== runId) return []
    return [{ taskId, type: 'task_noted', actor: dispatcher.actor, payload: { runId, agentTurnId } }]
  })
  // Another process closed the run during the spawn: no one waits for this turn.
  if (lines.length === 0) await stopQuietly(dispatcher, policies, runId, 'its run was closed before it started')
}

async function stopQuietly(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  runId: string,
  reason: string,
): Promise<void> {
  try {
    const call = { kind: 'command_routing', name: `stopping the turn of run ${runId}` } as const
    await retryCall(policies.calls, call, () => dispatcher.spawner.stop(runId, reason), dispatcher)
  } catch (error) {
    dispatcher.log.warn({ err: error, runId }, 'cannot stop a turn whose run is closed')
  }
}

/** The spawn failed; only the kernel knows whether the turn exists. */
async function handleFailedSpawn(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  run: { readonly taskId: string; readonly runId: string },
  error: unknown,
): Promise<'closed' | 'open'> {
  const why = errorMessage(error)
  dispatcher.log.warn({ err: error, ...run }, 'cannot spawn a turn')
  let status: TurnStatus
  try {
    const call = { kind: 'command_routing', name: `reading the turn status of ${run.taskId}` } as const
    status = await retryCall(policies.calls, call, () => dispatcher.spawner.status(run.runId), dispatcher)
  } catch (statusError) {
    // The kernel is unreachable: the run stays open, and the reconciler asks again later.
    dispatcher.log.warn({ err: statusError, ...run }, 'kernel unreachable; unknown whether the turn started')
    return 'open'
  }
  if (status.status !== 'unknown') return 'open'
  const outcome = { outcome: 'failed', error: why, agentTurnId: null, tokenUsage: 0, elapsedMs: 0 } as const
  await closeRun(dispatcher, policies, run, {
    ...outcome,
    verdict: { is: 'failed', reasonCode: 'spawn_failed', detail: why },
  })
  forgetRun(dispatcher, run.runId)
  if (!(error instanceof Terminal)) await stopQuietly(dispatcher, policies, run.runId, 'its spawn was given up')
  return 'closed'
}
