/**
 * The board's words: what a task is, which events the log knows, and which status may follow which. Always: these lists are
 * the only place where the words stand; an event's type decides the status it leads to (but for the reference's second
 * claim, see reduce.ts). Reading and writing lines is left to the log, what they add up to to the fold.
 */
export const taskStatuses = ['pending', 'claimed', 'in_progress', 'review', 'done', 'blocked', 'failed'] as const
export type TaskStatus = (typeof taskStatuses)[number]

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
  // Ours, beyond the reference: a change that moves no status, and an operator's word to the whole board.
  'task_noted',
  'board_control',
] as const
export type EventType = (typeof eventTypes)[number]

/** The tag that people read in a line; one a type. */
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

/** Where each type leads; null: the status stays. */
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

/** One line of state/tasks.jsonl. `token` is the fencing token of the lock it was written under; old roots have none. */
export interface TaskEvent {
  readonly eventId: string
  readonly taskId: string
  readonly type: EventType
  readonly messageType: string
  readonly actor: string
  readonly at: string
  readonly payload: Readonly<Record<string, unknown>>
  readonly token?: number
}

/** What a writer decides; the log adds id, tag, time and token. An id may be given: it then is the idempotency key. */
export interface Draft {
  readonly eventId?: string
  readonly taskId: string
  readonly type: EventType
  readonly actor: string
  readonly payload?: Readonly<Record<string, unknown>>
}

/** One attempt at a task: opened by task_started with `payload.run`, closed by the event that carries its outcome. */
export interface Run {
  /** The intent line's eventId: the spawn's idempotency key. */
  readonly runId: string
  readonly agent: string
  readonly startedAt: string
  readonly agentTurnId?: string
  readonly endedAt?: string
  readonly outcome?: string
  readonly reasonCode?: string
  readonly tokenUsage?: number
  readonly elapsedMs?: number
}

export interface Task {
  readonly taskId: string
  readonly title: string
  readonly status: TaskStatus
  readonly priority: number
  readonly impact: number
  readonly dependencies: readonly string[]
  readonly assignee: string | null
  /** Why it is blocked or failed, as the event said. */
  readonly reason: string | null
  readonly createdAt: string
  readonly updatedAt: string
  /** The newest runs, at most `runsKept`; older ones are in the log. */
  readonly runs: readonly Run[]
  /** Everything else that payloads set on the task: instruction, role, evidence, verify, approval, frozen, … */
  readonly fields: Readonly<Record<string, unknown>>
}

export interface BoardState {
  readonly tasks: ReadonlyMap<string, Task>
  /** Events that counted. */
  readonly eventCount: number
  readonly lastEventAt: string | null
  /** The highest fencing token seen: lines below it do not count (H2.5). */
  readonly token: number
  /** What operators said to the whole board: paused, … */
  readonly control: Readonly<Record<string, unknown>>
}

/** An open task root, for one writer. */
export interface Board {
  readonly root: string
  readonly state: BoardState
  /** Reads what others have appended. */
  sync(): Promise<BoardState>
  /**
   * Under the lock: sync, let `decide` choose purely from the fresh state, append its drafts as one group with fsync, fold,
   * and answer the lines. Throws InvalidInput for a draft that is no legal transition (then nothing is written) and
   * Retryable `lock_contention` when the lock was not free in time.
   */
  write(decide: (state: BoardState) => readonly Draft[]): Promise<readonly TaskEvent[]>
  close(): Promise<void>
}
