/**
 * From an intent line to a turn. Always: the line's id is the spawn's key, so however often and by however many this is done,
 * one turn comes of it; whoever slept since the line leaves it to the reconciler; a turn that nobody waits for any more is
 * stopped. When it may be done is decided in begin.ts and respawn.ts.
 */
import { errorMessage } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { retryCall } from '../../ports/retry.js'
import { forgetRun, type Dispatcher, type DispatchPolicies } from './dispatcher.js'
import { openRun } from '../tasks/task-fields.js'
import type { KernelIdentity, TurnStatus } from '../ports.js'
import { budgetOf, precheckBudget, spawnBudget } from '../policies/budget.js'
import type { KnowledgeOutcome } from '../policies/knowledge.js'
import { promptFor } from './prompt.js'
import { closeRun } from './settle.js'
import type { Task } from '../log/task.js'

/** What the agent is told, and what became of the hints for it. */
export async function buildPrompt(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  task: Task,
): Promise<{ readonly prompt: string; readonly told: KnowledgeOutcome }> {
  const { section, outcome: told } = await hintsFor(dispatcher, task)
  const reduced = task.fields['degradeAction'] === 'reduced_context'
  return { prompt: promptFor({ task, policy: policies.acceptance, hints: section, reduced }), told }
}

/** Advice is welcome and never owed: whatever goes wrong with it is told, and the dispatch goes on. */
async function hintsFor(dispatcher: Dispatcher, task: Task): ReturnType<Dispatcher['knowledge']['hints']> {
  try {
    return await dispatcher.knowledge.hints(task)
  } catch (error) {
    const degradeReason = `the hints failed: ${errorMessage(error)}`
    return { section: '', outcome: { degraded: true, degradeReason, knowledgeTags: [], backfill: null } }
  }
}

/** Null: it cannot be told which kernel this is; then nothing is ever spawned again. */
export async function kernelIdentity(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
): Promise<KernelIdentity | null> {
  try {
    const call = { kind: 'command_routing', name: 'the name of the kernel' } as const
    return await retryCall(policies.calls, call, () => dispatcher.spawner.kernel(), dispatcher)
  } catch (error) {
    dispatcher.log.warn({ err: error }, 'the kernel does not say which one it is')
    return null
  }
}

export interface SpawnInput {
  readonly runId: string
  readonly prompt: string
  /** Before the intent line was written, on the monotonic scale. */
  readonly beforeMs: number
}

/** Who is to do what: a claim that became an intent line. */
export interface RunTarget {
  readonly taskId: string
  readonly agent: string
}

export async function spawnTurn(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  intended: RunTarget,
  { runId, prompt, beforeMs }: SpawnInput,
): Promise<void> {
  const { taskId, agent } = intended
  // Whoever slept here for long may have been given up by another process: then nothing is spawned any more.
  if (dispatcher.clock.monotonicMs() - beforeMs > dispatcher.settings.spawnGraceMs / 2) return
  const task = dispatcher.board.state.tasks.get(taskId)
  const verdict = precheckBudget(policies.budget, task === undefined ? undefined : budgetOf(task, agent), agent)
  const request = { key: runId, taskId, agent, prompt, budget: spawnBudget(verdict) }
  const call = { kind: 'command_routing', name: `the spawn of ${taskId}` } as const
  let givenUp = false
  const spawn = (signal: AbortSignal) => {
    const started = dispatcher.spawner.spawn(request, signal)
    // A try that was given up as too late may still begin: then nobody would look at what it does.
    void started.then(
      () => (givenUp ? stopQuietly(dispatcher, policies, runId, 'the spawn was given up') : undefined),
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
  // Given up by somebody while it was being started: nobody would look at what it does.
  if (lines.length === 0) await stopQuietly(dispatcher, policies, runId, 'the run was closed before it began')
}

async function stopQuietly(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  runId: string,
  reason: string,
): Promise<void> {
  try {
    const call = { kind: 'command_routing', name: `the stop of ${runId}` } as const
    await retryCall(policies.calls, call, () => dispatcher.spawner.stop(runId, reason), dispatcher)
  } catch (error) {
    dispatcher.log.warn({ err: error, runId }, 'a turn that nobody waits for could not be stopped')
  }
}

/** The call failed; whether the turn exists only the kernel can tell. */
async function handleFailedSpawn(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  run: { readonly taskId: string; readonly runId: string },
  error: unknown,
): Promise<'closed' | 'open'> {
  const why = errorMessage(error)
  dispatcher.log.warn({ err: error, ...run }, 'a turn could not be started')
  let status: TurnStatus
  try {
    const call = { kind: 'command_routing', name: `the status of ${run.taskId}` } as const
    status = await retryCall(policies.calls, call, () => dispatcher.spawner.status(run.runId), dispatcher)
  } catch (silence) {
    // The kernel is away: the run stays open, and the reconciler asks when it is back.
    dispatcher.log.warn({ err: silence, ...run }, 'nobody knows whether the turn was started')
    return 'open'
  }
  if (status.status !== 'unknown') return 'open'
  const outcome = { outcome: 'failed', error: why, agentTurnId: null, tokenUsage: 0, elapsedMs: 0 } as const
  await closeRun(dispatcher, policies, run, {
    ...outcome,
    verdict: { is: 'failed', reasonCode: 'spawn_failed', detail: why },
  })
  forgetRun(dispatcher, run.runId)
  if (!(error instanceof Terminal)) await stopQuietly(dispatcher, policies, run.runId, 'the spawn was given up')
  return 'closed'
}
