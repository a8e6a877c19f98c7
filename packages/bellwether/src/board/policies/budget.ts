/**
 * The budget of a task per agent: tokens, wall time, executions. Usage only grows and is never negative or NaN. The agent's
 * own limits override the global ones. A reached limit prevents the next spawn; an exceeded one blocks the task with
 * `budget_exceeded` and asks a person. Pure: usage is in the log, and the state file is a cache.
 */
import { defined } from '@bellwether/base'
import { z } from 'zod'
import type { Task } from '../log/task.js'
import { entryKey, recordField, type Named } from './entries.js'
import { bounds, nameMap } from './shape.js'

export const budgetFile = 'config/budget-policy.json'
export const budgetCacheFile = 'state/budget.state.json'

export const degradeActions = ['reduced_context', 'manual_handoff', 'stop_run'] as const
export type DegradeAction = (typeof degradeActions)[number]

const limits = z.strictObject({
  /** Null: no limit. */
  maxTaskTokens: bounds.count(1).nullable(),
  maxTaskWallTimeSec: bounds.seconds(0.001).nullable(),
  /** Counts executions. */
  maxTaskRetries: bounds.count(1).nullable(),
  /** What to do the first time the budget is exceeded, the second time, …; used only if `onExceeded` is null. */
  degradePolicy: z.array(z.enum(degradeActions)).min(1).max(degradeActions.length),
  onExceeded: z.enum(degradeActions).nullable(),
})
export type Limits = z.output<typeof limits>

const policyShape = z.strictObject({ global: limits, agents: nameMap(limits.partial()) })
export type BudgetPolicy = z.output<typeof policyShape>
export const budgetShape = policyShape.extend({ global: limits.partial() }).partial()

export const defaultBudget: BudgetPolicy = {
  global: {
    maxTaskTokens: 12_000,
    maxTaskWallTimeSec: 1_200,
    maxTaskRetries: 3,
    degradePolicy: ['reduced_context', 'manual_handoff', 'stop_run'],
    onExceeded: 'manual_handoff',
  },
  agents: {},
}

export type ExceededKey = 'maxTaskTokens' | 'maxTaskWallTimeSec' | 'maxTaskRetries'

/** One entry of state/budget.state.json, and of `budget` in a task's fields. */
const entryShape = z.object({
  taskId: z.string(),
  agent: z.string().min(1),
  tokenUsage: z.number().min(0),
  elapsedMs: z.number().min(0),
  retryCount: z.number().min(0),
  /** How often a run exceeded a limit. */
  exceededCount: z.number().min(0).default(0),
  updatedAt: z.string().default(''),
})
export type BudgetEntry = Readonly<z.output<typeof entryShape>>

/** The usage of one execution. */
export interface Usage {
  readonly tokenUsage: number
  readonly elapsedMs: number
}

export interface Remaining {
  /** Null: no limit. Never negative. */
  readonly tokens: number | null
  readonly wallTimeMs: number | null
  readonly retries: number | null
}

export type BudgetVerdict = { readonly limits: Limits; readonly remaining: Remaining } & (
  | { readonly allowed: true }
  | {
      readonly allowed: false
      readonly reasonCode: 'budget_exceeded'
      readonly nextAssignee: 'human'
      readonly action: 'escalate'
      readonly degradeAction: DegradeAction
      readonly exceededKeys: readonly ExceededKey[]
    }
)

const agentKey = (agent: string) => agent.trim().toLowerCase()

export function limitsFor(policy: BudgetPolicy, agent: string): Limits {
  const key = agentKey(agent)
  const own = Object.hasOwn(policy.agents, key) ? policy.agents[key] : undefined
  return { ...policy.global, ...defined(own ?? {}) }
}

/** A finite, whole, non-negative count: an executor may report anything. */
function counted(value: number): number {
  return Number.isFinite(value) ? Math.min(Math.max(0, Math.ceil(value)), Number.MAX_SAFE_INTEGER) : 0
}
const added = (left: number, right: number) => Math.min(counted(left) + counted(right), Number.MAX_SAFE_INTEGER)

