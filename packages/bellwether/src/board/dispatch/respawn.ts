/**
 * An intent line without a turn: whoever wrote it died before it could spawn. Always: it is spawned again only with the same
 * key, only by the kernel that it was meant for, only while that is certain to remember a turn that was begun, and only if no
 * line says that one was; so there are never two turns for one line (hazard 20). Everything else is a person's.
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

// Each means a process that died within a moment of its line: whatever kills them will kill the next one, too.
const againMax = 3
// A crash is noticed within minutes. After a day nobody remembers what the prompt took for granted.
const ageMaxMs = 86_400_000

/** The intent that may be spawned again by this kernel, and its age; null: never. */
export function spawnableIntent(
  task: Task,
  runId: string,
  kernel: KernelIdentity | null,
): { readonly intent: Intent; readonly ageMs: number } | null {
  const intent = intentShape.safeParse(task.fields['intent']).data
  const run = openRun(task)
  if (kernel === null || intent?.runId !== runId || run?.runId !== runId || intent.kernel !== kernel.id) return null
  // A line that names its turn: it was there, and is gone.
  if (run.agentTurnId !== undefined || intent.again >= againMax) return null
  if (task.status !== 'in_progress' || abortOf(task) !== null) return null
  const ageMs = kernel.nowMs - intent.atMs
  return ageMs >= 0 && ageMs < Math.min(ageMaxMs, kernel.retentionMs) ? { intent, ageMs } : null
}

/** Somebody's word that nothing begins. */
export const isStartBlocked = (state: BoardState, task: Task): boolean =>
  pausedBy(state) !== null || frozenOf(task) !== null

/** Whether it was spawned; false: the board has moved on, or it is in hand. */
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
    dispatcher.log.warn({ taskId, runId }, 'a run was never started, and is started now')
    const { prompt } = await buildPrompt(dispatcher, policies, task)
    await spawnTurn(dispatcher, policies, { taskId, agent: run.agent }, { runId, prompt, beforeMs })
    return true
  })
  return again ?? false
}
