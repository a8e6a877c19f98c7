/**
 * The board's vocabulary: tasks, event types, statuses and the allowed transitions. No other file defines these names. An
 * event's type decides the status it leads to, except for a second claim by the reference implementation (reduce.ts).
 */
import type { TaskStatus } from '@bellwether/protocol'
import type { BoardEvent, TaskLine, TaskRun } from '@bellwether/protocol/http'

export { taskStatuses, type TaskStatus } from '@bellwether/protocol'

export const eventTypes = [
  'task_created',
  'diag_task_created',
  'task_claimed',
  'task_started',
  'task_review',
  'task_done',
  'task_blocked',
  'task_failed',
  'task_reopened',
  // Not in the reference implementation: a change without a transition, and an operator's command to the whole board.
  'task_noted',
  'board_control',
] as const
export type EventType = (typeof eventTypes)[number]

/** The tag that people read in a line, one per type. */
export const messageTypes = {
  task_created: '[TASK]',
  diag_task_created: '[DIAG]',
  task_claimed: '[CLAIM]',
  task_started: '[CLAIM]',
  task_review: '[REVIEW]',
  task_done: '[DONE]',
  task_blocked: '[BLOCKED]',
  task_failed: '[BLOCKED]',
  task_reopened: '[TASK]',
  task_noted: '[TASK]',
  board_control: '[TASK]',
} as const satisfies Record<EventType, string>

/** The status after an event of each type. Null: the status does not change. */
export const leadsTo = {
  task_created: 'pending',
  diag_task_created: 'pending',
  task_claimed: 'claimed',
  task_started: 'in_progress',
  task_review: 'review',
  task_done: 'done',
  task_blocked: 'blocked',
  task_failed: 'failed',
  task_reopened: 'in_progress',
  task_noted: null,
  board_control: null,
} as const satisfies Record<EventType, TaskStatus | null>

export const transitions: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  pending: ['claimed', 'blocked'],
  claimed: ['in_progress', 'done', 'blocked'],
  in_progress: ['review', 'done', 'blocked', 'failed'],
  review: ['done', 'in_progress', 'blocked'],
  blocked: ['in_progress', 'claimed'],
  failed: ['in_progress'],
  done: [],
}

/** One line of state/tasks.jsonl. `token` is the fencing token of the writer's lock; lines of old roots have none. */
export interface TaskEvent extends Readonly<BoardEvent> {
  readonly type: EventType
}

/** An event before the log adds id, tag, time and token. If the writer sets an id, it is the idempotency key. */
export interface Draft {
  readonly eventId?: string
  readonly taskId: string
  readonly type: EventType
  readonly actor: string
  readonly payload?: Readonly<Record<string, unknown>>
}

/**
 * One agent's work on a task. task_started with `payload.run` opens it; the event that carries its outcome closes it. `runId` is the eventId of
 * the intent line, which is also the idempotency key of the spawn.
 */
export type Run = Readonly<TaskRun>

/** A line of the log that cannot be read, or is not legal, and may belong to the task. */
export interface TaskDamage {
  readonly line: number
  readonly kind: string
}

export interface Task extends Readonly<Omit<TaskLine, 'waitsFor' | 'problem' | 'changedFiles' | 'nextStep'>> {
  /** The newest runs, at most `runsMax` (reduce.ts); the log has the older ones. */
  readonly runs: readonly Run[]
  /** All other keys that payloads set on the task: instruction, role, evidence, verify, approval, frozen, … */
  readonly fields: Readonly<Record<string, unknown>>
  /** The last damaged line that may belong to the task: the task waits for a person until a later line moves it. */
  readonly damage?: TaskDamage
}

export interface BoardState {
  readonly tasks: ReadonlyMap<string, Task>
  /** Events that counted. */
  readonly eventCount: number
  readonly lastEventAt: string | null
  /** The highest fencing token so far. Lines with a lower one do not count (H2.5). */
  readonly token: number
  /** What operators set for the whole board: paused, … */
  readonly control: Readonly<Record<string, unknown>>
}

/** The lines of one task that count. */
export interface TaskHistory {
  /** The actor of the first line; null: the log does not have the task. */
  readonly createdBy: string | null
  /** The newest ones, oldest first. */
  readonly events: readonly TaskEvent[]
  /** How many older ones are left out. */
  readonly left: number
}

export type BoardChange = 'written' | 'read'

/** An open task root. */
export interface Board {
  readonly root: string
  readonly state: BoardState
  /** Reads what other processes appended. */
  sync(): Promise<BoardState>
  /** Reads the newest lines of a task from the log, which takes time in proportion to the log: about 1 s per GB. */
  history(taskId: string, max: number): Promise<TaskHistory>
  /**
   * Under the lock: syncs, calls `decide` (a pure function) with the fresh state, appends its drafts as one group with
   * fsync, folds them and returns the lines. Throws InvalidInput if a draft is not a legal transition; then nothing is
   * written. Throws Retryable `lock_contention` if the lock was not free in time.
   */
  write(decide: (state: BoardState) => readonly Draft[]): Promise<readonly TaskEvent[]>
  /**
   * Calls `listener` when the state has changed: `written` by this object, or `read` from what another process appended. The
   * log file is watched while there are listeners; a filesystem that reports no changes leaves it to `sync`. Returns the release.
   */
  onChange(listener: (how: BoardChange) => void): () => void
  close(): Promise<void>
}
