/**
 * Turns drafts into lines to append. A group is accepted or rejected as a whole; anything that could not be read back (too
 * long, too deep, not a finite number) is rejected before it is written. An eventId that the log already has is not written
 * again. Pure.
 */
import { isObject } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { depthMax } from './line.js'
import { statusAfter } from '../fold/reduce.js'
import { messageTypes, type BoardState, type Draft, type TaskEvent, type TaskStatus } from '../task.js'

// A line of this size replays in about 1 ms.
const lineWriteMaxBytes = 2 ** 20
// One group is one write and one fsync.
const groupMax = 10_000
const groupMaxBytes = 16 * 2 ** 20
const idMax = 256

export interface Stamp {
  readonly at: string
  readonly token: number
  nextId(): string
}

export interface Group {
  /** In the order of the drafts, including those that the log already had. */
  readonly events: readonly TaskEvent[]
  readonly fresh: readonly TaskEvent[]
  readonly bytes: Buffer
}

/** `known`: the events of the log with the id of a draft. */
export function prepare(
  drafts: readonly Draft[],
  state: BoardState,
  known: ReadonlyMap<string, TaskEvent>,
  stamp: Stamp,
): Group {
  if (drafts.length > groupMax)
    throw rejected('group_too_large', `Cannot write ${drafts.length} events at once; the maximum is ${groupMax}.`)
  const ids = new Set<string>()
  const statuses = new Map<string, TaskStatus>()
  const [events, fresh, lines]: [TaskEvent[], TaskEvent[], string[]] = [[], [], []]
  let bytes = 0
  for (const draft of drafts) {
    const before = draft.eventId === undefined ? undefined : known.get(draft.eventId)
    if (before !== undefined) {
      if (before.taskId !== draft.taskId || before.type !== draft.type)
        throw rejected(
          'event_id_taken',
          `Event id "${before.eventId}" is already used by ${before.type} of "${before.taskId}".`,
        )
      events.push(before)
      continue
    }
    const event = makeEvent(draft, stamp)
    if (ids.has(event.eventId))
      throw rejected('event_id_taken', `Event id "${event.eventId}" occurs twice in one write.`)
    ids.add(event.eventId)
    checkMove(event, state, statuses)
    const line = JSON.stringify(event)
    const size = Buffer.byteLength(line)
    if (size > lineWriteMaxBytes)
      throw rejected(
        'line_too_long',
        `The event for "${event.taskId}" has ${size} bytes; the maximum is ${lineWriteMaxBytes}.`,
      )
    bytes += size
    if (bytes > groupMaxBytes)
      throw rejected('group_too_large', `Cannot write more than ${groupMaxBytes} bytes at once.`)
    events.push(event)
    fresh.push(event)
    lines.push(line, '\n')
  }
  return { events, fresh, bytes: Buffer.from(lines.join('')) }
}

export function makeEvent(draft: Draft, stamp: Stamp): TaskEvent {
  const { taskId, type, actor, payload = {} } = draft
  const eventId = draft.eventId ?? stamp.nextId()
  checkId('eventId', eventId)
  if (type !== 'board_control' || taskId !== '') checkId('taskId', taskId)
  if (!(type in messageTypes)) throw rejected('unknown_type', `Unknown event type "${type as string}".`)
  if (typeof actor !== 'string' || actor.length > idMax)
    throw rejected('bad_actor', `"actor" must be a string of at most ${idMax} characters.`)
  checkPayload(payload, `payload of ${taskId}`)
  return { eventId, taskId, type, messageType: messageTypes[type], actor, at: stamp.at, payload, token: stamp.token }
}

/** Ids go into paths, prompts and terminals: no separators, no invisible characters, no leading dot or dash. */
function checkId(name: string, id: unknown): void {
  if (typeof id === 'string' && id.length <= idMax && /^[^\s\p{C}/\\.-][^\p{C}/\\]*$/u.test(id)) return
  const shown = typeof id === 'string' ? JSON.stringify(id.slice(0, 40)) : typeof id
  throw rejected(
    'bad_id',
    `"${name}" must have 1 to ${idMax} characters, without / and \\ and without a leading dot or dash (got ${shown}).`,
  )
}

function checkMove(event: TaskEvent, state: BoardState, statuses: Map<string, TaskStatus>): void {
  const { taskId, type, payload } = event
  if (type === 'board_control') return
  const status = statuses.get(taskId) ?? state.tasks.get(taskId)?.status
  if (type === 'task_created' || type === 'diag_task_created') {
    if (status !== undefined) throw rejected('task_exists', `Task "${taskId}" already exists.`)
    statuses.set(taskId, 'pending')
    return
  }
  if (status === undefined) throw rejected('no_such_task', `Task "${taskId}" does not exist.`)
  const after = statusAfter(status, type, { from: payload['from'], to: payload['to'] })
  if (after === undefined)
    throw rejected('invalid_transition', `Task "${taskId}" is ${status}; ${type} is not allowed.`)
  statuses.set(taskId, after)
}

function checkPayload(payload: unknown, where: string): void {
  if (!isObject(payload)) throw rejected('bad_payload', `The ${where} must be an object.`)
  const values = payload as Readonly<Record<string, unknown>>
  for (const key of ['priority', 'impact'])
    if (values[key] !== undefined && (typeof values[key] !== 'number' || !Number.isFinite(values[key])))
      throw rejected('bad_number', `"${key}" in the ${where} must be a finite number.`)
  const { dependencies } = values
  if (
    dependencies !== undefined &&
    !(Array.isArray(dependencies) && dependencies.every((dependency) => typeof dependency === 'string'))
  )
    throw rejected('bad_dependencies', `"dependencies" in the ${where} must be a list of task ids.`)
  checkValue(payload, where, 1)
}

function checkValue(value: unknown, where: string, depth: number): void {
  if (depth >= depthMax) throw rejected('too_deep', `The ${where} is nested more than ${depthMax} levels deep.`)
  if (typeof value === 'number' && !Number.isFinite(value))
    throw rejected('bad_number', `The ${where} contains ${value}, which JSON cannot represent.`)
  if (typeof value === 'bigint' || typeof value === 'function' || typeof value === 'symbol')
    throw rejected('bad_payload', `The ${where} contains a ${typeof value}, which JSON cannot represent.`)
  if (typeof value === 'object' && value !== null)
    for (const one of Object.values(value)) checkValue(one, where, depth + 1)
}

function rejected(code: string, message: string): InvalidInput {
  return new InvalidInput(message, { code })
}
