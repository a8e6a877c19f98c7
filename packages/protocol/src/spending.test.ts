import { describe, expect, it } from 'vitest'
import { dollars, moneySpent, tokensSpent } from './spending.js'

const limits = { maxTaskTokens: null, maxTaskCostUsd: 20, maxTaskWallTimeSec: null, maxTaskRetries: null }
const kinds = { inputTokens: 9_000, outputTokens: 900, cacheWriteTokens: 100, cacheReadTokens: 150_000 }
const usage = { tokenUsage: 10_000, ...kinds, costMicros: 1_234_567, elapsedMs: 1, retryCount: 1, exceededCount: 0 }
const budget = { agent: 'coder', ...usage, limits, nearest: null }

describe('spending', () => {
  it('shows money to the cent', () => {
    expect([0, 4_999, 5_000, 12_000, 1_999_999, 1_234_500_000].map(dollars)).toEqual([
      '$0.00',
      '<$0.01',
      '$0.01',
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
})
