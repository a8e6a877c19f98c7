/** What a task has spent, as text for people: money to the cent, tokens by kind. The command line and the dashboard share it. Pure. */
import type { BoardTask } from './http/board.js'

type Budget = NonNullable<BoardTask['budget']>

/** A task with its runs; a reader of files alone knows no cost of turns. */
export interface SpendingTask {
  readonly budget: Budget | null
  readonly costMicros?: number | null
  readonly runs: readonly { readonly endedAt?: string | undefined; readonly costMicros?: number | null }[]
}

/** Millionths of a dollar, to the cent. */
export function dollars(micros: number): string {
  if (micros > 0 && micros < 5_000) return '<$0.01'
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: 2 }
  return `$${(micros / 1_000_000).toLocaleString('en-US', digits)}`
}

/** The money spent, and its limit. The cost of the current run is added to the budget when the run ends. */
export function moneySpent({ budget, costMicros = null, runs }: SpendingTask): string {
  if (budget === null) return costMicros === null ? 'not reported' : dollars(costMicros)
  const limit = budget.limits.maxTaskCostUsd === null ? null : dollars(budget.limits.maxTaskCostUsd * 1_000_000)
  if (budget.costMicros === 0 && costMicros === null) return `not reported${limit === null ? '' : ` (limit ${limit})`}`
  const current = runs.find((run) => run.endedAt === undefined)?.costMicros ?? 0
  const more = current === 0 ? '' : `, and ${dollars(current)} in the current run`
  return `${dollars(budget.costMicros)}${limit === null ? '' : ` of ${limit}`}${more}`
}

const count = (number: number) => number.toLocaleString('en-US')

/** Fresh tokens and their limit, then each kind; only the total if the kinds are unknown. */
export function tokensSpent(budget: Budget): string {
  const { tokenUsage, inputTokens, outputTokens, cacheWriteTokens, cacheReadTokens, limits } = budget
  const total = `${count(tokenUsage)} fresh${limits.maxTaskTokens === null ? '' : ` of ${count(limits.maxTaskTokens)}`}`
  if (inputTokens + outputTokens + cacheWriteTokens + cacheReadTokens === 0) return total
  const fresh = `${count(inputTokens)} input, ${count(outputTokens)} output, ${count(cacheWriteTokens)} cache write`
  return `${total} (${fresh}); ${count(cacheReadTokens)} cache read`
}
