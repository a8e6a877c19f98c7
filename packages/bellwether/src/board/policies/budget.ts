/**
 * The budget of a task: fresh tokens, cost and working time over all its runs and agents, and executions per agent. A reached limit
 * prevents the next spawn; an exceeded one blocks the task with `budget_exceeded` and asks a person. Pure: usage is in the log and
 * only grows; the kernel's purse enforces the same limits while a turn runs.
 */
import { defined } from '@bellwether/base'
import { degradeActions, degradeActionsIn, type BudgetKey, type DegradeAction } from '@bellwether/protocol'
import { z } from 'zod'
import type { Task } from '../log/task.js'
import { entryKey, recordField, type Named } from './entries.js'
import { bounds, nameMap, type PolicyFile } from './shape.js'

export const budgetCacheFile = 'state/budget.state.json'

const limits = z.strictObject({
  /** Fresh tokens: input, output and cache writes; cache reads do not count. Null: no limit, as for every limit. */
  maxTaskTokens: bounds.count(1).nullable(),
  maxTaskCostUsd: z.number().positive().max(1_000_000).nullable(),
  /** Working time: waits for people do not count. */
  maxTaskWallTimeSec: bounds.seconds(0.001).nullable(),
  /** Counts executions. */
  maxTaskRetries: bounds.count(1).nullable(),
  /**
   * What to do, in order, while the budget is short: in the running turn, for calls that the budget does not cover, and in runs that
   * start with little left. If `onExceeded` is null, also what to do the first time the budget is exceeded, the second time, ….
   */
  degradePolicy: z.array(z.enum(degradeActions)).min(1).max(degradeActions.length),
  /** What to do when a limit is reached or exceeded. */
  onExceeded: z.enum(degradeActions).nullable(),
})
export type Limits = z.output<typeof limits>

const policyShape = z.strictObject({ global: limits, agents: nameMap(limits.partial()) })
export type BudgetPolicy = z.output<typeof policyShape>
export const budgetShape = policyShape.extend({ global: limits.partial() }).partial()

/** The limits of the reference's own file, which a migrated policy keeps. */
export const referenceLimits = { maxTaskTokens: 12_000, maxTaskWallTimeSec: 1_200, maxTaskRetries: 3 } as const

export const defaultBudget: BudgetPolicy = {
  global: {
    // A coding agent reads its context again with every call, mostly from a cache: money limits it, not a number of tokens.
    maxTaskTokens: null,
    // Room for three attempts of a large coding task.
    maxTaskCostUsd: 20,
    maxTaskWallTimeSec: 7_200,
    maxTaskRetries: 3,
    degradePolicy: ['reduced_context', 'manual_handoff', 'stop_run'],
    onExceeded: 'manual_handoff',
  },
  agents: {},
}

export const budgetFile: PolicyFile<BudgetPolicy> = {
  path: 'config/budget-policy.json',
  shape: budgetShape,
  defaults: defaultBudget,
  about: 'What one task may use over all its runs: under "global" for every agent, under "agents" per agent.',
}

export type ExceededKey = 'maxTaskTokens' | 'maxTaskCostUsd' | 'maxTaskWallTimeSec' | 'maxTaskRetries'

const keyNames: Readonly<Record<BudgetKey, ExceededKey>> = {
  tokens: 'maxTaskTokens',
  cost_micros: 'maxTaskCostUsd',
  wall_ms: 'maxTaskWallTimeSec',
}
/** The names of the kernel's limits in this policy. */
export const policyKeys = (keys: readonly BudgetKey[]): ExceededKey[] => keys.map((key) => keyNames[key])

/** One entry of state/budget.state.json, and of `budget` in a task's fields. */
const entryShape = z.object({
  taskId: z.string(),
  agent: z.string().min(1),
  /** Fresh tokens; the kinds below add up to it, without cache reads. */
  tokenUsage: z.number().min(0),
  inputTokens: z.number().min(0).default(0),
  outputTokens: z.number().min(0).default(0),
  cacheReadTokens: z.number().min(0).default(0),
  cacheWriteTokens: z.number().min(0).default(0),
  costMicros: z.number().min(0).default(0),
  elapsedMs: z.number().min(0),
  retryCount: z.number().min(0),
  /** How often a run exceeded a limit. */
  exceededCount: z.number().min(0).default(0),
  updatedAt: z.string().default(''),
})
export type BudgetEntry = Readonly<z.output<typeof entryShape>>

