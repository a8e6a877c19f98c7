/**
 * Reads the fields that the board's own events set on a task: the claim of a dispatcher, an operator's commands, the agent.
 * A field that is absent or malformed (old roots, other programs) reads as null, never as an error.
 */
import { list, object, oneOf, optional, text, valid, type Shape, type ValueOf } from '../../settings/shape.js'
import { mergeModes } from '@bellwether/protocol'
import type { BoardState, Run, Task } from '../log/task.js'

const instant = text({ accepts: (value) => Number.isFinite(Date.parse(value)) })
const signedNote = object({ by: text(), at: text(), reason: optional(text()) })

/** A dispatcher's claim between choosing a task and the intent line. `id` fences a dispatcher that lost it. */
const claimShape = object({ id: text(), by: text(), since: instant, until: instant })
export type DispatchClaim = ValueOf<typeof claimShape>

const turnWaitShape = object({ runId: text(), why: text() })

/** The worktree of the last run. */
const worktreeShape = object({ branch: text(), base: text(), top: text(), root: text(), merge: oneOf(mergeModes) })
export type TaskWorktree = ValueOf<typeof worktreeShape>

/**
 * An accepted change that is not on its base yet. `asked`: a person decides; `queued`: it is merged next; `stopped`: it could not be
 * merged. `candidates`: the commits that may have become the base.
 */
const mergingShape = object({
  state: oneOf(['asked', 'queued', 'stopped']),
  commit: text({ min: 1 }),
  branch: text(),
  base: text(),
  candidates: list(text(), 0, 1_000),
})
export type Merging = ValueOf<typeof mergingShape>

export interface SignedNote {
  readonly by: string
  readonly at: string
  readonly reason?: string | undefined
}

function read<T>(shape: Shape<T>, value: unknown): T | null {
  return value === undefined || value === null ? null : (valid(shape, value) ?? null)
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
export const worktreeOf = (task: Task): TaskWorktree | null => read(worktreeShape, task.fields['worktree'])
export const mergingOf = (task: Task): Merging | null => read(mergingShape, task.fields['merging'])
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
