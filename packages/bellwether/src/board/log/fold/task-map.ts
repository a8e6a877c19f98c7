/**
 * An immutable map of tasks by id in order of creation. The next version is derived from it at a cost that depends on the
 * number of changed tasks, not on the number of tasks.
 */
import type { Task } from '../task.js'

// The overlay is copied for every version; the base is rebuilt when the overlay exceeds this part of all tasks.
const overlayPart = 32
const overlayMin = 32
const overlayMax = 4_096

export class TaskMap implements ReadonlyMap<string, Task> {
  readonly #base: ReadonlyMap<string, Task>
  /** Tasks that differ from the base or are missing there. */
  readonly #overlay: ReadonlyMap<string, Task>
  /** Ids that the base does not have, in order of creation. */
  readonly #added: readonly string[]

  private constructor(base: ReadonlyMap<string, Task>, overlay: ReadonlyMap<string, Task>, added: readonly string[]) {
    this.#base = base
    this.#overlay = overlay
    this.#added = added
  }

  static of(tasks: Iterable<Task>): TaskMap {
    const base = new Map<string, Task>()
    for (const task of tasks) base.set(task.taskId, task)
    return new TaskMap(base, new Map(), [])
  }

  /** A map with these tasks replaced; new ones come last, in the given order. */
  with(changed: Iterable<Task>): TaskMap {
    const overlay = new Map(this.#overlay)
    const added = [...this.#added]
    for (const task of changed) {
      if (!overlay.has(task.taskId) && !this.#base.has(task.taskId)) added.push(task.taskId)
      overlay.set(task.taskId, task)
    }
    const next = new TaskMap(this.#base, overlay, added)
    const room = Math.min(Math.max(overlayMin, next.size / overlayPart), overlayMax)
    return overlay.size <= room ? next : TaskMap.of(next.values())
  }

  get size(): number {
    return this.#base.size + this.#added.length
  }

  get(taskId: string): Task | undefined {
    return this.#overlay.get(taskId) ?? this.#base.get(taskId)
  }

  has(taskId: string): boolean {
    return this.#overlay.has(taskId) || this.#base.has(taskId)
  }

  forEach(visit: (task: Task, taskId: string, map: ReadonlyMap<string, Task>) => void): void {
    for (const [taskId, task] of this) visit(task, taskId, this)
  }

  *entries(): Generator<[string, Task], undefined> {
    for (const [taskId, task] of this.#base) yield [taskId, this.#overlay.get(taskId) ?? task]
    for (const taskId of this.#added) yield [taskId, this.#overlay.get(taskId)!]
    return undefined
  }

  *keys(): Generator<string, undefined> {
    for (const taskId of this.#base.keys()) yield taskId
    for (const taskId of this.#added) yield taskId
    return undefined
  }

  *values(): Generator<Task, undefined> {
    for (const [, task] of this.entries()) yield task
    return undefined
  }

  [Symbol.iterator](): Generator<[string, Task], undefined> {
    return this.entries()
  }
}
