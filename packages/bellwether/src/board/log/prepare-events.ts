/**
 * From what a writer decided to lines that may be appended. Always: a group is legal as a whole, in its order, or it is refused
 * as a whole with the reason; what could not be read back (too long, too deep, no number) is refused before it is written. The
 * same eventId again is the same event, and is not written twice. Pure.
 */
import { InvalidInput } from '@bellwether/protocol'
import { depthMax } from './line.js'
import { statusAfter } from './reduce.js'
import { messageTypes, type BoardState, type Draft, type TaskEvent, type TaskStatus } from './task.js'

// A task is a page or two, not an archive: a line of this size still replays in a millisecond.
export const lineWriteMaxBytes = 2 ** 20
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
  /** In the order of the drafts; those that the log had already are among them. */
  readonly events: readonly TaskEvent[]
  readonly fresh: readonly TaskEvent[]
  readonly bytes: Buffer
}

/** `known`: the events of the log that bear the id of a draft. */
export function prepare(
  drafts: readonly Draft[],
  state: BoardState,
  known: ReadonlyMap<string, TaskEvent>,
  stamp: Stamp,
): Group {
  if (drafts.length > groupMax) throw refused('group_too_large', `one write holds at most ${groupMax} events`)
  const ids = new Set<string>()
  const statuses = new Map<string, TaskStatus>()
  const [events, fresh, lines]: [TaskEvent[], TaskEvent[], string[]] = [[], [], []]
  let bytes = 0
  for (const draft of drafts) {
    const before = draft.eventId === undefined ? undefined : known.get(draft.eventId)
    if (before !== undefined) {
      if (before.taskId !== draft.taskId || before.type !== draft.type)
        throw refused('event_id_taken', `event ${before.eventId} is another one: ${before.type} of ${before.taskId}`)
      events.push(before)
      continue
    }
    const event = makeEvent(draft, stamp)
    if (ids.has(event.eventId)) throw refused('event_id_taken', `event ${event.eventId} stands twice in one write`)
    ids.add(event.eventId)
    checkMove(event, state, statuses)
    const line = JSON.stringify(event)
    const size = Buffer.byteLength(line)
    if (size > lineWriteMaxBytes)
      throw refused('line_too_long', `an event of ${size} bytes for ${event.taskId}; the most is ${lineWriteMaxBytes}`)
    bytes += size
    if (bytes > groupMaxBytes) throw refused('group_too_large', `one write holds at most ${groupMaxBytes} bytes`)
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
  if (!(type in messageTypes)) throw refused('unknown_type', `there is no event type ${type as string}`)
  if (typeof actor !== 'string' || actor.length > idMax)
    throw refused('bad_actor', `actor must be a text of at most ${idMax} characters`)
  checkPayload(payload, `payload of ${taskId}`)
  return { eventId, taskId, type, messageType: messageTypes[type], actor, at: stamp.at, payload, token: stamp.token }
}

/** Names go into paths, prompts and terminals: no separators, nothing that cannot be seen, no leading dot or dash. */
function checkId(name: string, id: unknown): void {
  if (typeof id === 'string' && id.length <= idMax && /^[^\s\p{C}/\\.-][^\p{C}/\\]*$/u.test(id)) return
  const shown = typeof id === 'string' ? JSON.stringify(id.slice(0, 40)) : typeof id
  throw refused(
    'bad_id',
    `${name} ${shown} must be 1 to ${idMax} characters, without / and \\ and without a leading dot or dash`,
  )
}

function checkMove(event: TaskEvent, state: BoardState, statuses: Map<string, TaskStatus>): void {
  const { taskId, type, payload } = event
  if (type === 'board_control') return
  const status = statuses.get(taskId) ?? state.tasks.get(taskId)?.status
  if (type === 'task_created' || type === 'diag_task_created') {
    if (status !== undefined) throw refused('task_exists', `there is a task ${taskId} already`)
    statuses.set(taskId, 'pending')
    return
  }
  if (status === undefined) throw refused('no_such_task', `there is no task ${taskId}`)
  const after = statusAfter(status, type, { from: payload['from'], to: payload['to'] })
  if (after === undefined) throw refused('invalid_transition', `${taskId} is ${status}: ${type} may not follow`)
  statuses.set(taskId, after)
}

function checkPayload(payload: unknown, where: string): void {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload))
    throw refused('bad_payload', `${where} must be an object`)
  const told = payload as Readonly<Record<string, unknown>>
  for (const key of ['priority', 'impact'])
    if (told[key] !== undefined && (typeof told[key] !== 'number' || !Number.isFinite(told[key])))
      throw refused('bad_number', `${key} in the ${where} must be a finite number`)
  const { dependencies } = told
  if (
    dependencies !== undefined &&
    !(Array.isArray(dependencies) && dependencies.every((one) => typeof one === 'string'))
  )
    throw refused('bad_dependencies', `dependencies in the ${where} must be a list of task ids`)
  checkValue(payload, where, 1)
}

function checkValue(value: unknown, where: string, depth: number): void {
  if (depth >= depthMax) throw refused('too_deep', `the ${where} is nested more than ${depthMax} deep`)
  if (typeof value === 'number' && !Number.isFinite(value))
    throw refused('bad_number', `the ${where} holds ${value}, which JSON cannot write`)
  if (typeof value === 'bigint' || typeof value === 'function' || typeof value === 'symbol')
    throw refused('bad_payload', `the ${where} holds a ${typeof value}, which JSON cannot write`)
  if (typeof value === 'object' && value !== null)
    for (const one of Object.values(value)) checkValue(one, where, depth + 1)
}

function refused(code: string, message: string): InvalidInput {
  return new InvalidInput(message, { code })
}
