/**
 * What turns and tasks have spent, as text for people: money to the cent, tokens by kind, each limit with what was used of it and what
 * sets it. The board, the command line and the dashboard share it. Pure.
 */
import { count, wholeDuration } from './counts.js'
import type { BoardTask } from './http/board.js'
import type { TurnDetail } from './http/turns.js'

type Budget = NonNullable<BoardTask['budget']>
type Unit = NonNullable<Budget['nearest']>['unit']

/** Sets the limits of tasks. */
export const budgetPolicyFile = 'config/budget-policy.json'

/** A task with its runs; a reader of files alone knows no cost of turns. */
export interface SpendingTask {
  readonly budget: Budget | null
  readonly costMicros?: number | null
  readonly runs: readonly { readonly endedAt?: string | undefined; readonly costMicros?: number | null }[]
}

/** Millionths of a dollar, to the cent; with four decimal places below one cent, so that single turns can be compared. */
export function dollars(micros: number): string {
  if (micros > 0 && micros < 10_000) return micros < 50 ? '<$0.0001' : `$${(micros / 1e6).toFixed(4)}`
  const cents = Math.round(micros / 10_000)
  return `$${count(Math.floor(cents / 100))}.${String(cents % 100).padStart(2, '0')}`
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

/** Fresh tokens and their limit, then each kind; only the total if the kinds are unknown. */
export function tokensSpent(budget: Budget): string {
  const { tokenUsage, inputTokens, outputTokens, cacheWriteTokens, cacheReadTokens, limits } = budget
  const total = `${count(tokenUsage)} fresh${limits.maxTaskTokens === null ? '' : ` of ${count(limits.maxTaskTokens)}`}`
  if (inputTokens + outputTokens + cacheWriteTokens + cacheReadTokens === 0) return total
  const fresh = `${count(inputTokens)} input, ${count(outputTokens)} output, ${count(cacheWriteTokens)} cache write`
  return `${total} (${fresh}); ${count(cacheReadTokens)} cache read`
}

const seconds = (ms: number) => wholeDuration(Math.round(ms / 1_000))
const shown: Readonly<Record<Unit, readonly [name: string, show: (used: number) => string]>> = {
  tokens: ['fresh tokens', count],
  micros: ['cost', dollars],
  ms: ['working time', seconds],
  runs: ['runs', count],
}

/** What was used of a limit: `cost $1.23 of $20.00`. */
export function limitText(unit: Unit, used: number, limit: number | null): string {
  const [name, show] = shown[unit]
  return `${name} ${show(used)}${limit === null ? '' : ` of ${show(limit)}`}`
}

type Limit = readonly [unit: Unit, used: number, limit: number | null]

const limitsText = (limits: readonly Limit[]): string[] =>
  limits.filter(([, , limit]) => limit !== null).map((limit) => limitText(...limit))

/** Every limit of a task with what was used of it, and what sets it; null if the task has no limit. */
export function taskLimits({ agent, costMicros, elapsedMs, limits, retryCount, tokenUsage }: Budget): string | null {
  const { maxTaskCostUsd: usd, maxTaskWallTimeSec: secs } = limits
  const texts = limitsText([
    ['tokens', tokenUsage, limits.maxTaskTokens],
    ['micros', costMicros, usd === null ? null : usd * 1_000_000],
    ['ms', elapsedMs, secs === null ? null : secs * 1_000],
    ['runs', retryCount, limits.maxTaskRetries],
  ])
  if (texts.length === 0) return null
  return `${texts.join(', ')} (set by ${budgetPolicyFile}: "global", or "agents" for ${agent})`
}

const budgetUnits = { tokens: 'tokens', cost_micros: 'micros', wall_ms: 'ms' } as const
type BudgetKey = keyof typeof budgetUnits
const budgetWords: Readonly<Record<BudgetKey, string>> = {
  tokens: 'tokens',
  cost_micros: 'cost',
  wall_ms: 'working time',
}

/** Every limit of a turn with what was used of it and what sets it, and the limits that it exceeded; null without a limit. */
export function turnLimits(budget: TurnDetail['budget']): string | null {
  if (budget === null) return null
  const { parent_budget_id: payer, agent_limits: own, exceeded_keys: over } = budget
  const textsOf = (isOwn: boolean) =>
    limitsText(
      (Object.keys(budgetUnits) as BudgetKey[])
        .filter((key) => own.includes(key) === isOwn)
        .map((key) => [budgetUnits[key], budget[key].used, budget[key].limit]),
    )
  const setBy =
    payer === null
      ? 'the request: --max-tokens, --max-seconds'
      : payer.startsWith('task:')
        ? `${budgetPolicyFile}, for all runs of the task`
        : 'the budget of the parent turn'
  const parts = [
    [textsOf(false), setBy],
    [textsOf(true), '"budget" of the agent file'],
  ] as const
  const texts = parts.flatMap(([limits, by]) => (limits.length === 0 ? [] : [`${limits.join(', ')} (set by ${by})`]))
  if (texts.length === 0) return null
  return `${texts.join('; ')}${over.length === 0 ? '' : `; exceeded: ${over.map((key) => budgetWords[key]).join(', ')}`}`
}

/** Tokens of a turn by kind. */
export function turnTokens(usage: TurnDetail['usage']): string {
  const { input_tokens: input, output_tokens: output, cache_read_tokens: read, cache_write_tokens: written } = usage
  const kinds = `${count(input)} input, ${count(output)} output, ${count(written)} cache write, ${count(read)} cache read`
  return `${count(usage.total_tokens)} tokens (${kinds})`
}

const reasonWords: Readonly<Record<string, string>> = {
  spawn_failed: 'agent failed',
  blocked_signal: 'agent is blocked',
  command_error: 'agent reported a failure',
  command_not_found: 'program not found',
  no_answer: 'agent ended without a result',
}

/** The code of a reason, or its leading code (`incomplete_output: …`), in words. */
export function reasonInWords(reason: string): string {
  const [, exitCode, signal] = /^command_(?:exit_(\d+)|signal_(SIG\w+))$/.exec(reason) ?? []
  if (exitCode !== undefined) return `agent exited with ${exitCode}`
  if (signal !== undefined) return `agent was ended by ${signal}`
  return reason.replace(/^([a-z]+(?:_[a-z]+)+)(?::\s*|$)/, (prefix, code: string) => {
    const words = Object.hasOwn(reasonWords, code) ? reasonWords[code]! : code.replaceAll('_', ' ')
    return prefix === code ? words : `${words}: `
  })
}
