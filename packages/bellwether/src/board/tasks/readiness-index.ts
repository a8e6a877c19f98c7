/**
 * What every task waits for, kept up with what changes: the tasks that moved, those that wait for them, and those whose time has
 * come. Always: the same as asking `readiness` of every task; in the order of urgency. Pure for whoever asks: the answer follows
 * from the state, the hour and the rules alone.
 */
import { claimOf, textField } from './task-fields.js'
import { keepUp, type Kept } from './incremental.js'
import { personDueMs } from './reminder-due.js'
import { recoveryOf, ruleFor } from '../policies/recovery.js'
import { byUrgency, cooldownSlackSec, readiness, type Readiness, type ReadyRules } from './ready.js'
import { Sorted } from './sorted.js'
import type { BoardState, Task } from '../log/task.js'

export interface Prospect {
  readonly task: Task
  readonly told: Readiness
  /** When time alone changes what is told; null: never. */
  readonly nextMs: number | null
  /** When somebody must be asked or reminded; null: no person is waited for. */
  readonly personMs: number | null
}

const byTask = (a: Prospect, b: Prospect): number => byUrgency(a.task, b.task)
const byName = (a: Prospect, b: Prospect): number =>
  a.task.taskId < b.task.taskId ? -1 : a.task.taskId > b.task.taskId ? 1 : 0

export class Outlook implements Kept {
  readonly ready = new Sorted<Prospect>(byTask)
  readonly waiting = new Sorted<Prospect>(byTask)
  readonly people = new Sorted<Prospect>((a, b) => a.personMs! - b.personMs! || byName(a, b))
  readonly #timed = new Sorted<Prospect>((a, b) => a.nextMs! - b.nextMs! || byName(a, b))
  readonly #all = new Map<string, Prospect>()
  /** Who waits for a task, by its id. */
  readonly #waitFor = new Map<string, Set<string>>()
  readonly #rules: ReadyRules
  #nowMs: number

  constructor(rules: ReadyRules, nowMs: number) {
    this.#rules = rules
    this.#nowMs = nowMs
  }

  begin(state: BoardState): void {
    const [ready, waiting, people, timed]: [Prospect[], Prospect[], Prospect[], Prospect[]] = [[], [], [], []]
    for (const task of state.tasks.values()) {
      const one = this.#prospect(task, state)
      if (one === null) continue
      this.#enter(one)
      ;(one.told.ready ? ready : waiting).push(one)
      if (one.personMs !== null) people.push(one)
      if (one.nextMs !== null) timed.push(one)
    }
    this.ready.become(ready)
    this.waiting.become(waiting)
    this.people.become(people)
    this.#timed.become(timed)
  }

  change(state: BoardState, tasks: readonly Task[]): void {
    const touched = new Set<Task>(tasks)
    for (const { taskId } of tasks) for (const id of this.#waitFor.get(taskId) ?? []) touched.add(state.tasks.get(id)!)
    for (const task of touched) this.#look(task, state)
  }

  /** Time has passed. A clock that was set back may change whatever depends on time. */
  pass(state: BoardState, nowMs: number): void {
    const isBack = nowMs < this.#nowMs
    this.#nowMs = nowMs
    const due: Prospect[] = []
    for (const one of this.#timed) {
      if (!isBack && one.nextMs! > nowMs) break
      due.push(one)
    }
    if (isBack) due.push(...this.people)
    for (const one of due) this.#look(one.task, state)
  }

  #look(task: Task, state: BoardState): void {
    const before = this.#all.get(task.taskId)
    if (before !== undefined) this.#leave(before)
    const one = this.#prospect(task, state)
    if (one === null) return
    this.#enter(one)
    ;(one.told.ready ? this.ready : this.waiting).add(one)
    if (one.personMs !== null) this.people.add(one)
    if (one.nextMs !== null) this.#timed.add(one)
  }

  /** Null: it is done, and nobody asks any more. */
  #prospect(task: Task, state: BoardState): Prospect | null {
    const told = readiness(task, state, this.#nowMs, this.#rules)
    if (!told.ready && told.code === 'done') return null
    const personMs = personDueMs(task, told, this.#nowMs, this.#rules.recovery)
    return { task, told, nextMs: nextChangeMs(task, this.#nowMs, this.#rules), personMs }
  }

  #enter(one: Prospect): void {
    const { taskId, dependencies } = one.task
    this.#all.set(taskId, one)
    for (const id of dependencies) {
      const waiters = this.#waitFor.get(id)
      if (waiters === undefined) this.#waitFor.set(id, new Set([taskId]))
      else waiters.add(taskId)
    }
  }

  #leave(one: Prospect): void {
    const { taskId, dependencies } = one.task
    this.#all.delete(taskId)
    ;(one.told.ready ? this.ready : this.waiting).delete(one)
    if (one.personMs !== null) this.people.delete(one)
    if (one.nextMs !== null) this.#timed.delete(one)
    for (const id of dependencies) {
      const waiters = this.#waitFor.get(id)
      waiters?.delete(taskId)
      if (waiters?.size === 0) this.#waitFor.delete(id)
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

const outlooks = keepUp<Question, Outlook>(({ rules, nowMs }) => new Outlook(rules, nowMs))
const texts = new WeakMap<ReadyRules['recovery'], string>()

/** Policies are read afresh for every step, and most often say the same. */
function keyOf({ firstAgent, recovery }: ReadyRules): string {
  const text = texts.get(recovery) ?? JSON.stringify(recovery)
  texts.set(recovery, text)
  return `${firstAgent} ${text}`
}

export function outlookOf(state: BoardState, nowMs: number, rules: ReadyRules): Outlook {
  const outlook = outlooks(state, { rules, nowMs }, keyOf(rules))
  outlook.pass(state, nowMs)
  return outlook
}
