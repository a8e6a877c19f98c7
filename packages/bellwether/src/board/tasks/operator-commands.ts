/**
 * What an operator may say: to the whole board (pause, resume) and to one task (freeze, abort, approve, escalate). Always:
 * each word is one group of lines, signed and dated, decided under the lock; a word that changes nothing is refused with a
 * reason, never passed over; an abort is in the log before any turn is told to stop.
 */
import { InvalidInput } from '@bellwether/protocol'
import { abortOf, approvalOf, frozenOf, iso, needsApproval, openRun, pausedBy, type SignedNote } from './task-fields.js'
import { actorName, reasonText } from './input.js'
import { handoffEntry, withoutRecovery } from './reminders.js'
import { recoveryPayload, type RecoveryPolicy } from '../policies/recovery.js'
import { draftsAlongPath, statusPath } from './status-path.js'
import type { Board, BoardState, Draft, Task, TaskEvent } from '../log/task.js'

export interface OperatorInput {
  readonly by: string
  readonly reason?: string
}

export interface OperatorPorts {
  readonly board: Board
  readonly nowMs: () => number
}

/** The id that lines to the whole board carry in the place of a task's. */
export const wholeBoard = 'board'

type Lines = Promise<readonly TaskEvent[]>

export function refused(message: string, code: string, hint?: string): InvalidInput {
  return new InvalidInput(message, { code, ...(hint === undefined ? {} : { hint }) })
}

export function taskIn(state: BoardState, taskId: string): Task {
  const task = state.tasks.get(taskId)
  if (task === undefined) throw refused(`there is no task ${taskId}`, 'unknown_task', 'bellwether task list shows them')
  return task
}

function signed({ by, reason }: OperatorInput, nowMs: number): SignedNote {
  const text = reasonText(reason)
  return { by: actorName(by), at: iso(nowMs), ...(text === undefined ? {} : { reason: text }) }
}

export function pause({ board, nowMs }: OperatorPorts, word: OperatorInput): Lines {
  return board.write((state) => {
    const paused = pausedBy(state)
    if (paused !== null) throw refused(`the board is paused already, by ${paused.by} at ${paused.at}`, 'already_paused')
    const who = signed(word, nowMs())
    return [{ taskId: wholeBoard, type: 'board_control', actor: who.by, payload: { paused: who } }]
  })
}

export function resume({ board, nowMs }: OperatorPorts, word: OperatorInput): Lines {
  return board.write((state) => {
    if (pausedBy(state) === null) throw refused('the board is not paused', 'not_paused')
    const who = signed(word, nowMs())
    return [{ taskId: wholeBoard, type: 'board_control', actor: who.by, payload: { paused: null, resumed: who } }]
  })
}

function note(task: Task, actor: string, payload: Readonly<Record<string, unknown>>): readonly Draft[] {
  return [{ taskId: task.taskId, type: 'task_noted', actor, payload }]
}

/** A frozen task is not begun; a turn that is under way goes on. */
export function freeze({ board, nowMs }: OperatorPorts, taskId: string, word: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    if (task.status === 'done') throw refused(`${taskId} is done`, 'already_done')
    if (frozenOf(task) !== null) throw refused(`${taskId} is frozen already`, 'already_frozen')
    const who = signed(word, nowMs())
    return note(task, who.by, { frozen: who })
  })
}

export function unfreeze({ board, nowMs }: OperatorPorts, taskId: string, word: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    if (frozenOf(task) === null) throw refused(`${taskId} is not frozen`, 'not_frozen')
    return note(task, signed(word, nowMs()).by, { frozen: null })
  })
}

export function requireApproval({ board, nowMs }: OperatorPorts, taskId: string, word: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    if (task.status === 'done') throw refused(`${taskId} is done`, 'already_done')
    return note(task, signed(word, nowMs()).by, {
      requiresApproval: true,
      approval: null,
      ...withoutRecovery(task, 'approval'),
    })
  })
}

export function approve({ board, nowMs }: OperatorPorts, taskId: string, word: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    if (!needsApproval(task)) throw refused(`${taskId} needs no approval`, 'no_approval_needed')
    const given = approvalOf(task)
    if (given !== null) throw refused(`${taskId} was approved by ${given.by} at ${given.at}`, 'already_approved')
    const who = signed(word, nowMs())
    return note(task, who.by, { approval: who, ...withoutRecovery(task, 'approval') })
  })
}

/** Ends a task as failed. With a turn under way this is only the word: the reconciler stops the turn and closes the run. */
export function abort({ board, nowMs }: OperatorPorts, taskId: string, word: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    if (task.status === 'done') throw refused(`${taskId} is done; done is final`, 'already_done')
    if (task.status === 'failed') throw refused(`${taskId} has failed already`, 'already_failed')
    if (abortOf(task) !== null) throw refused(`${taskId} is being aborted already`, 'already_aborted')
    const who = signed(word, nowMs())
    if (openRun(task) !== null && task.status === 'in_progress') return note(task, who.by, { abort: who })
    const reason = `aborted by ${who.by}${who.reason === undefined ? '' : `: ${who.reason}`}`
    const payload = { reason, reasonCode: 'aborted', claim: null }
    return draftsAlongPath(statusPath(task.status, 'failed') ?? [], { taskId, actor: who.by, payload })
  })
}

/** Hands a task to a person, now, with the date by which they must answer. */
export function escalate(
  { board, nowMs, recovery }: OperatorPorts & { readonly recovery: RecoveryPolicy },
  taskId: string,
  word: OperatorInput,
): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    if (task.status === 'done') throw refused(`${taskId} is done; done is final`, 'already_done')
    const who = signed(word, nowMs())
    const entry = handoffEntry(recovery, taskId, 'escalated', nowMs(), 'escalate')
    const reason = `escalated by ${who.by}${who.reason === undefined ? '' : `: ${who.reason}`}`
    const payload = { reason, reasonCode: 'escalated', claim: null, ...recoveryPayload(task, entry) }
    if (task.status === 'blocked') return note(task, who.by, payload)
    return draftsAlongPath(statusPath(task.status, 'blocked') ?? [], { taskId, actor: who.by, payload })
  })
}
