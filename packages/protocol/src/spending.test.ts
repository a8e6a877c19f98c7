import { describe, expect, it } from 'vitest'
import { dollars, moneySpent, reasonInWords, taskLimits, tokensSpent, turnLimits, turnTokens } from './spending.js'

const limits = { maxTaskTokens: null, maxTaskCostUsd: 20, maxTaskWallTimeSec: null, maxTaskRetries: null }
const kinds = { inputTokens: 9_000, outputTokens: 900, cacheWriteTokens: 100, cacheReadTokens: 150_000 }
const usage = { tokenUsage: 10_000, ...kinds, costMicros: 1_234_567, elapsedMs: 1, retryCount: 1, exceededCount: 0 }
const budget = { agent: 'coder', ...usage, limits, nearest: null }

describe('spending', () => {
  it('shows money to the cent, and less than a cent with four decimal places', () => {
    expect([0, 49, 4_199, 12_000, 1_999_999, 1_234_500_000].map(dollars)).toEqual([
      '$0.00',
      '<$0.0001',
      '$0.0042',
      '$0.01',
      '$2.00',
      '$1,234.50',
    ])
  })

  it('[H7.6] shows the money spent of the limit, and the cost of the current run beside it', () => {
    const ended = { endedAt: '2026-01-01T00:00:00.000Z', costMicros: 1_234_567 }
    expect(moneySpent({ budget, runs: [ended] })).toBe('$1.23 of $20.00')
    expect(moneySpent({ budget, runs: [ended, { costMicros: 500_000 }] })).toBe(
      '$1.23 of $20.00, and $0.50 in the current run',
    )
    expect(moneySpent({ budget: { ...budget, limits: { ...limits, maxTaskCostUsd: null } }, runs: [] })).toBe('$1.23')
    expect(moneySpent({ budget: null, costMicros: 70_000, runs: [] })).toBe('$0.07')
  })

  it('shows no amount if no cost was reported', () => {
    expect(moneySpent({ budget: null, costMicros: null, runs: [] })).toBe('not reported')
    expect(moneySpent({ budget: { ...budget, costMicros: 0 }, runs: [] })).toBe('not reported (limit $20.00)')
  })

  it('[H7.6] shows fresh tokens with their limit, and tokens by kind', () => {
    const byKind = '(9,000 input, 900 output, 100 cache write); 150,000 cache read'
    expect(tokensSpent(budget)).toBe(`10,000 fresh ${byKind}`)
    const limited = { ...budget, limits: { ...limits, maxTaskTokens: 12_000 } }
    expect(tokensSpent(limited)).toBe(`10,000 fresh of 12,000 ${byKind}`)
    const unknown = { inputTokens: 0, outputTokens: 0, cacheWriteTokens: 0, cacheReadTokens: 0 }
    expect(tokensSpent({ ...limited, ...unknown })).toBe('10,000 fresh of 12,000')
  })

  it('[H7.8] shows each limit of a task with what was used of it and what sets it', () => {
    expect(taskLimits(budget)).toBe(
      'cost $1.23 of $20.00 (set by config/budget-policy.json: "global", or "agents" for coder)',
    )
    const all = { maxTaskTokens: 12_000, maxTaskCostUsd: 20, maxTaskWallTimeSec: 7_200, maxTaskRetries: 3 }
    expect(taskLimits({ ...budget, limits: all })).toContain(
      'fresh tokens 10,000 of 12,000, cost $1.23 of $20.00, working time 0 s of 2 h, runs 1 of 3 (',
    )
    expect(taskLimits({ ...budget, limits: { ...limits, maxTaskCostUsd: null } })).toBeNull()
  })

  it('[H7.8] shows the limits of a turn, those that it exceeded, and what sets them', () => {
    const none = { used: 5, limit: null }
    const turn = {
      budget_id: 'turn-2',
      tokens: { used: 1_500, limit: 1_000 },
      cost_micros: none,
      wall_ms: { used: 61_000, limit: 600_000 },
      exceeded_keys: ['tokens' as const],
      agent_limits: [],
      nearest: 'tokens' as const,
      fraction: 1.5,
      parent_budget_id: null,
    }
    expect(turnLimits(turn)).toBe(
      'fresh tokens 1,500 of 1,000, working time 1 min 1 s of 10 min (set by the request: --max-tokens, --max-seconds); exceeded: tokens',
    )
    expect(turnLimits({ ...turn, agent_limits: ['tokens', 'wall_ms'] })).toBe(
      'fresh tokens 1,500 of 1,000, working time 1 min 1 s of 10 min (set by "budget" of the agent file); exceeded: tokens',
    )
    expect(turnLimits({ ...turn, parent_budget_id: 'task:T-1:x:0', agent_limits: ['wall_ms'] })).toBe(
      'fresh tokens 1,500 of 1,000 (set by config/budget-policy.json, for all runs of the task); ' +
        'working time 1 min 1 s of 10 min (set by "budget" of the agent file); exceeded: tokens',
    )
    expect(turnLimits({ ...turn, exceeded_keys: ['cost_micros', 'wall_ms'] })).toMatch(
      /; exceeded: cost, working time$/,
    )
    expect(turnLimits({ ...turn, parent_budget_id: 'turn-1' })).toContain('(set by the budget of the parent turn)')
    expect(turnLimits({ ...turn, tokens: none, wall_ms: none })).toBeNull()
    expect(turnLimits(null)).toBeNull()
  })

  it('[H7.6] shows the tokens of a turn by kind', () => {
    const usage = { input_tokens: 34, output_tokens: 1_628, cache_read_tokens: 185_772, cache_write_tokens: 21_566 }
    expect(turnTokens({ ...usage, steps: 1, total_tokens: 209_000, cost_micros: null })).toBe(
      '209,000 tokens (34 input, 1,628 output, 21,566 cache write, 185,772 cache read)',
    )
  })

  it('shows the codes of reasons in words', () => {
    expect(['command_exit_3', 'command_signal_SIGKILL'].map(reasonInWords)).toEqual([
      'agent exited with 3',
      'agent was ended by SIGKILL',
    ])
    expect(
      ['spawn_failed', 'incomplete_output: a_b.md is missing', 'recovery_pending:coder', 'no disk', 'x'].map(
        reasonInWords,
      ),
    ).toEqual(['agent failed', 'incomplete output: a_b.md is missing', 'recovery pending: coder', 'no disk', 'x'])
  })
})
