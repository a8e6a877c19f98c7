import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Task } from '../log/task.js'
import { cacheText } from './entries.js'
import {
  budgetEntries,
  budgetOf,
  budgetPayload,
  limitsFor,
  precheckBudget,
  recordAndCheckBudget,
  defaultBudget,
  spawnBudget,
  type BudgetEntry,
  type BudgetPolicy,
} from './budget.js'

const policy = defaultBudget
const at = '2026-03-01T10:00:00Z'
const entry = (usage: Partial<BudgetEntry> = {}): BudgetEntry => ({
  taskId: 'T-1',
  agent: 'coder',
  tokenUsage: 0,
  elapsedMs: 0,
  retryCount: 0,
  exceededCount: 0,
  updatedAt: at,
  ...usage,
})
const run = (tokenUsage: number, elapsedMs = 0) => ({ taskId: 'T-1', agent: 'coder', tokenUsage, elapsedMs })
const task = (fields: Record<string, unknown> = {}) => ({ taskId: 'T-1', fields }) as unknown as Task

describe('budget', () => {
  it('[H7.1] the defaults are 12000 tokens, 1200 seconds, 3 executions, the degrade sequence and the action when exceeded', () => {
    expect(limitsFor(policy, 'anyone')).toEqual({
      maxTaskTokens: 12_000,
      maxTaskWallTimeSec: 1_200,
      maxTaskRetries: 3,
      degradePolicy: ['reduced_context', 'manual_handoff', 'stop_run'],
      onExceeded: 'manual_handoff',
    })
  })

  it('[H7.1] an agent overrides any limit, by its name in any case, and no other agent is affected', () => {
    const own: BudgetPolicy = { ...policy, agents: { coder: { maxTaskTokens: 500, onExceeded: 'stop_run' } } }
    expect(limitsFor(own, 'Coder')).toEqual({ ...policy.global, maxTaskTokens: 500, onExceeded: 'stop_run' })
    expect(limitsFor(own, 'debugger')).toEqual(policy.global)
    expect(limitsFor(own, 'constructor')).toEqual(policy.global)
  })

  it('[H7.2] usage adds up per task and agent in the log, and is written to state/budget.state.json', () => {
    const first = recordAndCheckBudget(policy, undefined, { ...run(100, 1_000), agent: 'Coder' }, at)
    const second = recordAndCheckBudget(policy, first.entry, run(50, 500), at)
    expect(second.entry).toEqual(entry({ tokenUsage: 150, elapsedMs: 1_500, retryCount: 2 }))
    const written = task(budgetPayload(task(), second.entry))
    const other = recordAndCheckBudget(policy, undefined, { ...run(7), agent: 'debugger' }, at).entry
    const both = task(budgetPayload(written, other))
    expect(budgetOf(both, 'CODER')).toEqual(second.entry)
    expect(JSON.parse(cacheText([...budgetEntries(both)], at))).toMatchObject({
      entries: {
        'T-1|coder': { tokenUsage: 150, elapsedMs: 1_500, retryCount: 2, updatedAt: at },
        'T-1|debugger': { tokenUsage: 7 },
      },
      updatedAt: at,
    })
  })

  it('[H7.3] a reached limit prevents the next spawn, and one below does not', () => {
    expect(precheckBudget(policy, undefined, 'coder').allowed).toBe(true)
    expect(
      precheckBudget(policy, entry({ tokenUsage: 11_999, elapsedMs: 1_199_999, retryCount: 2 }), 'coder').allowed,
    ).toBe(true)
    const cases = [
      [entry({ tokenUsage: 12_000 }), 'maxTaskTokens'],
      [entry({ elapsedMs: 1_200_000 }), 'maxTaskWallTimeSec'],
      [entry({ retryCount: 3 }), 'maxTaskRetries'],
    ] as const
    for (const [used, key] of cases)
      expect(precheckBudget(policy, used, 'coder')).toMatchObject({ allowed: false, exceededKeys: [key] })
  })

  it('[H7.3] a run that reaches its limit is allowed, and one that exceeds it is not', () => {
    const last = recordAndCheckBudget(policy, entry({ tokenUsage: 11_000, retryCount: 2 }), run(1_000), at)
    expect(last.verdict.allowed).toBe(true)
    expect(recordAndCheckBudget(policy, entry({ tokenUsage: 11_000 }), run(1_001), at).verdict).toMatchObject({
      allowed: false,
      exceededKeys: ['maxTaskTokens'],
    })
  })

  it('[H7.4] an exceeded budget goes to a human, with the action and every exceeded key', () => {
    const { verdict } = recordAndCheckBudget(policy, entry({ retryCount: 3 }), run(13_000, 1_300_000), at)
    expect(verdict).toMatchObject({
      allowed: false,
      reasonCode: 'budget_exceeded',
      nextAssignee: 'human',
      action: 'escalate',
      degradeAction: 'manual_handoff',
      exceededKeys: ['maxTaskTokens', 'maxTaskWallTimeSec', 'maxTaskRetries'],
    })
  })

  it('[H7.4] without onExceeded, each time the budget is exceeded the next action of the sequence applies', () => {
    const walking: BudgetPolicy = { ...policy, global: { ...policy.global, onExceeded: null } }
    let last: BudgetEntry | undefined
    const actions = [1, 2, 3, 4].map(() => {
      const { verdict, entry: grown } = recordAndCheckBudget(walking, last, run(20_000), at)
      last = grown
      return verdict.allowed ? null : verdict.degradeAction
    })
    expect(actions).toEqual(['reduced_context', 'manual_handoff', 'stop_run', 'stop_run'])
  })

  it('a spawn gets the remaining budget, and no limit if there is none', () => {
    const open: BudgetPolicy = { ...policy, global: { ...policy.global, maxTaskTokens: null } }
    const verdict = precheckBudget(open, entry({ tokenUsage: 1e9, elapsedMs: 200_000 }), 'coder')
    expect(verdict.allowed).toBe(true)
    expect(spawnBudget(verdict)).toEqual({ maxTokens: null, maxWallTimeMs: 1_000_000 })
  })

  it('[H7.2] usage never decreases or becomes invalid, whatever an executor reports', () => {
    const anything = fc.oneof(
      fc.double(),
      fc.integer(),
      fc.constantFrom(Number.NaN, Infinity, -Infinity, -1, Number.MAX_VALUE),
    )
    fc.assert(
      fc.property(fc.array(fc.tuple(anything, anything), { maxLength: 20 }), (reports) => {
        let last: BudgetEntry | undefined
        for (const [tokens, elapsed] of reports) {
          const { entry: grown, verdict } = recordAndCheckBudget(policy, last, run(tokens, elapsed), at)
          for (const key of ['tokenUsage', 'elapsedMs', 'retryCount'] as const) {
            expect(Number.isSafeInteger(grown[key])).toBe(true)
            expect(grown[key]).toBeGreaterThanOrEqual(last?.[key] ?? 0)
          }
          for (const left of Object.values(verdict.remaining)) expect(left).toBeGreaterThanOrEqual(0)
          last = grown
        }
        expect(last?.retryCount ?? 0).toBe(reports.length)
      }),
    )
  })
})
