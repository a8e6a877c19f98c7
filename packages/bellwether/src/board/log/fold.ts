/**
 * What the lines of a log add up to. Always: pure (no clock, no disk), and the same lines give the same state; a line that does
 * not count is a named problem and changes nothing. A line does not count when a higher fencing token has been seen before
 * it (H2.5), when its eventId has, when its type is unknown, or when its task may not move that way. Reading files is left to
 * replay.ts, one line's bytes to line.ts, one task to reduce.ts.
 */
import { ByteTable } from './byte-table.js'
import { Changes, setVersion } from './changes.js'
import type { EventIdIndex } from './event-id-index.js'
import { Line, type LineProblem } from './line.js'
import { Timestamps } from './timestamps.js'
import { controlAfter, createTask, applyEvent, statusAfter, type Mutable } from './reduce.js'
import { TaskMap } from './task-map.js'
import { eventTypes, type BoardState, type Task, type TaskEvent } from './task.js'

export type Problem =
  | LineProblem
  | 'duplicate_event_id'
  | 'unknown_type'
  | 'invalid_transition'
  | 'missing_task'
  | 'stale_token'

const createdType = eventTypes.indexOf('task_created')
const diagType = eventTypes.indexOf('diag_task_created')
const controlType = eventTypes.indexOf('board_control')

// More is made room for as it comes.
const expectMax = 2_000_000
const idBytes = 36

export class Fold {
  readonly #line = new Line()
  readonly #taskIds = new ByteTable()
  #eventIds = new ByteTable()
  /** The ids of events that were folded before those in the table; absent: the table has them all. */
  #idIndex: EventIdIndex | undefined
  /** Where each counted event's line begins: what an idempotency key is looked up by. */
  #places = new Float64Array(1_024)
  #tasks: Mutable<Task>[] = []
  #eventCount = 0
  readonly #timestamps = new Timestamps()
  readonly #lastTimestamp = new Timestamps()
  #lastEventAt: string | null = null
  #token = 0
  #unfenced = 0
  #control: Readonly<Record<string, unknown>> = {}
  /** Tasks before this number have been handed out: they are replaced, never changed. */
  #shared = 0
  /** Which of them are ours again, since the state that was handed out last. */
  #ownedSince = new Set<number>()
  #handedOut: TaskMap | undefined
  readonly #changes = new Changes()
  #state: BoardState | undefined

  /** More about the problem of the line that was taken last. */
  detail = ''

  get eventCount(): number {
    return this.#eventCount
  }

  get token(): number {
    return this.#token
  }

  /** Lines that counted without a fencing token: another program's, or written by hand. */
  get unfenced(): number {
    return this.#unfenced
  }

  get control(): Readonly<Record<string, unknown>> {
    return this.#control
  }

  get lastEventAt(): string | null {
    this.#lastTimestamp.flush((_, text) => (this.#lastEventAt = text))
    return this.#lastEventAt
  }

