/** The usage of a run, as its program reports it. Pure. `input_tokens` includes cached tokens. */
import { defined } from '@bellwether/base'

export interface Usage {
  readonly input_tokens: number
  readonly output_tokens: number
  readonly total_tokens: number
  readonly cost_usd?: number
}

// More than any run can use. A larger number is an error of the program and would overflow the sums.
const tokensMax = 1e12

export function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.min(tokensMax, Math.round(value)) : 0
}

export function usageOf(input: number, output: number, cost?: unknown): Usage {
  const cost_usd = typeof cost === 'number' && Number.isFinite(cost) && cost >= 0 ? cost : undefined
  return { input_tokens: input, output_tokens: output, total_tokens: input + output, ...defined({ cost_usd }) }
}

export function add(left: Usage | undefined, right: Usage): Usage {
  if (left === undefined) return right
  const cost =
    left.cost_usd === undefined && right.cost_usd === undefined
      ? undefined
      : (left.cost_usd ?? 0) + (right.cost_usd ?? 0)
  return usageOf(left.input_tokens + right.input_tokens, left.output_tokens + right.output_tokens, cost)
}
