import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Task } from '../log/task.js'
import { cacheText } from './entries.js'
import {
  budgetEntries,
  budgetsOf,
  budgetPayload,
  limitsFor,
  precheckBudget,
  recordAndCheckBudget,
  defaultBudget,
  noKinds,
  purseOf,
  referenceLimits,
  type BudgetEntry,
  type BudgetPolicy,
} from './budget.js'

/** What the reference's own file says. */
const policy: BudgetPolicy = { ...defaultBudget, global: { ...defaultBudget.global, ...referenceLimits } }
const at = '2026-03-01T10:00:00Z'
const entry = (usage: Partial<BudgetEntry> = {}): BudgetEntry => ({
  taskId: 'T-1',
  agent: 'coder',
  tokenUsage: 0,
  ...noKinds,
  elapsedMs: 0,
  retryCount: 0,
  exceededCount: 0,
  updatedAt: at,
  ...usage,
})
const run = (tokenUsage: number, elapsedMs = 0) => ({ taskId: 'T-1', agent: 'coder', tokenUsage, elapsedMs })
const entries = (...all: BudgetEntry[]) => new Map(all.map((one) => [one.agent, one]))
const task = (fields: Record<string, unknown> = {}) => ({ taskId: 'T-1', fields }) as unknown as Task

describe('budget', () => {
  it("[H7.1] [H7.8] the reference's file limits 12000 tokens and 1200 seconds; a project without a file has no token limit and room for a coding task", () => {
    expect(limitsFor(policy, 'anyone')).toEqual({
      maxTaskTokens: 12_000,
      maxTaskCostUsd: 20,
      maxTaskWallTimeSec: 1_200,
      maxTaskRetries: 3,
      degradePolicy: ['reduced_context', 'manual_handoff', 'stop_run'],
      onExceeded: 'manual_handoff',
    })
    // 200,000 tokens, of which 150,000 were read from a cache, in 20 minutes, for three dollars; twice.
    const coding = { ...run(50_000, 1_200_000), cacheReadTokens: 150_000, costMicros: 3_000_000 }
    const first = recordAndCheckBudget(defaultBudget, entries(), coding, at)
    expect(first.verdict.allowed).toBe(true)
    expect(recordAndCheckBudget(defaultBudget, entries(first.entry), coding, at).verdict.allowed).toBe(true)
    expect(defaultBudget.global).toMatchObject({ maxTaskTokens: null, maxTaskCostUsd: 20, maxTaskWallTimeSec: 7_200 })
    expect(
      recordAndCheckBudget(defaultBudget, entries(), { ...coding, costMicros: 20_000_001 }, at).verdict,
    ).toMatchObject({ allowed: false, exceededKeys: ['maxTaskCostUsd'] })
  })

  it('[H7.1] an agent overrides any limit, by its name in any case, and no other agent is affected', () => {
    const own: BudgetPolicy = { ...policy, agents: { coder: { maxTaskTokens: 500, onExceeded: 'stop_run' } } }
    expect(limitsFor(own, 'Coder')).toEqual({ ...policy.global, maxTaskTokens: 500, onExceeded: 'stop_run' })
    expect(limitsFor(own, 'debugger')).toEqual(policy.global)
    expect(limitsFor(own, 'constructor')).toEqual(policy.global)
  })

  it('[H7.2] usage adds up per task and agent in the log, and is written to state/budget.state.json', () => {
    const first = recordAndCheckBudget(policy, entries(), { ...run(100, 1_000), agent: 'Coder' }, at)
    const second = recordAndCheckBudget(policy, entries(first.entry), run(50, 500), at)
    expect(second.entry).toEqual(entry({ tokenUsage: 150, elapsedMs: 1_500, retryCount: 2 }))
    const written = task(budgetPayload(task(), second.entry))
    const other = recordAndCheckBudget(policy, entries(), { ...run(7), agent: 'debugger' }, at).entry
    const both = task(budgetPayload(written, other))
    expect(budgetsOf(both).get('coder')).toEqual(second.entry)
    expect(JSON.parse(cacheText([...budgetEntries(both)], at))).toMatchObject({
      entries: {
        'T-1|coder': { tokenUsage: 150, elapsedMs: 1_500, retryCount: 2, updatedAt: at },
        'T-1|debugger': { tokenUsage: 7 },
      },
      updatedAt: at,
    })
  })

  it('[H7.3] a reached limit prevents the next spawn, and one below does not', () => {
    expect(precheckBudget(policy, entries(), 'coder').allowed).toBe(true)
    expect(
      precheckBudget(policy, entries(entry({ tokenUsage: 11_999, elapsedMs: 1_199_999, retryCount: 2 })), 'coder')
        .allowed,
    ).toBe(true)
    const cases = [
      [entry({ tokenUsage: 12_000 }), 'maxTaskTokens'],
      [entry({ elapsedMs: 1_200_000 }), 'maxTaskWallTimeSec'],
      [entry({ retryCount: 3 }), 'maxTaskRetries'],
    ] as const
    for (const [used, key] of cases)
      expect(precheckBudget(policy, entries(used), 'coder')).toMatchObject({ allowed: false, exceededKeys: [key] })
  })

  it('[H7.3] a run that reaches its limit is allowed, and one that exceeds it is not', () => {
    const last = recordAndCheckBudget(policy, entries(entry({ tokenUsage: 11_000, retryCount: 2 })), run(1_000), at)
    expect(last.verdict.allowed).toBe(true)
    expect(recordAndCheckBudget(policy, entries(entry({ tokenUsage: 11_000 })), run(1_001), at).verdict).toMatchObject({
      allowed: false,
      exceededKeys: ['maxTaskTokens'],
    })
  })

  it('[H7.4] an exceeded budget goes to a human, with the action and every exceeded key', () => {
    const { verdict } = recordAndCheckBudget(policy, entries(entry({ retryCount: 3 })), run(13_000, 1_300_000), at)
    expect(verdict).toMatchObject({
      allowed: false,
      reasonCode: 'budget_exceeded',
      nextAssignee: 'human',
      action: 'escalate',
      degradeAction: 'manual_handoff',
      exceededKeys: ['maxTaskTokens', 'maxTaskWallTimeSec', 'maxTaskRetries'],
    })
  })

  it('[H7.8] names what sets the limit that stopped a run: the policy file, or the agent file', () => {
    const stopped = { ...run(100, 600_000), stoppedBy: ['maxTaskWallTimeSec' as const] }
    const textOf = (one: Parameters<typeof recordAndCheckBudget>[2]) => {
      const { verdict } = recordAndCheckBudget(policy, entries(), one, at)
      return verdict.allowed ? '' : verdict.text
    }
    const ofPolicy = '"global.maxTaskWallTimeSec" of config/budget-policy.json'
    const ofFile = '"budget.max_wall_seconds" of agents/coder.md'
    const own = { ...stopped, agentLimits: ['maxTaskWallTimeSec' as const] }
    expect(textOf(stopped)).toBe(`budget_exceeded: working time 10 min of 20 min, set by ${ofPolicy}`)
    expect(textOf(own)).toBe(`budget_exceeded: working time 10 min in this run, set by ${ofFile}`)
    expect(textOf({ ...own, elapsedMs: 1_201_000 })).toBe(
      `budget_exceeded: working time 20 min 1 s of 20 min, set by ${ofPolicy}; working time 20 min 1 s in this run, set by ${ofFile}`,
    )
  })

  it('[H7.4] without onExceeded, each time the budget is exceeded the next action of the sequence applies', () => {
    const walking: BudgetPolicy = { ...policy, global: { ...policy.global, onExceeded: null } }
    let last: BudgetEntry | undefined
    const actions = [1, 2, 3, 4].map(() => {
      const { verdict, entry: grown } = recordAndCheckBudget(
        walking,
        last === undefined ? entries() : entries(last),
        run(20_000),
        at,
      )
      last = grown
      return verdict.allowed ? null : verdict.degradeAction
    })
    expect(actions).toEqual(['reduced_context', 'manual_handoff', 'stop_run', 'stop_run'])
  })

  it('[H7.6] all agents of a task draw on one budget, and each agent has its own executions', () => {
    const both = entries(entry({ tokenUsage: 8_000, retryCount: 3 }), entry({ agent: 'debugger', tokenUsage: 4_000 }))
    expect(precheckBudget(policy, both, 'debugger')).toMatchObject({ allowed: false, exceededKeys: ['maxTaskTokens'] })
    expect(precheckBudget(policy, both, 'coder')).toMatchObject({ exceededKeys: ['maxTaskTokens', 'maxTaskRetries'] })
  })

  it('a spawn gets the purse of its task, with its limits and what was used, and another one after a fresh budget', () => {
    const open: BudgetPolicy = { ...policy, global: { ...policy.global, maxTaskTokens: null } }
    const verdict = precheckBudget(open, entries(entry({ tokenUsage: 1e9, elapsedMs: 200_000 })), 'coder')
    expect(verdict.allowed).toBe(true)
    const one = { ...task({ budget: { coder: entry({ tokenUsage: 5, costMicros: 7 }) } }), createdAt: at }
    const purse = purseOf(open, one, 'coder')
    expect(purse).toEqual({
      id: `task:T-1:${at}:0`,
      limits: { tokens: null, costMicros: 20_000_000, wallTimeMs: 1_200_000 },
      used: { tokens: 5, costMicros: 7, wallTimeMs: 0 },
    })
    expect(purseOf(open, { ...one, fields: { budgetGrants: 1 } }, 'coder').id).toBe(`task:T-1:${at}:1`)
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
          const { entry: grown, verdict } = recordAndCheckBudget(
            policy,
            last === undefined ? entries() : entries(last),
            run(tokens, elapsed),
            at,
          )
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
