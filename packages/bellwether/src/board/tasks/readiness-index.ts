/**
 * What every task waits for, kept up with what changes: the tasks that moved, those that wait for them, and those whose time has
 * come. Always: the same as asking `readiness` of every task; in the order of urgency. Pure for whoever asks: the answer follows
 * from the state, the hour and the rules alone.
 */
import { claimOf, textField } from './task-fields.js'
import { incremental, type IncrementalIndex } from './incremental.js'
import { reminderDueMs } from './reminder-due.js'
import { recoveryOf, ruleFor } from '../policies/recovery.js'
import { byUrgency, cooldownSlackSec, readiness, type Readiness, type ReadyRules } from './ready.js'
import { Sorted } from './sorted.js'
import type { BoardState, Task } from '../log/task.js'

export interface ReadinessEntry {
  readonly task: Task
  readonly readiness: Readiness
  /** When time alone changes what is told; null: never. */
  readonly nextMs: number | null
  /** When somebody must be asked or reminded; null: no person is waited for. */
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
  /** Who waits for a task, by its id. */
  readonly #dependents = new Map<string, Set<string>>()
  readonly #rules: ReadyRules
  #nowMs: number

  constructor(rules: ReadyRules, nowMs: number) {
    this.#rules = rules
    this.#nowMs = nowMs
  }

  rebuild(state: BoardState): void {
    const [ready, waiting, people, timed]: [ReadinessEntry[], ReadinessEntry[], ReadinessEntry[], ReadinessEntry[]] = [
      [],
      [],
      [],
      [],
    ]
    for (const task of state.tasks.values()) {
      const one = this.#entryFor(task, state)
      if (one === null) continue
      this.#insert(one)
      ;(one.readiness.ready ? ready : waiting).push(one)
      if (one.reminderMs !== null) people.push(one)
      if (one.nextMs !== null) timed.push(one)
    }
    this.ready.become(ready)
    this.waiting.become(waiting)
    this.reminders.become(people)
    this.#timed.become(timed)
  }

  update(state: BoardState, tasks: readonly Task[]): void {
    const touched = new Set<Task>(tasks)
    for (const { taskId } of tasks)
      for (const id of this.#dependents.get(taskId) ?? []) touched.add(state.tasks.get(id)!)
    for (const task of touched) this.#reindex(task, state)
  }

  /** Time has passed. A clock that was set back may change whatever depends on time. */
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
    const one = this.#entryFor(task, state)
    if (one === null) return
    this.#insert(one)
    ;(one.readiness.ready ? this.ready : this.waiting).add(one)
    if (one.reminderMs !== null) this.reminders.add(one)
    if (one.nextMs !== null) this.#timed.add(one)
  }

  /** Null: it is done, and nobody asks any more. */
  #entryFor(task: Task, state: BoardState): ReadinessEntry | null {
    const told = readiness(task, state, this.#nowMs, this.#rules)
    if (!told.ready && told.code === 'done') return null
    const personMs = reminderDueMs(task, told, this.#nowMs, this.#rules.recovery)
    return { task, readiness: told, nextMs: nextChangeMs(task, this.#nowMs, this.#rules), reminderMs: personMs }
  }

  #insert(one: ReadinessEntry): void {
    const { taskId, dependencies } = one.task
    this.#all.set(taskId, one)
    for (const id of dependencies) {
      const waiters = this.#dependents.get(id)
      if (waiters === undefined) this.#dependents.set(id, new Set([taskId]))
      else waiters.add(taskId)
    }
  }

  #remove(one: ReadinessEntry): void {
    const { taskId, dependencies } = one.task
    this.#all.delete(taskId)
    ;(one.readiness.ready ? this.ready : this.waiting).delete(one)
    if (one.reminderMs !== null) this.reminders.delete(one)
    if (one.nextMs !== null) this.#timed.delete(one)
    for (const id of dependencies) {
      const waiters = this.#dependents.get(id)
      waiters?.delete(taskId)
      if (waiters?.size === 0) this.#dependents.delete(id)
    }
  }
}

/** The next moment at which time alone may change what a task waits for. */
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

interface Question {
  readonly rules: ReadyRules
  readonly nowMs: number
}

const outlooks = incremental<Question, ReadinessIndex>(({ rules, nowMs }) => new ReadinessIndex(rules, nowMs))
const texts = new WeakMap<ReadyRules['recovery'], string>()

/** Policies are read afresh for every step, and most often say the same. */
function keyOf({ firstAgent, recovery }: ReadyRules): string {
  const text = texts.get(recovery) ?? JSON.stringify(recovery)
  texts.set(recovery, text)
  return `${firstAgent} ${text}`
}

export function readinessIndex(state: BoardState, nowMs: number, rules: ReadyRules): ReadinessIndex {
  const outlook = outlooks(state, { rules, nowMs }, keyOf(rules))
  outlook.advanceTo(state, nowMs)
  return outlook
}
