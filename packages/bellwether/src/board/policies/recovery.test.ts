import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Task } from '../log/task.js'
import { cacheText } from './entries.js'
import {
  nextInChain,
  overdue,
  recover,
  recoveriesOf,
  recoveryEntries,
  recoveryCleared,
  recoveryOf,
  recoveryPayload,
  ruleFor,
  defaultRecovery,
  triggers,
  type RecoveryEntry,
  type RecoveryPolicy,
} from './recovery.js'

const policy = defaultRecovery
const nowMs = Date.parse('2026-03-01T10:00:00Z')
const failure = (assignee: string | null, reasonCode = 'spawn_failed') => ({ taskId: 'T-1', reasonCode, assignee })
const task = (fields: Record<string, unknown> = {}): Task => ({
  taskId: 'T-1',
  title: 'a task',
  status: 'blocked',
  priority: 0,
  impact: 0,
  dependencies: [],
  assignee: 'coder',
  reason: null,
  createdAt: '2026-03-01T00:00:00Z',
  updatedAt: '2026-03-01T00:00:00Z',
  runs: [],
  fields,
})
const later = (entry: RecoveryEntry) => Math.max(entry.cooldownUntilTs, 1) * 1_000

describe('recovery', () => {
  it('[H6.1] the defaults are the chain coder → debugger → invest-analyst → human, two attempts, and a cool-down per reason', () => {
    expect(policy.recoveryChain).toEqual(['coder', 'debugger', 'invest-analyst', 'human'])
    for (const reason of ['spawn_failed', 'blocked_signal', 'anything_else'])
      expect(ruleFor(policy, reason)).toEqual({ maxAttempts: 2, cooldownSec: 180 })
    expect(ruleFor(policy, 'incomplete_output')).toEqual({ maxAttempts: 2, cooldownSec: 120 })
    expect(ruleFor(policy, 'constructor')).toEqual(policy.default)
  })

  it('[H6.8] with sameAgentFirst the agent that failed tries once more, then the chain continues after it', () => {
    const same = { ...policy, sameAgentFirst: true }
    const first = recover(same, undefined, failure('coder'), nowMs)
    expect(first).toMatchObject({ attempt: 1, nextAssignee: 'coder', action: 'retry' })
    const second = recover(same, first.entry, failure('coder'), later(first.entry))
    expect(second).toMatchObject({ attempt: 2, nextAssignee: 'debugger', action: 'retry' })
    const people = { ...same, recoveryChain: ['human'] }
    const alone = recover(people, undefined, failure('writer'), nowMs)
    expect(alone).toMatchObject({ nextAssignee: 'writer', action: 'retry' })
    expect(recover(people, alone.entry, failure('writer'), later(alone.entry))).toMatchObject({
      nextAssignee: 'human',
      action: 'human',
    })
    for (const assignee of [null, 'human'])
      expect(recover(people, undefined, failure(assignee), nowMs)).toMatchObject({ nextAssignee: 'human' })
  })

  it('[H6.1] attempts count per task and reason over the whole chain', () => {
    const first = recover(policy, undefined, failure('coder'), nowMs)
    expect(first).toMatchObject({
      attempt: 1,
      nextAssignee: 'debugger',
      action: 'retry',
      recoveryState: 'recovery_scheduled',
    })
    const second = recover(policy, first.entry, failure('debugger'), later(first.entry))
    expect(second).toMatchObject({ attempt: 2, nextAssignee: 'invest-analyst', action: 'retry' })
    const third = recover(policy, second.entry, failure('invest-analyst'), later(second.entry))
    expect(third).toMatchObject({ attempt: 3, nextAssignee: 'human', action: 'escalate' })
    // Another reason has its own count.
    expect(recover(policy, undefined, failure('coder', 'blocked_signal'), nowMs).attempt).toBe(1)
  })

  it('[H6.2] during the cool-down the last decision is reused, and attempt does not grow', () => {
    const first = recover(policy, undefined, failure('coder'), nowMs)
    const inside = recover(policy, first.entry, failure('debugger'), nowMs + 179_999)
    expect(inside).toEqual({ ...first, cooldownActive: true })
    const outside = recover(policy, first.entry, failure('debugger'), nowMs + 180_000)
    expect(outside).toMatchObject({ attempt: 2, cooldownActive: false })
  })

  it('[H6.2] entries are in the log and in state/recovery.state.json, keyed by taskId + reasonCode', () => {
    const spawn = recover(policy, undefined, failure('coder'), nowMs).entry
    const incomplete = recover(policy, undefined, failure('coder', 'incomplete_output'), nowMs).entry
    const one = task(recoveryPayload(task(), spawn))
    const both = task(recoveryPayload(one, incomplete))
    expect(recoveryOf(both, 'spawn_failed')).toEqual(spawn)
    expect([...recoveriesOf(both).keys()]).toEqual(['spawn_failed', 'incomplete_output'])
    const file = JSON.parse(cacheText([...recoveryEntries(both)], '2026-03-01T10:00:01Z')) as Record<string, unknown>
    expect(Object.keys(file['entries'] as object)).toEqual(['T-1|incomplete_output', 'T-1|spawn_failed'])
    expect((file['entries'] as Record<string, unknown>)['T-1|spawn_failed']).toMatchObject({
      attempt: 1,
      nextAssignee: 'debugger',
      action: 'retry',
      recoveryState: 'recovery_scheduled',
      cooldownUntilTs: nowMs / 1_000 + 180,
    })
    expect(recoveriesOf(task({ ...both.fields, ...recoveryCleared })).size).toBe(0)
  })

  it('[H6.2] malformed entries are ignored', () => {
    for (const broken of [null, 'x', [], 7, { spawn_failed: null }, { spawn_failed: { attempt: 'two' } }])
      expect(recoveryOf(task({ recovery: broken }), 'spawn_failed')).toBeUndefined()
  })

  it('[H6.3] every trigger gives every output field', () => {
    for (const reasonCode of triggers) {
      const {
        entry: _entry,
        blockedReason: _reason,
        ...output
      } = recover(policy, undefined, failure('coder', reasonCode), nowMs)
      expect(Object.keys(output).sort()).toEqual(
        ['action', 'attempt', 'cooldownActive', 'cooldownUntil', 'nextAssignee', 'reasonCode', 'recoveryState'].sort(),
      )
    }
    expect(recover(policy, undefined, failure('coder'), nowMs).cooldownUntil).toBe('2026-03-01T10:03:00Z')
  })

  it('[H6.3] the action is retry while attempts remain, human if the next hop is the human, escalate when they are used up', () => {
    const patient: RecoveryPolicy = { ...policy, default: { maxAttempts: 5, cooldownSec: 0 } }
    expect(recover(patient, undefined, failure('debugger'), nowMs).action).toBe('retry')
    const handed = recover(patient, undefined, failure('invest-analyst'), nowMs)
    expect(handed).toMatchObject({
      action: 'human',
      nextAssignee: 'human',
      recoveryState: 'human_handoff',
      cooldownUntil: null,
    })
    const used = { ...handed.entry, attempt: 5 }
    expect(recover(patient, used, failure('coder'), nowMs).action).toBe('escalate')
  })

  it('[H6.4] used-up attempts escalate to a human and stay there', () => {
    const used = { ...recover(policy, undefined, failure('coder'), nowMs).entry, attempt: 2 }
    const gone = recover(policy, used, failure('debugger'), later(used))
    expect(gone).toMatchObject({
      recoveryState: 'escalated_to_human',
      nextAssignee: 'human',
      action: 'escalate',
      attempt: 3,
    })
    expect(recover(policy, gone.entry, failure('human'), later(gone.entry))).toMatchObject({
      attempt: 3,
      action: 'escalate',
    })
  })

  it('[H6.4] incomplete output that is retried stays blocked with recovery_pending:<nextAssignee>', () => {
    const decision = recover(policy, undefined, failure('coder', 'incomplete_output'), nowMs)
    expect(decision.blockedReason).toBe('recovery_pending:debugger')
    const used = { ...decision.entry, attempt: 2 }
    expect(recover(policy, used, failure('coder', 'incomplete_output'), later(used)).blockedReason).toBe(
      'incomplete_output',
    )
  })

  it('an agent outside the chain is followed by its first agent, the last one by a human', () => {
    expect(nextInChain(policy, 'stranger')).toBe('coder')
    expect(nextInChain(policy, null)).toBe('coder')
    expect(nextInChain(policy, ' Coder ')).toBe('debugger')
    expect(nextInChain(policy, 'human')).toBe('human')
    expect(nextInChain({ ...policy, recoveryChain: ['a'] }, 'a')).toBe('human')
  })

  it('[H6.1] every hop has a deadline and a successor: agents hand over, people are reminded, then the task fails', () => {
    const first = recover(policy, undefined, failure('coder'), nowMs).entry
    expect(first.deadlineTs).toBe(nowMs / 1_000 + 180 + 3_600)
    expect(overdue(policy, first, first.deadlineTs * 1_000 - 1)).toEqual({ what: 'in_time' })
    const moved = overdue(policy, first, first.deadlineTs * 1_000)
    expect(moved).toMatchObject({ what: 'moved', decision: { attempt: 2, nextAssignee: 'invest-analyst' } })
    let entry = {
      ...first,
      attempt: 3,
      nextAssignee: 'human',
      action: 'human',
      recoveryState: 'human_handoff',
    } as RecoveryEntry
    for (let reminders = 1; reminders <= policy.humanReminders; reminders += 1) {
      const atMs = entry.deadlineTs * 1_000
      const reminded = overdue(policy, entry, atMs)
      if (reminded.what !== 'reminded') throw new Error(reminded.what)
      expect(reminded.decision.entry).toMatchObject({
        reminders,
        action: 'escalate',
        deadlineTs: atMs / 1_000 + 86_400,
      })
      entry = reminded.decision.entry
    }
    expect(overdue(policy, entry, entry.deadlineTs * 1_000)).toMatchObject({
      what: 'given_up',
      reason: 'human_deadline_passed',
    })
  })

  const anyPolicy = fc.record({
    recoveryChain: fc.array(fc.constantFrom('a', 'b', 'c', 'human'), { minLength: 1, maxLength: 6 }),
    sameAgentFirst: fc.boolean(),
    default: fc.record({ maxAttempts: fc.integer({ min: 1, max: 6 }), cooldownSec: fc.integer({ min: 0, max: 500 }) }),
    reasonPolicies: fc.constant({}),
    hops: fc.constant({ default: { deadlineSec: 60 } }),
    humanReminders: fc.integer({ min: 0, max: 3 }),
  })

  it('[H6.2] attempts never grow during a cool-down and never exceed maxAttempts + 1, for any sequence', () => {
    fc.assert(
      fc.property(
        anyPolicy,
        fc.array(fc.tuple(fc.integer({ min: 0, max: 400_000 }), fc.constantFrom('a', 'b', 'z', null))),
        (any, steps) => {
          let atMs = nowMs
          let last: RecoveryEntry | undefined
          for (const [passMs, assignee] of steps) {
            atMs += passMs
            const { entry, cooldownActive } = recover(any, last, failure(assignee), atMs)
            const cooling = last !== undefined && atMs < last.cooldownUntilTs * 1_000
            const grown = Math.min((last?.attempt ?? 0) + 1, any.default.maxAttempts + 1)
            expect(entry === last).toBe(cooling)
            expect(entry.attempt).toBe(cooling ? last?.attempt : grown)
            expect(cooldownActive).toBe(entry === last)
            expect(entry.action === 'retry').toBe(entry.nextAssignee !== 'human')
            last = entry
          }
        },
      ),
    )
  })

  it('[H6.4] recovery ends even if no one ever answers', () => {
    fc.assert(
      fc.property(anyPolicy, (any) => {
        let { entry } = recover(any, undefined, failure('a'), nowMs)
        const seen: string[] = []
        while (seen.at(-1) !== 'given_up' && seen.length <= any.default.maxAttempts + any.humanReminders + 2) {
          const passed = overdue(any, entry, entry.deadlineTs * 1_000)
          seen.push(passed.what)
          if (passed.what === 'moved' || passed.what === 'reminded') entry = passed.decision.entry
        }
        expect(seen.at(-1)).toBe('given_up')
      }),
    )
  })
})
