/** What a run has used, as far as its program says so. Pure. `input_tokens` includes what came from a cache. */
export interface Usage {
  readonly input_tokens: number
  readonly output_tokens: number
  readonly total_tokens: number
  readonly cost_usd?: number
}

// More than any run can use: a larger number is a mistake of the program, and would overflow what adds them up.
const tokensMax = 1e12

export function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.min(tokensMax, Math.round(value)) : 0
}

export function usageOf(input: number, output: number, cost?: unknown): Usage {
  const known = typeof cost === 'number' && Number.isFinite(cost) && cost >= 0
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    ...(known ? { cost_usd: cost } : {}),
  }
}

export function add(left: Usage | undefined, right: Usage): Usage {
  if (left === undefined) return right
  const cost =
    left.cost_usd === undefined && right.cost_usd === undefined
      ? undefined
      : (left.cost_usd ?? 0) + (right.cost_usd ?? 0)
  return usageOf(left.input_tokens + right.input_tokens, left.output_tokens + right.output_tokens, cost)
}
