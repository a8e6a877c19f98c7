/**
 * From an intent line to a turn. Always: the line's id is the spawn's key, so however often and by however many this is done,
 * one turn comes of it; whoever slept since the line leaves it to the reconciler; a turn that nobody waits for any more is
 * stopped. When it may be done is decided in begin.ts and respawn.ts.
 */
import { errorMessage } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { retryCall } from '../../ports/retry.js'
import { forget, type Desk, type DeskPolicies } from './dispatcher.js'
import { openRun } from '../tasks/task-fields.js'
import type { KernelFacts, TurnStanding } from '../ports.js'
import { budgetOf, precheckBudget, spawnBudget } from '../policies/budget.js'
import type { KnowledgeOutcome } from '../policies/knowledge.js'
import { promptFor } from './prompt.js'
import { closeRun } from './settle.js'
import type { Task } from '../log/task.js'

/** What the agent is told, and what became of the hints for it. */
export async function promptOf(
  desk: Desk,
  policies: DeskPolicies,
  task: Task,
): Promise<{ readonly prompt: string; readonly told: KnowledgeOutcome }> {
  const { section, told } = await hintsFor(desk, task)
  const reduced = task.fields['degradeAction'] === 'reduced_context'
  return { prompt: promptFor({ task, policy: policies.acceptance, hints: section, reduced }), told }
}

/** Advice is welcome and never owed: whatever goes wrong with it is told, and the dispatch goes on. */
async function hintsFor(desk: Desk, task: Task): ReturnType<Desk['knowledge']['hints']> {
  try {
    return await desk.knowledge.hints(task)
  } catch (error) {
    const degradeReason = `the hints failed: ${errorMessage(error)}`
    return { section: '', told: { degraded: true, degradeReason, knowledgeTags: [], backfill: null } }
  }
}

/** Null: it cannot be told which kernel this is; then nothing is ever spawned again. */
export async function kernelOf(desk: Desk, policies: DeskPolicies): Promise<KernelFacts | null> {
  try {
    const call = { kind: 'command_routing', name: 'the name of the kernel' } as const
    return await retryCall(policies.calls, call, () => desk.spawner.kernel(), desk)
  } catch (error) {
    desk.log.warn({ err: error }, 'the kernel does not say which one it is')
    return null
  }
}

export interface Launch {
  readonly runId: string
  readonly prompt: string
  /** Before the intent line was written, on the monotonic scale. */
  readonly beforeMs: number
}

/** Who is to do what: a claim that became an intent line. */
export interface Intended {
  readonly taskId: string
  readonly agent: string
}

export async function launch(
  desk: Desk,
  policies: DeskPolicies,
  intended: Intended,
  { runId, prompt, beforeMs }: Launch,
): Promise<void> {
  const { taskId, agent } = intended
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
    agentTurnId = (await retryCall(policies.calls, call, spawn, desk)).agentTurnId
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
    await retryCall(policies.calls, call, () => desk.spawner.stop(runId, reason), desk)
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
  const why = errorMessage(error)
  desk.log.warn({ err: error, ...run }, 'a turn could not be started')
  let standing: TurnStanding
  try {
    const call = { kind: 'command_routing', name: `the standing of ${run.taskId}` } as const
    standing = await retryCall(policies.calls, call, () => desk.spawner.standing(run.runId), desk)
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
