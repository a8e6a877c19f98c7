import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import { nextTask } from './next-task.js'
import { Fold } from '../log/fold/fold.js'
import { dueReminders } from './reminders.js'
import { defaultRecovery } from '../policies/recovery.js'
import { readiness, type ReadyRules } from './ready.js'
import { readinessIndex } from './readiness-index.js'
import { TaskMap } from '../log/fold/task-map.js'
import { eventTypes, type BoardState } from '../log/task.js'
import { inFlight, openRuns } from './open-runs.js'

const startMs = Date.parse('2026-01-01T00:00:00Z')
const iso = (seconds: number) => new Date(startMs + seconds * 1_000).toISOString()
const ids = ['a', 'b', 'c', 'd', 'e', 'f'] as const

const seconds = fc.constantFrom(-400, -100, 0, 50, 150, 200, 5_000, 90_000)
const entry = (code: string) =>
  fc.record({
    taskId: fc.constant('x'),
    reasonCode: fc.constant(code),
    attempt: fc.nat(3),
    nextAssignee: fc.constantFrom('coder', 'human'),
    action: fc.constantFrom('retry', 'human', 'escalate'),
    recoveryState: fc.constant('recovery_scheduled'),
    cooldownUntilTs: seconds.map((s) => startMs / 1_000 + s),
    deadlineTs: seconds.map((s) => startMs / 1_000 + s),
    reminders: fc.nat(3),
  })
const payload = fc.oneof(
  fc.constant({}),
  fc.record({ run: fc.constant({ agent: 'coder' }) }),
  fc.record({ dependencies: fc.subarray([...ids, 'nobody'], { maxLength: 3 }), priority: fc.nat(2) }),
  fc.record({
    claim: fc.record({
      id: fc.constant('c'),
      by: fc.constant('one'),
      since: seconds.map(iso),
      until: seconds.map(iso),
    }),
  }),
  fc.record({ reasonCode: fc.constant('spawn_failed'), recovery: fc.record({ spawn_failed: entry('spawn_failed') }) }),
  fc.record({ recovery: fc.record({ held: entry('held'), review: entry('review'), blocked: entry('blocked') }) }),
  fc.record({ frozen: fc.constantFrom(null, { by: 'ann', at: 'now' }), requiresApproval: fc.boolean() }),
  fc.record({ abort: fc.constantFrom(null, { by: 'ann', at: 'now' }) }),
  fc.record({ paused: fc.constantFrom(null, { by: 'ann', at: 'now' }) }),
)
const step = fc.record({
  lines: fc.array(fc.record({ type: fc.constantFrom(...eventTypes), taskId: fc.constantFrom(...ids), payload }), {
    maxLength: 4,
  }),
  atSec: seconds,
  firstAgent: fc.constantFrom('coder', 'coder', 'coder', 'writer'),
  cooldownSec: fc.constantFrom(180, 180, 180, 60),
})

const reminders = (state: BoardState, nowMs: number, rules: ReadyRules) =>
  dueReminders(readinessIndex(state, nowMs, rules).reminders, nowMs, rules.recovery, 'ann')

/** Evaluates every task: the definition that the index must match. */
function evaluateAll(state: BoardState, nowMs: number, rules: ReadyRules) {
  const all = [...state.tasks.values()].map((task) => ({
    taskId: task.taskId,
    ...readiness(task, state, nowMs, rules),
  }))
  return {
    ready: all
      .filter((one) => one.ready)
      .map(({ taskId }) => taskId)
      .sort(),
    open: all.filter((one) => one.ready || one.code !== 'done').length,
  }
}

it('the index gives the same choice, reminders, runs and claims after every change as evaluating all tasks', () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
      const [updated, all]: [Fold, Buffer[]] = [new Fold(), []]
      let count = 0
      const older: BoardState[] = []
      for (const { lines, atSec, firstAgent, cooldownSec } of steps) {
        for (const line of lines) {
          count += 1
          const event = { eventId: `e${count}`, actor: 'ann', at: iso(count), ...line }
          const bytes = Buffer.from(JSON.stringify(event))
          all.push(bytes)
          updated.take(bytes, 0, bytes.length, 0)
        }
        const fresh = new Fold()
        for (const bytes of all) fresh.take(bytes, 0, bytes.length, 0)
        const nowMs = startMs + atSec * 1_000
        const rules = { firstAgent, recovery: { ...defaultRecovery, default: { maxAttempts: 2, cooldownSec } } }
        const [mine, theirs] = [updated.state(), fresh.state()]
        expect(mine).toEqual(theirs)
        expect(nextTask(mine, nowMs, rules)).toEqual(nextTask(theirs, nowMs, rules))
        expect(reminders(mine, nowMs, rules)).toEqual(reminders(theirs, nowMs, rules))
        expect(inFlight(mine, nowMs)).toBe(inFlight(theirs, nowMs))
        const runs = (state: BoardState) =>
          openRuns(state)
            .map(({ taskId, runId }) => `${taskId} ${runId}`)
            .sort()
        expect(runs(mine)).toEqual(runs(theirs))
        const { ready, open } = evaluateAll(theirs, nowMs, rules)
        const choice = nextTask(mine, nowMs, rules)
        expect(choice.ready).toBe(ready.length)
        expect(choice.others.length + choice.left + (choice.taskId === null ? 0 : 1)).toBe(open)
        // An older state still gets its own result.
        const before = older[0] ?? mine
        expect(nextTask(before, nowMs, rules).ready).toBe(evaluateAll(before, nowMs, rules).ready.length)
        older.unshift(mine)
      }
    }),
    { numRuns: 400 },
  )
})

it('the index does not visit all tasks again after a few lines', () => {
  const fold = new Fold()
  const name = (n: number) => `T-${String(n).padStart(5, '0')}`
  const take = (event: object) => {
    const bytes = Buffer.from(JSON.stringify({ actor: 'ann', at: '2026-01-01T00:00:00Z', payload: {}, ...event }))
    fold.take(bytes, 0, bytes.length, 0)
  }
  for (let n = 0; n < 5_000; n += 1)
    take({
      eventId: `c${n}`,
      taskId: name(n),
      type: 'task_created',
      payload: n % 2 === 0 ? {} : { dependencies: [name(n - 1)] },
    })
  const rules = { firstAgent: 'coder', recovery: defaultRecovery }
  const look = (nowMs: number) => {
    const state = fold.state()
    const due = reminders(state, nowMs, rules).length
    return [nextTask(state, nowMs, rules).taskId, inFlight(state, nowMs), openRuns(state).length, due]
  }
  expect(look(startMs)).toEqual([name(0), 0, 0, 0])
  const walks = vi.spyOn(TaskMap.prototype, 'entries')
  for (let n = 0; n < 50; n += 1) {
    take({ eventId: `n${n}`, taskId: name(n * 2), type: 'task_claimed' })
    // Claimed by a person, who gets a deadline.
    expect(look(startMs + n)).toEqual([name((n + 1) * 2), 0, 0, n + 1])
  }
  expect(walks).not.toHaveBeenCalled()
  walks.mockRestore()
})
