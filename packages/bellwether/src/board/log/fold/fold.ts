/**
 * Folds the lines of a log into the state of the board; the same lines give the same state. A line does not count, is
 * reported as a named problem and changes nothing if a higher fencing token came before it (H2.5), if its eventId is
 * already known, if its type is unknown, or if its transition is illegal. The tasks of a damaged or illegal line are marked (H5.2).
 */
import { ByteTable } from './byte-table.js'
import { Changes, setVersion } from '../changes.js'
import type { EventIdIndex } from './event-id-index.js'
import { Line, type LineProblem } from '../lines/line.js'
import { Timestamps } from '../lines/timestamps.js'
import { controlAfter, createTask, applyEvent, statusAfter, type Mutable } from './reduce.js'
import { TaskMap } from './task-map.js'
import { damageOf } from './damage.js'
import { eventTypes, type BoardState, type Task, type TaskDamage } from '../task.js'

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

/** The problems of a line that cannot be read as an event. */
export const damagedKinds: ReadonlySet<Problem> = new Set<Problem>([
  'broken_json',
  'missing_keys',
  'not_utf8',
  'too_long',
  'too_deep',
])

// The tables grow beyond this when needed.
const expectMax = 2_000_000
const idBytes = 36

export class Fold {
  readonly #line = new Line()
  readonly #taskIds = new ByteTable()
  #eventIds = new ByteTable()
  /** The ids of events before those in the table; undefined: the table has all of them. */
  #idIndex: EventIdIndex | undefined
  /** The byte offset of each counted event's line, for idempotency lookups. */
  #places = new Float64Array(1_024)
  #tasks: Mutable<Task>[] = []
  #eventCount = 0
  readonly #timestamps = new Timestamps()
  readonly #lastTimestamp = new Timestamps()
  #lastEventAt: string | null = null
  #token = 0
  #unfenced = 0
  #control: Readonly<Record<string, unknown>> = {}
  /** Tasks before this index belong to a returned state: they are replaced, never changed. */
  #shared = 0
  /** Which of them were copied since the last returned state and may be changed. */
  #ownedSince = new Set<number>()
  #handedOut: TaskMap | undefined
  readonly #changes = new Changes()
  #state: BoardState | undefined

  /** More about the problem of the last line. */
  detail = ''
  /** The task of the last line whose transition was illegal; -1: none. */
  #illegalFor = -1
  /** The done task that the last line put back into the queue; -1: none. */
  #reopened = -1
  /** The last damaged line that names no task: every task that was open then and has not moved since may be its task. */
  #damage: (TaskDamage & { readonly tasks: number; readonly events: number }) | undefined
  /** By task: how many events had counted when it moved last. */
  readonly #movedAt: number[] = []

  get eventCount(): number {
    return this.#eventCount
  }

  get token(): number {
    return this.#token
  }

  /** Lines that counted without a fencing token: written by another program or by hand. */
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