/** For an entry of which only the total is known. */
export const noKinds = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costMicros: 0,
} as const

const kinds = ['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'costMicros'] as const

/** The usage of one execution. The kinds are absent if only a total is known. */
export interface Usage extends Partial<Readonly<Record<(typeof kinds)[number], number>>> {
  /** Fresh tokens. */
  readonly tokenUsage: number
  readonly elapsedMs: number
}

export interface Remaining {
  /** Null: no limit. Never negative. */
  readonly tokens: number | null
  readonly costMicros: number | null
  readonly wallTimeMs: number | null
  readonly retries: number | null
}

/** What a task has used with each agent. */
export type BudgetEntries = ReadonlyMap<string, BudgetEntry>

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

type Kind = (typeof kinds)[number]

/** What all agents together have used of a task. */
export function usedByTask(entries: BudgetEntries) {
  const sum = (key: Kind | 'tokenUsage' | 'elapsedMs') =>
    [...entries.values()].reduce((total, entry) => added(total, entry[key]), 0)
  const byKind = Object.fromEntries(kinds.map((kind) => [kind, sum(kind)])) as Readonly<Record<Kind, number>>
  return { tokens: sum('tokenUsage'), ...byKind, wallTimeMs: sum('elapsedMs') }
}

/** The limits in the units of the kernel. */
function limitsOf({ maxTaskTokens: tokens, maxTaskCostUsd, maxTaskWallTimeSec }: Limits) {
  return {
    tokens,
    costMicros: maxTaskCostUsd === null ? null : Math.round(maxTaskCostUsd * 1e6),
    wallTimeMs: maxTaskWallTimeSec === null ? null : Math.ceil(maxTaskWallTimeSec * 1_000),
  }
}

function evaluate(
  policy: BudgetPolicy,
  agent: string,
  entries: BudgetEntries,
  isExceeded: (usage: number, limit: number) => boolean,
  stoppedBy?: readonly ExceededKey[],
): BudgetVerdict {
  const limits = limitsFor(policy, agent)
  const [used, most] = [usedByTask(entries), limitsOf(limits)]
  const entry = entries.get(agentKey(agent))
  const executions = counted(entry?.retryCount ?? 0)
  const usage: readonly (readonly [ExceededKey, number, number | null])[] = [
    ['maxTaskTokens', used.tokens, most.tokens],
    ['maxTaskCostUsd', used.costMicros, most.costMicros],
    ['maxTaskWallTimeSec', used.wallTimeMs, most.wallTimeMs],
    ['maxTaskRetries', executions, limits.maxTaskRetries],
  ]
  const left = (use: number, limit: number | null) => (limit === null ? null : Math.max(0, limit - use))
  const remaining = {
    tokens: left(used.tokens, most.tokens),
    costMicros: left(used.costMicros, most.costMicros),
    wallTimeMs: left(used.wallTimeMs, most.wallTimeMs),
    retries: left(executions, limits.maxTaskRetries),
  }
  const exceeded = usage.filter(([, use, limit]) => limit !== null && isExceeded(use, limit)).map(([key]) => key)
  const exceededKeys = [...new Set([...exceeded, ...(stoppedBy ?? [])])]
  if (exceededKeys.length === 0 && stoppedBy === undefined) return { allowed: true, limits, remaining }
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
export function precheckBudget(policy: BudgetPolicy, entries: BudgetEntries, agent: string): BudgetVerdict {
  return evaluate(policy, agent, entries, (usage, limit) => usage >= limit)
}

interface BudgetedRun extends Usage {
  readonly taskId: string
  readonly agent: string
  /** The kernel stopped the run at these limits. The recorded usage may be slightly lower. */
  readonly stoppedBy?: readonly ExceededKey[] | undefined
}

/** After a run: adds one execution and checks which limits it exceeded. `budgetPayload` writes the entry. */
export function recordAndCheckBudget(
  policy: BudgetPolicy,
  entries: BudgetEntries,
  run: BudgetedRun,
  at: string,
): { readonly verdict: BudgetVerdict; readonly entry: BudgetEntry } {
  const agent = agentKey(run.agent)
  const entry = entries.get(agent)
  const byKind = Object.fromEntries(kinds.map((kind) => [kind, added(entry?.[kind] ?? 0, run[kind] ?? 0)])) as {
    readonly [kind in (typeof kinds)[number]]: number
  }
  const grown: BudgetEntry = {
    taskId: run.taskId,
    agent,
    tokenUsage: added(entry?.tokenUsage ?? 0, run.tokenUsage),
    ...byKind,
    elapsedMs: added(entry?.elapsedMs ?? 0, run.elapsedMs),
    retryCount: added(entry?.retryCount ?? 0, 1),
    exceededCount: counted(entry?.exceededCount ?? 0),
    updatedAt: at,
  }
  const check = (one: BudgetEntry) =>
    evaluate(policy, run.agent, new Map([...entries, [agent, one]]), (usage, limit) => usage > limit, run.stoppedBy)
  const verdict = check(grown)
  if (verdict.allowed) return { verdict, entry: grown }
  const counts = { ...grown, exceededCount: added(grown.exceededCount, 1) }
  return { verdict: check(counts), entry: counts }
}

/** A run that starts with less than this share of a limit left is degraded. */
const lowShare = 0.25

const shapesRun = (action: DegradeAction) => action !== 'manual_handoff' && action !== 'stop_run'

/**
 * The degrade actions of the next run of a task: the one that was taken when its budget was exceeded, and, if little is left, those of
 * the sequence up to the first that ends a run.
 */
export function nextRunDegrade(policy: BudgetPolicy, task: Task, agent: string): readonly DegradeAction[] {
  const { limits, remaining } = precheckBudget(policy, budgetsOf(task), agent)
  const most = limitsOf(limits)
  const isLow = (key: keyof typeof most) => most[key] !== null && (remaining[key] ?? 0) < most[key] * lowShare
  const low = isLow('tokens') || isLow('costMicros') || isLow('wallTimeMs')
  const taken = degradeActionsIn([task.fields['degradeAction']])
  const end = limits.degradePolicy.findIndex((action) => !shapesRun(action))
  const sequence = low ? limits.degradePolicy.slice(0, end === -1 ? undefined : end) : []
  return [...new Set([...taken, ...sequence])].filter(shapesRun)
}

/** What a degrade action changes once a limit is reached or exceeded, in words. */
export const degradeEffects: Readonly<Record<DegradeAction, string>> = {
  reduced_context: 'the next run gets the task without hints, notes and cards of earlier runs',
  cheaper_model: 'the next run uses the cheaper model of its agent',
  fewer_tools: 'the next run gets only the essential tools of its agent',
  manual_handoff: 'the task is assigned to a person, with the work so far',
  stop_run: 'the task has failed; no agent runs it again unless a person retries it',
}

/** The purse of a task, which pays for all its runs and their children. */
export interface TaskPurse {
  /** Another id after a person has granted a fresh budget. */
  readonly id: string
  /** Null: no limit. */
  readonly limits: {
    readonly tokens: number | null
    readonly costMicros: number | null
    readonly wallTimeMs: number | null
  }
  /** What the log says, for a kernel that does not know the purse yet. */
  readonly used: { readonly tokens: number; readonly costMicros: number; readonly wallTimeMs: number }
}

export function purseOf(policy: BudgetPolicy, task: Task, agent: string): TaskPurse {
  const grants = task.fields['budgetGrants']
  const { tokens, costMicros, wallTimeMs } = usedByTask(budgetsOf(task))
  return {
    id: `task:${task.taskId}:${task.createdAt}:${typeof grants === 'number' ? grants : 0}`,
    limits: limitsOf(limitsFor(policy, agent)),
    used: { tokens, costMicros, wallTimeMs },
  }
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
