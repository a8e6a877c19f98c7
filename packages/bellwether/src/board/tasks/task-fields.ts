/**
 * Reads the fields that the board's own events set on a task: the claim of a dispatcher, an operator's commands, the agent.
 * A field that is absent or malformed (old roots, other programs) reads as null, never as an error.
 */
import { z } from 'zod'
import type { BoardState, Run, Task } from '../log/task.js'

const instant = z.string().refine((text) => Number.isFinite(Date.parse(text)))
const signedNote = z.object({ by: z.string(), at: z.string(), reason: z.string().optional() })

/** A dispatcher's claim between choosing a task and the intent line. `id` fences a dispatcher that lost it. */
const claimShape = z.object({ id: z.string(), by: z.string(), since: instant, until: instant })
export type DispatchClaim = z.output<typeof claimShape>

const turnWaitShape = z.object({ runId: z.string(), why: z.string() })

export interface SignedNote {
  readonly by: string
  readonly at: string
  readonly reason?: string | undefined
}

function read<T>(shape: z.ZodType<T>, value: unknown): T | null {
  if (value === undefined || value === null) return null
  const result = shape.safeParse(value)
  return result.success ? result.data : null
}

export const textField = (task: Task, name: string): string | null => {
  const value = task.fields[name]
  return typeof value === 'string' && value !== '' ? value : null
}
export const claimOf = (task: Task): DispatchClaim | null => read(claimShape, task.fields['claim'])
export const frozenOf = (task: Task): SignedNote | null => read(signedNote, task.fields['frozen'])
export const abortOf = (task: Task): SignedNote | null => read(signedNote, task.fields['abort'])
export const approvalOf = (task: Task): SignedNote | null => read(signedNote, task.fields['approval'])
/** Why the turn of this run cannot run now; null: it can, or the note is of an earlier run. */
export const turnWaitOf = (task: Task, run: Run): string | null => {
  const wait = read(turnWaitShape, task.fields['turnWait'])
  return wait?.runId === run.runId ? wait.why : null
}
export const needsApproval = (task: Task): boolean => task.fields['requiresApproval'] === true
export const pausedBy = (state: BoardState): SignedNote | null => read(signedNote, state.control['paused'])

/** The run that is not closed yet, even if a person has moved the task since. */
export function openRun(task: Task): Run | null {
  const last = task.runs.at(-1)
  return last !== undefined && last.endedAt === undefined ? last : null
}

const namedAgent = (task: Task): string | null => textField(task, 'agent') ?? textField(task, 'role') ?? task.assignee

/** Whether the task names its agent. If it has only a role or a hint, another agent may take it. */
export const namesAgent = (task: Task): boolean =>
  textField(task, 'agent') !== null || (textField(task, 'role') === null && task.assignee !== null)

/** The agent that only the reference's hint names; it may be any name. Null: the task has no hint, or names its agent. */
export const hintedAgent = (task: Task): string | null =>
  namedAgent(task) === null ? (textField(task, 'assigneeHint')?.trim().toLowerCase() ?? null) : null

/** The first agent for a task: its `agent`, else its `role`, else its assignee, else the reference's hint. */
export const firstAgent = (task: Task, fallback: string): string => namedAgent(task) ?? hintedAgent(task) ?? fallback

/** Whether a claim has expired. Also true before its start: the clock was set back, and no dispatcher should wait for it again. */
export function isOver(span: { readonly since: string; readonly until: string }, nowMs: number): boolean {
  return nowMs >= Date.parse(span.until) || nowMs < Date.parse(span.since)
}

export const iso = (ms: number): string => new Date(ms).toISOString()
