/**
 * Respawns the turn of an intent line whose writer died before the spawn. Only with the same key, on the kernel that the line
 * names, while that kernel still remembers every turn since, and if no line reports a turn: so one line never gets two turns
 * (hazard 20). All other cases go to a person.
 */
import { z } from 'zod'
import { withRun, type Dispatcher, type DispatchPolicies } from './dispatcher.js'
import { abortOf, frozenOf, openRun, pausedBy, worktreeOf } from '../tasks/task-fields.js'
import { spawnTurn, buildPrompt } from './spawn-turn.js'
import { worktreesOf } from './workspace.js'
import type { KernelIdentity } from '../ports.js'
import type { RunName } from './settle.js'
import type { BoardState, Task } from '../log/task.js'

const intentShape = z.object({
  runId: z.string(),
  kernel: z.string(),
  atMs: z.number(),
  again: z.number().int().min(0),
  /** When it was respawned last, by the kernel's clock. */
  triedAtMs: z.number().optional(),
})
export type Intent = z.output<typeof intentShape>

// Each respawn means that a process died right after its line; a fourth one would die, too.
const againMax = 3
// A crash is noticed within minutes; after a day the prompt may be outdated.
const ageMaxMs = 86_400_000

/** How long ago a process last was about to spawn the turn, by the clock of the kernel; null: this kernel cannot know it. */
export function sinceLastTryMs(task: Task, runId: string, kernel: KernelIdentity | null): number | null {
  const intent = intentOf(task, runId, kernel)
  if (intent === null || kernel === null) return null
  const sinceMs = kernel.nowMs - (intent.triedAtMs ?? intent.atMs)
  // The clock of the kernel was set back.
  return sinceMs < 0 ? null : sinceMs
}

/** The intent of the run, if it names this kernel. */
function intentOf(task: Task, runId: string, kernel: KernelIdentity | null): Intent | null {
  const intent = intentShape.safeParse(task.fields['intent']).data
  return intent?.runId === runId && intent.kernel === kernel?.id ? intent : null
}

/** The intent that this kernel may spawn again; null: none. */
export function spawnableIntent(task: Task, runId: string, kernel: KernelIdentity | null): Intent | null {
  const intent = intentOf(task, runId, kernel)
  const run = openRun(task)
  if (kernel === null || intent === null || run?.runId !== runId) return null
  // The log names a turn: it existed, and the kernel has removed it.
  if (run.agentTurnId !== undefined || intent.again >= againMax) return null
  if (task.status !== 'in_progress' || abortOf(task) !== null) return null
  const ageMs = kernel.nowMs - intent.atMs
  return ageMs >= 0 && ageMs < Math.min(ageMaxMs, kernel.retentionMs) ? intent : null
}

export const isStartBlocked = (state: BoardState, task: Task): boolean =>
  pausedBy(state) !== null || frozenOf(task) !== null

/**
 * False: the board has changed, another process has just tried, or this process is already working on the run. One try per grace period,
 * however many processes reconcile: the line of a try tells the others to wait.
 */
export async function respawnTurn(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  { taskId, runId }: RunName,
  kernel: KernelIdentity,
): Promise<boolean> {
  const again = await withRun(dispatcher, runId, async () => {
    const { board, clock, settings } = dispatcher
    const readMs = clock.monotonicMs()
    const known = board.state.tasks.get(taskId)
    const run = known === undefined ? null : openRun(known)
    if (known === undefined || run?.runId !== runId) return false
    const worktree = worktreeOf(known)
    // Before the line: opening a worktree may take longer than the line stays valid. Adopts the worktree of the run, or makes it again.
    if (worktree !== null) await worktreesOf(dispatcher, policies)?.open(known, worktree.base)
    const { prompt } = await buildPrompt(dispatcher, policies, known, run.agent, worktree)
    let beforeMs = readMs
    const lines = await board.write((state) => {
      // The line is valid from here on: the wait for the lock does not count.
      beforeMs = clock.monotonicMs()
      const now = { ...kernel, nowMs: kernel.nowMs + beforeMs - readMs }
      const task = state.tasks.get(taskId)
      const found = task === undefined ? null : spawnableIntent(task, runId, now)
      if (task === undefined || found === null || isStartBlocked(state, task)) return []
      if ((sinceLastTryMs(task, runId, now) ?? Infinity) < settings.spawnGraceMs) return []
      const intent = { ...found, again: found.again + 1, triedAtMs: now.nowMs }
      return [{ taskId, type: 'task_noted', actor: dispatcher.actor, payload: { intent } }]
    })
    if (lines.length === 0) return false
    dispatcher.log.warn({ taskId, runId }, 'spawning the turn of a run that never started')
    await spawnTurn(dispatcher, policies, { taskId, agent: run.agent }, { runId, prompt, beforeMs })
    return true
  })
  return again ?? false
}