  /** Allocates tables for about this many events. Only before the first event. */
  expect(events: number): void {
    const count = Math.min(Math.ceil(events), expectMax)
    this.#eventIds.expect(count, idBytes)
    if (this.#eventCount === 0 && count > this.#places.length) this.#places = new Float64Array(count)
  }

  /** Continues from a checkpoint. */
  static from(checkpoint: FoldCheckpoint): Fold {
    const fold = new Fold()
    fold.#idIndex = checkpoint.idIndex
    fold.#eventCount = checkpoint.events
    fold.#lastEventAt = checkpoint.lastEventAt
    fold.#token = checkpoint.token
    fold.#unfenced = checkpoint.unfenced
    fold.#control = checkpoint.control
    for (const task of checkpoint.tasks) {
      const id = Buffer.from(task.taskId)
      if (fold.#taskIds.find(id, 0, id.length) >= 0) continue
      fold.#taskIds.addMissing(id, 0, id.length)
      fold.#tasks.push(task)
      fold.#movedAt.push(0)
    }
    return fold
  }

  /** Frees the table of ids: `idIndex` now holds every id folded so far. */
  moveIdsTo(idIndex: EventIdIndex): void {
    this.#idIndex = idIndex
    this.#eventIds = new ByteTable()
    this.#places = new Float64Array(1_024)
  }

  get idIndex(): EventIdIndex | undefined {
    return this.#idIndex
  }

  /** Visits the id and the byte offset of every event that `idIndex` does not hold. */
  eachId(visit: (bytes: Uint8Array, start: number, end: number, place: number) => void): void {
    this.#eventIds.each((bytes, start, end, number) => visit(bytes, start, end, this.#places[number]!))
  }

  /**
   * Adds one line that begins at byte `place` of the log. Returns why it does not count, or undefined. `unsure`: only
   * `idIndex.find` knows whether the id counted before; if it did not, the caller takes the line again with `fresh`.
   */
  take(bytes: Buffer, start: number, end: number, place: number, fresh = false): Problem | 'unsure' | undefined {
    const line = this.#line
    this.detail = ''
    this.#illegalFor = -1
    this.#reopened = -1
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
        this.detail = `${taskId} already exists`
        return 'invalid_transition'
      }
      this.#taskIds.addMissing(line.bytes, line.taskIdStart, line.taskIdEnd)
      this.#tasks.push(createTask(taskId, line))
      this.#movedAt.push(this.#eventCount)
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
      this.#illegalFor = known
      this.detail = `${before.taskId}: ${type} in status ${before.status}`
      return 'invalid_transition'
    }
    const task = this.#own(known, before)
    if (before.status === 'done' && status !== 'done') this.#reopened = known
    applyEvent(task, type, status, line)
    if (type !== 'task_noted' || line.payload.damage !== undefined) this.#movedAt[known] = this.#eventCount
    // A line that keeps a task held in a compacted log is not a change of the task.
    if (line.payload.damage !== undefined && line.payload.damage !== null) return undefined
    // After the first returned state few lines come between two states: deferring their times gains nothing.
    if (this.#handedOut !== undefined || !this.#timestamps.set(known, line.bytes, line.atStart, line.atEnd))
      task.updatedAt = line.at()
    return undefined
  }

  /**
   * Marks the tasks that a line may belong to, if it does not count because it is damaged or illegal: they wait for a person.
   * The line is the one that `take` or the reader rejected; `bytes` are undefined if it was too long to keep.
   */
  holdTasks(kind: Problem, line: number, bytes: Buffer | undefined): void {
    if (kind === 'invalid_transition') {
      if (this.#illegalFor >= 0) this.#hold(this.#illegalFor, { line, kind })
      return
    }
    if (!damagedKinds.has(kind)) return
    const damage = bytes === undefined ? 'any' : damageOf(bytes, kind === 'missing_keys' || kind === 'too_deep')
    if (damage === 'any') {
      this.#damage = { line, kind, tasks: this.#tasks.length, events: this.#eventCount }
      this.#state = undefined
      return
    }
    for (const id of damage.ids) {
      const name = Buffer.from(id)
      const known = this.#taskIds.find(name, 0, name.length)
      if (known >= 0) this.#hold(known, { line, kind })
    }
  }

  /** Whether the last line put a done task back into the queue. */
  get isReopening(): boolean {
    return this.#reopened >= 0
  }

  /** Holds the task that the last line reopened: lines before it are damaged or illegal, so it may be a late copy of one of them. */
  holdReopened(line: number): void {
    this.#hold(this.#reopened, { line, kind: 'reopened' })
  }

  #hold(number: number, damage: TaskDamage): void {
    const before = this.#tasks[number]!
    // Done is final. The last line wins, so that the result does not depend on when the tasks are read.
    if (before.status === 'done' || (before.damage?.line ?? 0) >= damage.line) return
    this.#own(number, before).damage = damage
    this.#state = undefined
  }

  #applyDamage(): void {
    const damage = this.#damage
    if (damage === undefined) return
    this.#damage = undefined
    const { line, kind } = damage
    for (let number = 0; number < damage.tasks; number += 1)
      if (this.#movedAt[number]! < damage.events) this.#hold(number, { line, kind })
  }

  /** The task to change: a copy if a returned state contains it. */
  #own(number: number, task: Mutable<Task>): Mutable<Task> {
    if (number >= this.#shared || this.#ownedSince.has(number)) return task
    const copy = { ...task, runs: [...task.runs], fields: { ...task.fields } }
    this.#tasks[number] = copy
    this.#ownedSince.add(number)
    return copy
  }

  /** The byte offset of this event's line; undefined: no such event counted. */
  placeOf(eventId: string): number | undefined {
    const bytes = Buffer.from(eventId)
    const at = this.#eventIds.find(bytes, 0, bytes.length)
    return at < 0 ? undefined : this.#places[at]
  }

  /** In order of creation. Read only. */
  tasks(): readonly Task[] {
    this.#applyDamage()
    this.#timestamps.flush((number, text) => (this.#tasks[number]!.updatedAt = text))
    return this.#tasks
  }

  /** The current state, immutable. */
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

/** Everything from which a fold continues. */
export interface FoldCheckpoint {
  readonly tasks: Iterable<Task>
  readonly control: Readonly<Record<string, unknown>>
  readonly events: number
  readonly lastEventAt: string | null
  readonly token: number
  readonly unfenced: number
  readonly idIndex: EventIdIndex
}
