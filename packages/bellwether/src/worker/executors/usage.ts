/** The usage of a run, as its program reports it, by kind. Pure. The four kinds do not overlap; their sum is the total. */
import { defined } from '@bellwether/base'

export interface Usage {
  /** Without tokens that were read from a cache or written to one. */
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cache_read_tokens: number
  readonly cache_write_tokens: number
  readonly total_tokens: number
  readonly cost_usd?: number
}

export interface TokenKinds {
  readonly input?: number
  readonly output?: number
  readonly cacheRead?: number
  readonly cacheWrite?: number
}

// More than any run can use. A larger number is an error of the program and would overflow the sums.
const tokensMax = 1e12

export function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.min(tokensMax, Math.round(value)) : 0
}

export function usageOf({ input = 0, output = 0, cacheRead = 0, cacheWrite = 0 }: TokenKinds, cost?: unknown): Usage {
  const cost_usd = typeof cost === 'number' && Number.isFinite(cost) && cost >= 0 ? cost : undefined
  return {
    input_tokens: input,
    output_tokens: output,
    cache_read_tokens: cacheRead,
    cache_write_tokens: cacheWrite,
    total_tokens: input + output + cacheRead + cacheWrite,
    ...defined({ cost_usd }),
  }
}

export function add(left: Usage | undefined, right: Usage): Usage {
  if (left === undefined) return right
  const cost =
    left.cost_usd === undefined && right.cost_usd === undefined
      ? undefined
      : (left.cost_usd ?? 0) + (right.cost_usd ?? 0)
  const kinds = {
    input: left.input_tokens + right.input_tokens,
    output: left.output_tokens + right.output_tokens,
    cacheRead: left.cache_read_tokens + right.cache_read_tokens,
    cacheWrite: left.cache_write_tokens + right.cache_write_tokens,
  }
  return usageOf(kinds, cost)
}

/** What was used since `before`, of a program that counts all of its session. */
export function since(before: Usage | undefined, total: Usage): Usage {
  if (before === undefined) return total
  const { input_tokens: input, output_tokens: output, cache_read_tokens: read, cache_write_tokens: written } = total
  const cost = total.cost_usd === undefined ? undefined : Math.max(0, total.cost_usd - (before.cost_usd ?? 0))
  return usageOf(
    {
      input: Math.max(0, input - before.input_tokens),
      output: Math.max(0, output - before.output_tokens),
      cacheRead: Math.max(0, read - before.cache_read_tokens),
      cacheWrite: Math.max(0, written - before.cache_write_tokens),
    },
    cost,
  )
}
