import { expect, it } from 'vitest'
import { chargeOf, costOf } from './turn-budget.js'

it('[H7.6] prices cache reads and cache writes apart from input, and as input without prices of their own', () => {
  // The provider's input includes what was read from the cache and written to it.
  const usage = { inputTokens: 207_372, outputTokens: 1_628, cacheReadTokens: 185_772, cacheWriteTokens: 21_566 }
  const prices = { input_per_million: 3, output_per_million: 15 }
  const apart = { ...prices, cached_input_per_million: 0.3, cache_write_per_million: 3.75 }
  expect(costOf(apart, usage)).toBe(161_127)
  expect(costOf({ ...prices, cached_input_per_million: 0.3 }, usage)).toBe(144_952)
  expect(costOf(prices, usage)).toBe(646_536)
  expect(costOf(undefined, usage)).toBeUndefined()
})

it('[H7.6] charges cache reads as money, not as fresh tokens', () => {
  const usage = { inputTokens: 207_372, outputTokens: 1_628, cacheReadTokens: 185_772, cacheWriteTokens: 21_566 }
  const prices = { input_per_million: 3, output_per_million: 15, cached_input_per_million: 0.3 }
  expect(chargeOf(usage, prices)).toMatchObject({ tokens: 23_228, costMicros: 144_952, cacheReadTokens: 185_772 })
  // A provider that reports more cache reads than input.
  expect(chargeOf({ ...usage, inputTokens: 5 }, undefined)).toMatchObject({ tokens: 1_628, costMicros: 0 })
})
