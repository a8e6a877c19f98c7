/**
 * The commands of an operator: to the whole board (pause, resume) and to one task (freeze, abort, approve, reject, escalate). Each
 * command is one group of lines with its actor and time, decided under the lock. A command that changes nothing is rejected
 * with a reason. An abort is in the log before the turn is stopped.
 */
import { defined } from '@bellwether/base'
import { abortOf, approvalOf, frozenOf, iso, needsApproval, openRun, pausedBy, type SignedNote } from './task-fields.js'
import { mustNotBeDone, rejected, taskIn } from './find-task.js'
import { actorName, reasonText } from './input.js'
import { handoffEntry, withoutRecovery } from './reminders.js'
import { recoveryPayload, type RecoveryPolicy } from '../policies/recovery.js'
import { draftsTo, noted } from './status-path.js'
import type { Board, TaskEvent } from '../log/task.js'

export interface OperatorInput {
  readonly by: string
  readonly reason?: string
}

export interface OperatorPorts {
  readonly board: Pick<Board, 'write'>
  readonly nowMs: () => number
}

/** The task id of lines that concern the whole board. */
export const wholeBoard = 'board'

type Lines = Promise<readonly TaskEvent[]>

function signed({ by, reason }: OperatorInput, nowMs: number): SignedNote {
  return { by: actorName(by), at: iso(nowMs), ...defined({ reason: reasonText(reason) }) }
}

const signedReason = (what: string, { by, reason }: SignedNote): string =>
  `${what} by ${by}${reason === undefined ? '' : `: ${reason}`}`

export function pause({ board, nowMs }: OperatorPorts, input: OperatorInput): Lines {
  return board.write((state) => {
    const paused = pausedBy(state)
    if (paused !== null)
      throw rejected(`The board is already paused, by ${paused.by} at ${paused.at}.`, 'already_paused')
    const note = signed(input, nowMs())
    return [{ taskId: wholeBoard, type: 'board_control', actor: note.by, payload: { paused: note } }]
  })
}

export function resume({ board, nowMs }: OperatorPorts, input: OperatorInput): Lines {
  return board.write((state) => {
    if (pausedBy(state) === null) throw rejected('The board is not paused.', 'not_paused')
    const note = signed(input, nowMs())
    return [{ taskId: wholeBoard, type: 'board_control', actor: note.by, payload: { paused: null, resumed: note } }]
  })
}

/** A frozen task is not dispatched; a turn that is running continues. */
export function freeze({ board, nowMs }: OperatorPorts, taskId: string, input: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    mustNotBeDone(task)
    if (frozenOf(task) !== null) throw rejected(`Task "${taskId}" is already frozen.`, 'already_frozen')
    const note = signed(input, nowMs())
    return [noted(taskId, note.by, { frozen: note })]
  })
}

export function unfreeze({ board, nowMs }: OperatorPorts, taskId: string, input: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    if (frozenOf(task) === null) throw rejected(`Task "${taskId}" is not frozen.`, 'not_frozen')
    return [noted(taskId, signed(input, nowMs()).by, { frozen: null })]
  })
}

/** A person checked the damaged line of a task: the task may be dispatched again. */
export function release({ board, nowMs }: OperatorPorts, taskId: string, input: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    if (task.damage === undefined)
      throw rejected(`Task "${taskId}" is not held because of a damaged line.`, 'not_damaged')
    const note = signed(input, nowMs())
    const { line } = task.damage
    return [noted(taskId, note.by, { damage: null, released: { ...note, line }, ...withoutRecovery(task, 'damaged') })]
  })
}

export function requireApproval({ board, nowMs }: OperatorPorts, taskId: string, input: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    mustNotBeDone(task)
    return [
      noted(taskId, signed(input, nowMs()).by, {
        requiresApproval: true,
        approval: null,
        ...withoutRecovery(task, 'approval'),
      }),
    ]
  })
}

export function approve({ board, nowMs }: OperatorPorts, taskId: string, input: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    if (!needsApproval(task)) throw rejected(`Task "${taskId}" does not need approval.`, 'no_approval_needed')
    const approval = approvalOf(task)
    if (approval !== null)
      throw rejected(`Task "${taskId}" was already approved by ${approval.by} at ${approval.at}.`, 'already_approved')
    const note = signed(input, nowMs())
    return [noted(taskId, note.by, { approval: note, ...withoutRecovery(task, 'approval') })]
  })
}

/** Ends a task that waits for approval as failed. If a person lets agents retry it, it needs approval again. */
export function reject({ board, nowMs }: OperatorPorts, taskId: string, input: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    mustNotBeDone(task)
    if (task.status === 'failed') throw rejected(`Task "${taskId}" has already failed.`, 'already_failed')
    const why = !needsApproval(task) ? 'does not need approval' : approvalOf(task) !== null ? 'is approved' : null
    if (why !== null || openRun(task) !== null)
      throw rejected(
        `Cannot reject task "${taskId}": it ${why ?? 'is running'}.`,
        'not_awaiting_approval',
        `End it with bellwether task abort ${taskId}.`,
      )
    const note = signed(input, nowMs())
    const reason = signedReason('rejected', note)
    const payload = {
      rejection: note,
      reason,
      reasonCode: 'rejected',
      claim: null,
      ...withoutRecovery(task, 'approval'),
    }
    return draftsTo(task, 'failed', note.by, payload) ?? []
  })
}

/** Ends a task as failed. If a turn is running, this only records the abort: the reconciler stops the turn. */
export function abort({ board, nowMs }: OperatorPorts, taskId: string, input: OperatorInput): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    mustNotBeDone(task)
    if (task.status === 'failed') throw rejected(`Task "${taskId}" has already failed.`, 'already_failed')
    if (abortOf(task) !== null) throw rejected(`Task "${taskId}" is already being aborted.`, 'already_aborted')
    const note = signed(input, nowMs())
    if (openRun(task) !== null && task.status === 'in_progress') return [noted(taskId, note.by, { abort: note })]
    const reason = signedReason('aborted', note)
    const payload = { reason, reasonCode: 'aborted', claim: null }
    return draftsTo(task, 'failed', note.by, payload) ?? []
  })
}

/** Hands a task to a person, with a deadline. */
export function escalate(
  { board, nowMs, recovery }: OperatorPorts & { readonly recovery: RecoveryPolicy },
  taskId: string,
  input: OperatorInput,
): Lines {
  return board.write((state) => {
    const task = taskIn(state, taskId)
    mustNotBeDone(task)
    const note = signed(input, nowMs())
    const entry = handoffEntry(recovery, taskId, 'escalated', nowMs(), 'escalate')
    const reason = signedReason('escalated', note)
    const payload = { reason, reasonCode: 'escalated', claim: null, ...recoveryPayload(task, entry) }
    return draftsTo(task, 'blocked', note.by, payload) ?? []
  })
}