function usageByKey(
  entry: BudgetEntry | undefined,
  limit: Limits,
): readonly (readonly [ExceededKey, number, number | null])[] {
  const wallMs = limit.maxTaskWallTimeSec === null ? null : limit.maxTaskWallTimeSec * 1_000
  return [
    ['maxTaskTokens', counted(entry?.tokenUsage ?? 0), limit.maxTaskTokens],
    ['maxTaskWallTimeSec', counted(entry?.elapsedMs ?? 0), wallMs],
    ['maxTaskRetries', counted(entry?.retryCount ?? 0), limit.maxTaskRetries],
  ]
}

function evaluate(
  policy: BudgetPolicy,
  agent: string,
  entry: BudgetEntry | undefined,
  isExceeded: (usage: number, limit: number) => boolean,
): BudgetVerdict {
  const limits = limitsFor(policy, agent)
  const usage = usageByKey(entry, limits)
  const [tokens, wallTimeMs, retries] = usage.map(([, use, limit]) =>
    limit === null ? null : Math.max(0, limit - use),
  )
  const remaining = { tokens: tokens ?? null, wallTimeMs: wallTimeMs ?? null, retries: retries ?? null }
  const exceededKeys = usage.filter(([, use, limit]) => limit !== null && isExceeded(use, limit)).map(([key]) => key)
  if (exceededKeys.length === 0) return { allowed: true, limits, remaining }
  const times = Math.max(0, (entry?.exceededCount ?? 0) - 1)
  const step = limits.degradePolicy[Math.min(times, limits.degradePolicy.length - 1)] ?? 'manual_handoff'
  return {
    allowed: false,
    limits,
    remaining,
    reasonCode: 'budget_exceeded',
    nextAssignee: 'human',
    action: 'escalate',
    degradeAction: limits.onExceeded ?? step,
    exceededKeys,
  }
}

/** Before a spawn: a reached limit leaves nothing to use. */
export function precheckBudget(policy: BudgetPolicy, entry: BudgetEntry | undefined, agent: string): BudgetVerdict {
  return evaluate(policy, agent, entry, (usage, limit) => usage >= limit)
}

/** After a run: adds one execution and checks which limits it exceeded. `budgetPayload` writes the entry. */
export function recordAndCheckBudget(
  policy: BudgetPolicy,
  entry: BudgetEntry | undefined,
  run: { readonly taskId: string; readonly agent: string } & Usage,
  at: string,
): { readonly verdict: BudgetVerdict; readonly entry: BudgetEntry } {
  const grown: BudgetEntry = {
    taskId: run.taskId,
    agent: agentKey(run.agent),
    tokenUsage: added(entry?.tokenUsage ?? 0, run.tokenUsage),
    elapsedMs: added(entry?.elapsedMs ?? 0, run.elapsedMs),
    retryCount: added(entry?.retryCount ?? 0, 1),
    exceededCount: counted(entry?.exceededCount ?? 0),
    updatedAt: at,
  }
  const exceeds = (usage: number, limit: number) => usage > limit
  const verdict = evaluate(policy, run.agent, grown, exceeds)
  if (verdict.allowed) return { verdict, entry: grown }
  const counts = { ...grown, exceededCount: added(grown.exceededCount, 1) }
  return { verdict: evaluate(policy, run.agent, counts, exceeds), entry: counts }
}

/** The budget of a spawn: the remaining tokens and time. */
export function spawnBudget({ remaining }: BudgetVerdict): {
  readonly maxTokens: number | null
  readonly maxWallTimeMs: number | null
} {
  return { maxTokens: remaining.tokens, maxWallTimeMs: remaining.wallTimeMs }
}

export function asBudgetEntry(value: unknown): BudgetEntry | undefined {
  return entryShape.safeParse(value).data
}

export function budgetsOf(task: Task): ReadonlyMap<string, BudgetEntry> {
  return recordField(task, 'budget', asBudgetEntry)
}

/** What a task has used with this agent, from the log. */
export function budgetOf(task: Task, agent: string): BudgetEntry | undefined {
  return budgetsOf(task).get(agentKey(agent))
}

/** The part of an event's payload that records usage. */
export function budgetPayload(task: Task, entry: BudgetEntry): { readonly budget: Record<string, BudgetEntry> } {
  return { budget: { ...Object.fromEntries(budgetsOf(task)), [entry.agent]: entry } }
}

/** The entries of a task in state/budget.state.json. */
export function budgetEntries(task: Task): readonly Named[] {
  return [...budgetsOf(task).values()].map((entry) => [entryKey(task.taskId, entry.agent), entry])
}
