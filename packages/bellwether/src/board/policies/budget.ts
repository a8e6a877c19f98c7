/**
 * What a task may cost with one agent: tokens, wall time, executions. Always: usage only grows and is never negative or NaN;
 * limits come from the policy, the agent's own before the global ones; a limit that is reached stops the next spawn, one that
 * is crossed ends the task's run with `budget_exceeded` and a human. Pure: the log keeps usage, the state file is its cache.
 */
import { z } from 'zod'
import type { Task } from '../log/task.js'
import { entryKey, recordField, type Named } from './entries.js'
import { bounds, nameMap } from './shape.js'

export const budgetFile = 'config/budget-policy.json'
export const budgetCacheFile = 'state/budget.state.json'

export const degradeActions = ['reduced_context', 'manual_handoff', 'stop_run'] as const
export type DegradeAction = (typeof degradeActions)[number]

const limits = z.strictObject({
  maxTaskTokens: bounds.count(1).nullable().optional(),
  maxTaskWallTimeSec: bounds.seconds(0.001).nullable().optional(),
  maxTaskRetries: bounds.count(1).nullable().optional(),
  degradePolicy: z.array(z.enum(degradeActions)).min(1).max(degradeActions.length).optional(),
  onExceeded: z.enum(degradeActions).nullable().optional(),
})
export const budgetShape = z.strictObject({ global: limits.optional(), agents: nameMap(limits).optional() })

export interface Limits {
  /** null: no limit. */
  readonly maxTaskTokens: number | null
  readonly maxTaskWallTimeSec: number | null
  /** Counts executions. */
  readonly maxTaskRetries: number | null
  /** What to do, in order, at the first crossing, the second, …: only where `onExceeded` is null. */
  readonly degradePolicy: readonly DegradeAction[]
  readonly onExceeded: DegradeAction | null
}

export interface BudgetPolicy {
  readonly global: Limits
  readonly agents: Readonly<Record<string, { readonly [K in keyof Limits]?: Limits[K] | undefined }>>
}

export const shippedBudget: BudgetPolicy = {
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
export interface BudgetEntry {
  readonly taskId: string
  readonly agent: string
  readonly tokenUsage: number
  readonly elapsedMs: number
  readonly retryCount: number
  /** How often a run ended beyond a limit. */
  readonly exceededCount: number
  readonly updatedAt: string
}

/** What one execution cost. */
export interface Usage {
  readonly tokenUsage: number
  readonly elapsedMs: number
}

export interface Remaining {
  /** null: no limit. Never below zero. */
  readonly tokens: number | null
  readonly wallTimeMs: number | null
  readonly retries: number | null
}

export type BudgetVerdict =
  | { readonly allowed: true; readonly limits: Limits; readonly remaining: Remaining }
  | {
      readonly allowed: false
      readonly limits: Limits
      readonly remaining: Remaining
      readonly reasonCode: 'budget_exceeded'
      readonly nextAssignee: 'human'
      readonly action: 'escalate'
      readonly degradeAction: DegradeAction
      readonly exceededKeys: readonly ExceededKey[]
    }

const agentKey = (agent: string) => agent.trim().toLowerCase()

export function limitsFor(policy: BudgetPolicy, agent: string): Limits {
  const key = agentKey(agent)
  const own = Object.hasOwn(policy.agents, key) ? policy.agents[key] : undefined
  const given = Object.entries(own ?? {}).filter(([, value]) => value !== undefined)
  return { ...policy.global, ...Object.fromEntries(given) }
}

/** A count that can be added up: finite, whole, not negative. What an executor reports is not trusted to be one. */
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
  beyond: (usage: number, limit: number) => boolean,
): BudgetVerdict {
  const limits = limitsFor(policy, agent)
  const usage = usageByKey(entry, limits)
  const [tokens, wallTimeMs, retries] = usage.map(([, use, limit]) =>
    limit === null ? null : Math.max(0, limit - use),
  )
  const remaining = { tokens: tokens ?? null, wallTimeMs: wallTimeMs ?? null, retries: retries ?? null }
  const exceededKeys = usage.filter(([, use, limit]) => limit !== null && beyond(use, limit)).map(([key]) => key)
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

/** Before a spawn: a limit that is reached leaves nothing to spend. */
export function precheckBudget(policy: BudgetPolicy, entry: BudgetEntry | undefined, agent: string): BudgetVerdict {
  return evaluate(policy, agent, entry, (usage, limit) => usage >= limit)
}

/** After it: adds one execution, and judges what was crossed. `entry` is what to write down (`budgetPayload`). */
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
  const crossed = (usage: number, limit: number) => usage > limit
  if (evaluate(policy, run.agent, grown, crossed).allowed)
    return { verdict: evaluate(policy, run.agent, grown, crossed), entry: grown }
  const counts = { ...grown, exceededCount: added(grown.exceededCount, 1) }
  return { verdict: evaluate(policy, run.agent, counts, crossed), entry: counts }
}

/** The budget that a spawn is given: what is left of tokens and time. */
export function spawnBudget({ remaining }: BudgetVerdict): {
  readonly maxTokens: number | null
  readonly maxWallTimeMs: number | null
} {
  return { maxTokens: remaining.tokens, maxWallTimeMs: remaining.wallTimeMs }
}

const entryShape = z.object({
  taskId: z.string(),
  agent: z.string().min(1),
  tokenUsage: z.number().min(0),
  elapsedMs: z.number().min(0),
  retryCount: z.number().min(0),
  exceededCount: z.number().min(0).default(0),
  updatedAt: z.string().default(''),
})

export function asBudgetEntry(value: unknown): BudgetEntry | undefined {
  return entryShape.safeParse(value).data
}

export function budgetsOf(task: Task): ReadonlyMap<string, BudgetEntry> {
  return recordField(task, 'budget', asBudgetEntry)
}

/** What the log says a task has used with this agent. */
export function budgetOf(task: Task, agent: string): BudgetEntry | undefined {
  return budgetsOf(task).get(agentKey(agent))
}

/** The part of an event's payload that writes usage down. */
export function budgetPayload(task: Task, entry: BudgetEntry): { readonly budget: Record<string, BudgetEntry> } {
  return { budget: { ...Object.fromEntries(budgetsOf(task)), [entry.agent]: entry } }
}

/** What state/budget.state.json says of a task. */
export function budgetEntries(task: Task): readonly Named[] {
  return [...budgetsOf(task).values()].map((entry) => [entryKey(task.taskId, entry.agent), entry])
}