  /** Makes room for about this many events. Only before the first. */
  expect(events: number): void {
    const count = Math.min(Math.ceil(events), expectMax)
    this.#eventIds.expect(count, idBytes)
    if (this.#eventCount === 0 && count > this.#places.length) this.#places = new Float64Array(count)
  }

  /** A fold that stands where another stood when these were written down. */
  static from(past: FoldCheckpoint): Fold {
    const fold = new Fold()
    fold.#idIndex = past.idIndex
    fold.#eventCount = past.events
    fold.#lastEventAt = past.lastEventAt
    fold.#token = past.token
    fold.#unfenced = past.unfenced
    fold.#control = past.control
    for (const task of past.tasks) {
      const id = Buffer.from(task.taskId)
      if (fold.#taskIds.find(id, 0, id.length) >= 0) continue
      fold.#taskIds.addMissing(id, 0, id.length)
      fold.#tasks.push(task)
    }
    return fold
  }

  /** Every id that was folded so far is in `earlier` now: this many bytes of memory less for each. */
  forgetIds(earlier: EventIdIndex): void {
    this.#idIndex = earlier
    this.#eventIds = new ByteTable()
    this.#places = new Float64Array(1_024)
  }

  get idIndex(): EventIdIndex | undefined {
    return this.#idIndex
  }

  /** Every event since `earlier`: its id's bytes and its place. */
  eachId(tell: (bytes: Uint8Array, start: number, end: number, place: number) => void): void {
    this.#eventIds.each((bytes, start, end, number) => tell(bytes, start, end, this.#places[number]!))
  }

  /**
   * Adds one line; `place` is where it begins in the log. Returns why it does not count, or undefined. `unsure`: only
   * `earlier.find` can tell whether its id counted before; it must then be taken again, as `fresh` or not at all.
   */
  take(bytes: Buffer, start: number, end: number, place: number, fresh = false): Problem | 'unsure' | undefined {
    const line = this.#line
    this.detail = ''
    const broken = line.read(bytes, start, end)
    if (broken !== undefined) {
      this.detail = line.detail
      return broken
    }
    const problem = this.#problem(line, fresh)
    if (problem !== undefined) return problem
    const at = this.#eventIds.size
    this.#eventIds.addMissing(line.bytes, line.eventIdStart, line.eventIdEnd)
    if (at === this.#places.length) {
      const larger = new Float64Array(Math.ceil(at * 1.5))
      larger.set(this.#places)
      this.#places = larger
    }
    this.#places[at] = place
    if (line.token >= 0) this.#token = line.token
    else this.#unfenced += 1
    this.#eventCount += 1
    if (!this.#lastTimestamp.set(0, line.bytes, line.atStart, line.atEnd)) this.#lastEventAt = line.at()
    this.#state = undefined
    return undefined
  }

  /** Applies the line to its task, unless it does not count. */
  #problem(line: Line, fresh: boolean): Problem | 'unsure' | undefined {
    if (line.token >= 0 && line.token < this.#token) {
      this.detail = `token ${line.token} after ${this.#token}`
      return 'stale_token'
    }
    if (this.#eventIds.find(line.bytes, line.eventIdStart, line.eventIdEnd) >= 0) {
      this.detail = line.text(line.eventIdStart, line.eventIdEnd)
      return 'duplicate_event_id'
    }
    if (!fresh && this.#idIndex?.mayContain(line.bytes, line.eventIdStart, line.eventIdEnd) === true) {
      this.detail = line.text(line.eventIdStart, line.eventIdEnd)
      return 'unsure'
    }
    if (line.type < 0) return 'unknown_type'
    if (line.type === controlType) {
      this.#control = controlAfter(this.#control, line.payload)
      return undefined
    }
    const known = this.#taskIds.find(line.bytes, line.taskIdStart, line.taskIdEnd)
    if (line.type === createdType || line.type === diagType) {
      const taskId = line.text(line.taskIdStart, line.taskIdEnd)
      if (taskId === '') {
        this.detail = 'taskId is empty'
        return 'missing_keys'
      }
      if (known >= 0) {
        this.detail = `${taskId} is there already`
        return 'invalid_transition'
      }
      this.#taskIds.addMissing(line.bytes, line.taskIdStart, line.taskIdEnd)
      this.#tasks.push(createTask(taskId, line))
      return undefined
    }
    const before = this.#tasks[known]
    if (before === undefined) {
      this.detail = line.text(line.taskIdStart, line.taskIdEnd)
      return 'missing_task'
    }
    const type = eventTypes[line.type]!
    const status = statusAfter(before.status, type, line.payload)
    if (status === undefined) {
      this.detail = `${before.taskId}: ${type} in status ${before.status}`
      return 'invalid_transition'
    }
    const task = this.#own(known, before)
    applyEvent(task, type, status, line)
    // Once states are handed out, few lines come between two of them: noting their times for later gains nothing.
    if (this.#handedOut !== undefined || !this.#timestamps.set(known, line.bytes, line.atStart, line.atEnd))
      task.updatedAt = line.at()
    return undefined
  }

  /** The task to change: a copy, if someone else may hold it. */
  #own(number: number, task: Mutable<Task>): Mutable<Task> {
    if (number >= this.#shared || this.#ownedSince.has(number)) return task
    const copy = { ...task, runs: [...task.runs], fields: { ...task.fields } }
    this.#tasks[number] = copy
    this.#ownedSince.add(number)
    return copy
  }

  /** Where the line of this event begins; undefined: no such event counted. */
  placeOf(eventId: string): number | undefined {
    const bytes = Buffer.from(eventId)
    const at = this.#eventIds.find(bytes, 0, bytes.length)
    return at < 0 ? undefined : this.#places[at]
  }

  /** In the order in which they were created. For reading only. */
  tasks(): readonly Task[] {
    this.#timestamps.flush((number, text) => (this.#tasks[number]!.updatedAt = text))
    return this.#tasks
  }

  /** The state as it is now; it never changes afterwards. */
  state(): BoardState {
    if (this.#state !== undefined) return this.#state
    const all = this.tasks()
    const changed = [...this.#ownedSince].map((number) => all[number]!)
    for (let number = this.#shared; number < all.length; number += 1) changed.push(all[number]!)
    const tasks = this.#handedOut === undefined ? TaskMap.of(all) : this.#handedOut.with(changed)
    if (this.#handedOut !== undefined)
      this.#changes.record(
        changed.map(({ taskId }) => taskId),
        all.length,
      )
    this.#handedOut = tasks
    this.#shared = all.length
    this.#ownedSince = new Set()
    this.#state = {
      tasks,
      eventCount: this.#eventCount,
      lastEventAt: this.lastEventAt,
      token: this.#token,
      control: this.#control,
    }
    setVersion(this.#state, { changes: this.#changes, at: this.#changes.now })
    return this.#state
  }
}

/** What a fold is made of but for its memory of ids. */
export interface FoldCheckpoint {
  readonly tasks: Iterable<Task>
  readonly control: Readonly<Record<string, unknown>>
  readonly events: number
  readonly lastEventAt: string | null
  readonly token: number
  readonly unfenced: number
  readonly idIndex: EventIdIndex
}

/** The state after these events; for a handful of them. */
export function foldEvents(events: Iterable<TaskEvent>): BoardState {
  const fold = new Fold()
  for (const event of events) {
    const bytes = Buffer.from(JSON.stringify(event))
    fold.take(bytes, 0, bytes.length, 0)
  }
  return fold.state()
}
