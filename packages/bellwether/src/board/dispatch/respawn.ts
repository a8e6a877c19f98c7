/**
 * Respawns the turn of an intent line whose writer died before the spawn. Only with the same key, on the kernel that the line
 * names, while that kernel still remembers every turn since, and if no line reports a turn: so one line never gets two turns
 * (hazard 20). All other cases go to a person.
 */
import { z } from 'zod'
import { withRun, type Dispatcher, type DispatchPolicies } from './dispatcher.js'
import { abortOf, frozenOf, openRun, pausedBy } from '../tasks/task-fields.js'
import { spawnTurn, buildPrompt } from './spawn-turn.js'
import type { KernelIdentity } from '../ports.js'
import type { RunName } from './settle.js'
import type { BoardState, Task } from '../log/task.js'

const intentShape = z.object({
  runId: z.string(),
  kernel: z.string(),
  atMs: z.number(),
  again: z.number().int().min(0),
})
export type Intent = z.output<typeof intentShape>

// Each respawn means that a process died right after its line; a fourth one would die, too.
const againMax = 3
// A crash is noticed within minutes; after a day the prompt may be outdated.
const ageMaxMs = 86_400_000

/** The intent that this kernel may spawn again, with its age; null: none. */
export function spawnableIntent(
  task: Task,
  runId: string,
  kernel: KernelIdentity | null,
): { readonly intent: Intent; readonly ageMs: number } | null {
  const intent = intentShape.safeParse(task.fields['intent']).data
  const run = openRun(task)
  if (kernel === null || intent?.runId !== runId || run?.runId !== runId || intent.kernel !== kernel.id) return null
  // The log names a turn: it existed, and the kernel has removed it.
  if (run.agentTurnId !== undefined || intent.again >= againMax) return null
  if (task.status !== 'in_progress' || abortOf(task) !== null) return null
  const ageMs = kernel.nowMs - intent.atMs
  return ageMs >= 0 && ageMs < Math.min(ageMaxMs, kernel.retentionMs) ? { intent, ageMs } : null
}

export const isStartBlocked = (state: BoardState, task: Task): boolean =>
  pausedBy(state) !== null || frozenOf(task) !== null

/** False: the board has changed, or this process is already working on the run. */
export async function respawnTurn(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  { taskId, runId }: RunName,
  kernel: KernelIdentity,
): Promise<boolean> {
  const again = await withRun(dispatcher, runId, async () => {
    const beforeMs = dispatcher.clock.monotonicMs()
    const lines = await dispatcher.board.write((state) => {
      const task = state.tasks.get(taskId)
      const found = task === undefined ? null : spawnableIntent(task, runId, kernel)
      if (task === undefined || found === null || isStartBlocked(state, task)) return []
      const intent = { ...found.intent, again: found.intent.again + 1 }
      return [{ taskId, type: 'task_noted', actor: dispatcher.actor, payload: { intent } }]
    })
    const task = dispatcher.board.state.tasks.get(taskId)
    const run = task === undefined ? null : openRun(task)
    if (lines.length === 0 || task === undefined || run?.runId !== runId) return false
    dispatcher.log.warn({ taskId, runId }, 'spawning the turn of a run that never started')
    const { prompt } = await buildPrompt(dispatcher, policies, task, run.agent)
    await spawnTurn(dispatcher, policies, { taskId, agent: run.agent }, { runId, prompt, beforeMs })
    return true
  })
  return again ?? false
}
