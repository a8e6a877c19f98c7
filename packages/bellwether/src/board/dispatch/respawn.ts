/**
 * An intent line without a turn: whoever wrote it died before it could spawn. Always: it is spawned again only with the same
 * key, only by the kernel that it was meant for, only while that is certain to remember a turn that was begun, and only if no
 * line says that one was; so there are never two turns for one line (hazard 20). Everything else is a person's.
 */
import { z } from 'zod'
import { holding, type Desk, type DeskPolicies } from './dispatcher.js'
import { abortOf, frozenOf, openRun, pausedBy } from '../tasks/task-fields.js'
import { launch, promptOf } from './spawn-turn.js'
import type { KernelFacts } from '../ports.js'
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
  kernel: KernelFacts | null,
): { readonly intent: Intent; readonly ageMs: number } | null {
  const intent = intentShape.safeParse(task.fields['intent']).data
  const run = openRun(task)
  if (kernel === null || intent?.runId !== runId || run?.runId !== runId || intent.kernel !== kernel.id) return null
  // A line that names its turn: it was there, and is gone.
  if (run.agentTurnId !== undefined || intent.again >= againMax) return null
  if (task.status !== 'in_progress' || abortOf(task) !== null) return null
  const ageMs = kernel.nowMs - intent.atMs
  return ageMs >= 0 && ageMs < Math.min(ageMaxMs, kernel.keepsMs) ? { intent, ageMs } : null
}

/** Somebody's word that nothing begins. */
export const isHeld = (state: BoardState, task: Task): boolean => pausedBy(state) !== null || frozenOf(task) !== null

/** Whether it was spawned; false: the board has moved on, or it is in hand. */
export async function spawnAgain(
  desk: Desk,
  policies: DeskPolicies,
  { taskId, runId }: RunName,
  kernel: KernelFacts,
): Promise<boolean> {
  const again = await holding(desk, runId, async () => {
    const beforeMs = desk.clock.monotonicMs()
    const lines = await desk.board.write((state) => {
      const task = state.tasks.get(taskId)
      const found = task === undefined ? null : spawnableIntent(task, runId, kernel)
      if (task === undefined || found === null || isHeld(state, task)) return []
      const intent = { ...found.intent, again: found.intent.again + 1 }
      return [{ taskId, type: 'task_noted', actor: desk.actor, payload: { intent } }]
    })
    const task = desk.board.state.tasks.get(taskId)
    const run = task === undefined ? null : openRun(task)
    if (lines.length === 0 || task === undefined || run?.runId !== runId) return false
    desk.log.warn({ taskId, runId }, 'a run was never started, and is started now')
    const { prompt } = await promptOf(desk, policies, task)
    await launch(desk, policies, { taskId, agent: run.agent }, { runId, prompt, beforeMs })
    return true
  })
  return again ?? false
}
