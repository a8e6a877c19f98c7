/**
 * The tasks of one moment, by id, in the order of their creation. Always: it never changes; the next moment is made from it by
 * naming what changed, and costs what changed and not what is there. What a task is, is left to task.ts.
 */
import type { Task } from './task.js'

// Copied for every new moment; a whole copy is made when this part of all tasks lies above the base.
const overlayPart = 32
const overlayMin = 32
const overlayMax = 4_096

export class TaskMap implements ReadonlyMap<string, Task> {
  readonly #base: ReadonlyMap<string, Task>
  /** What the base has otherwise or not at all. */
  readonly #overlay: ReadonlyMap<string, Task>
  /** The ids that the base does not have, in order. */
  readonly #added: readonly string[]

  private constructor(base: ReadonlyMap<string, Task>, over: ReadonlyMap<string, Task>, fresh: readonly string[]) {
    this.#base = base
    this.#overlay = over
    this.#added = fresh
  }

  static of(tasks: Iterable<Task>): TaskMap {
    const base = new Map<string, Task>()
    for (const task of tasks) base.set(task.taskId, task)
    return new TaskMap(base, new Map(), [])
  }

  /** The same with these instead; those that are new come last, in the order given. */
  with(changed: Iterable<Task>): TaskMap {
    const over = new Map(this.#overlay)
    const fresh = [...this.#added]
    for (const task of changed) {
      if (!over.has(task.taskId) && !this.#base.has(task.taskId)) fresh.push(task.taskId)
      over.set(task.taskId, task)
    }
    const next = new TaskMap(this.#base, over, fresh)
    const room = Math.min(Math.max(overlayMin, next.size / overlayPart), overlayMax)
    return over.size <= room ? next : TaskMap.of(next.values())
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

  forEach(tell: (task: Task, taskId: string, map: ReadonlyMap<string, Task>) => void): void {
    for (const [taskId, task] of this) tell(task, taskId, this)
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
