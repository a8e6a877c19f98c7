/**
 * The readiness of every task, updated only for tasks that changed, tasks that depend on them, and tasks whose time has come.
 * The result equals calling `readiness` for every task, and depends only on the state, the time and the rules.
 */
import { claimOf, textField } from './task-fields.js'
import { incremental, type IncrementalIndex } from './incremental.js'
import { reminderDueMs } from './reminders.js'
import { recoveryOf, ruleFor } from '../policies/recovery.js'
import { byUrgency, cooldownSlackSec, readiness, type Readiness, type ReadyRules } from './ready.js'
import { Sorted } from './sorted.js'
import type { BoardState, Task } from '../log/task.js'

export interface ReadinessEntry {
  readonly task: Task
  readonly readiness: Readiness
  /** When the passing of time alone changes the readiness; null: never. */
  readonly nextMs: number | null
  /** When the next reminder is due; null: the task does not wait for a person. */
  readonly reminderMs: number | null
}

const byTask = (a: ReadinessEntry, b: ReadinessEntry): number => byUrgency(a.task, b.task)
const byName = (a: ReadinessEntry, b: ReadinessEntry): number =>
  a.task.taskId < b.task.taskId ? -1 : a.task.taskId > b.task.taskId ? 1 : 0

export class ReadinessIndex implements IncrementalIndex {
  readonly ready = new Sorted<ReadinessEntry>(byTask)
  readonly waiting = new Sorted<ReadinessEntry>(byTask)
  readonly reminders = new Sorted<ReadinessEntry>((a, b) => a.reminderMs! - b.reminderMs! || byName(a, b))
  readonly #timed = new Sorted<ReadinessEntry>((a, b) => a.nextMs! - b.nextMs! || byName(a, b))
  readonly #all = new Map<string, ReadinessEntry>()
  /** The tasks that depend on a task, by its id. */
  readonly #dependents = new Map<string, Set<string>>()
  readonly #rules: ReadyRules
  #nowMs: number

  constructor(rules: ReadyRules, nowMs: number) {
    this.#rules = rules
    this.#nowMs = nowMs
  }

  rebuild(state: BoardState): void {
    const ready: ReadinessEntry[] = []
    const waiting: ReadinessEntry[] = []
    const reminders: ReadinessEntry[] = []
    const timed: ReadinessEntry[] = []
    for (const task of state.tasks.values()) {
      const entry = this.#entryFor(task, state)
      if (entry === null) continue
      this.#insert(entry)
      ;(entry.readiness.ready ? ready : waiting).push(entry)
      if (entry.reminderMs !== null) reminders.push(entry)
      if (entry.nextMs !== null) timed.push(entry)
    }
    this.ready.replaceAll(ready)
    this.waiting.replaceAll(waiting)
    this.reminders.replaceAll(reminders)
    this.#timed.replaceAll(timed)
  }

  update(state: BoardState, tasks: readonly Task[]): void {
    const touched = new Set<Task>(tasks)
    for (const { taskId } of tasks)
      for (const id of this.#dependents.get(taskId) ?? []) touched.add(state.tasks.get(id)!)
    for (const task of touched) this.#reindex(task, state)
  }

  /** When the passing of time alone changes the readiness of a task; null: never. */
  nextChangeMs(): number | null {
    return this.#timed.first(1)[0]?.nextMs ?? null
  }

  /** If the clock was set back, everything that depends on time is evaluated again. */
  advanceTo(state: BoardState, nowMs: number): void {
    const isBack = nowMs < this.#nowMs
    this.#nowMs = nowMs
    const due: ReadinessEntry[] = []
    for (const one of this.#timed) {
      if (!isBack && one.nextMs! > nowMs) break
      due.push(one)
    }
    if (isBack) due.push(...this.reminders)
    for (const one of due) this.#reindex(one.task, state)
  }

  #reindex(task: Task, state: BoardState): void {
    const before = this.#all.get(task.taskId)
    if (before !== undefined) this.#remove(before)
    const entry = this.#entryFor(task, state)
    if (entry === null) return
    this.#insert(entry)
    ;(entry.readiness.ready ? this.ready : this.waiting).add(entry)
    if (entry.reminderMs !== null) this.reminders.add(entry)
    if (entry.nextMs !== null) this.#timed.add(entry)
  }

  /** Null: the task is done. */
  #entryFor(task: Task, state: BoardState): ReadinessEntry | null {
    const found = readiness(task, state, this.#nowMs, this.#rules)
    if (!found.ready && found.code === 'done') return null
    const reminderMs = reminderDueMs(task, found, this.#nowMs, this.#rules.recovery)
    return { task, readiness: found, nextMs: nextChangeMs(task, this.#nowMs, this.#rules), reminderMs }
  }

  #insert(one: ReadinessEntry): void {
    const { taskId, dependencies } = one.task
    this.#all.set(taskId, one)
    for (const id of dependencies) {
      const dependents = this.#dependents.get(id)
      if (dependents === undefined) this.#dependents.set(id, new Set([taskId]))
      else dependents.add(taskId)
    }
  }

  #remove(one: ReadinessEntry): void {
    const { taskId, dependencies } = one.task
    this.#all.delete(taskId)
    ;(one.readiness.ready ? this.ready : this.waiting).delete(one)
    if (one.reminderMs !== null) this.reminders.delete(one)
    if (one.nextMs !== null) this.#timed.delete(one)
    for (const id of dependencies) {
      const dependents = this.#dependents.get(id)
      dependents?.delete(taskId)
      if (dependents?.size === 0) this.#dependents.delete(id)
    }
  }
}

/** The next time at which the readiness may change without an event. */
function nextChangeMs(task: Task, nowMs: number, { recovery }: ReadyRules): number | null {
  let moments: readonly number[] = []
  if (task.status === 'claimed') {
    const claim = claimOf(task)
    if (claim !== null) moments = [Date.parse(claim.since), Date.parse(claim.until)]
  } else if (task.status === 'blocked') {
    const code = textField(task, 'reasonCode')
    const decided = code === null ? undefined : recoveryOf(task, code)
    if (decided?.action === 'retry') {
      const untilMs = decided.cooldownUntilTs * 1_000
      const { cooldownSec } = ruleFor(recovery, decided.reasonCode)
      moments = [untilMs - (cooldownSec + cooldownSlackSec) * 1_000, untilMs]
    }
  }
  const later = moments.filter((ms) => ms > nowMs)
  return later.length === 0 ? null : Math.min(...later)
}

interface IndexOptions {
  readonly rules: ReadyRules
  readonly nowMs: number
}

const indexOf = incremental<IndexOptions, ReadinessIndex>(({ rules, nowMs }) => new ReadinessIndex(rules, nowMs))
const texts = new WeakMap<ReadyRules['recovery'], string>()

/** Policies are read for every step and rarely change, so they are compared by content. */
function keyOf({ firstAgent, recovery, agents = [] }: ReadyRules): string {
  const text = texts.get(recovery) ?? JSON.stringify(recovery)
  texts.set(recovery, text)
  return `${firstAgent} ${agents.length === 0 ? '' : JSON.stringify(agents)} ${text}`
}

export function readinessIndex(state: BoardState, nowMs: number, rules: ReadyRules): ReadinessIndex {
  const index = indexOf(state, { rules, nowMs }, keyOf(rules))
  index.advanceTo(state, nowMs)
  return index
}
