/**
 * The budget of a task: fresh tokens, cost and working time over all its runs and agents, and executions per agent. A reached limit
 * prevents the next spawn; an exceeded one blocks the task with `budget_exceeded` and asks a person. Pure: usage is in the log and
 * only grows; the kernel's purse enforces the same limits while a turn runs.
 */
import { defined } from '@bellwether/base'
import {
  budgetPolicyFile,
  degradeActions,
  degradeActionsIn,
  limitText,
  type BudgetKey,
  type DegradeAction,
} from '@bellwether/protocol'
import {
  list,
  nullable,
  number,
  object,
  oneOf,
  partial,
  strictObject,
  text,
  valid,
  withDefault,
  type ValueOf,
} from '../../settings/shape.js'
import type { Task } from '../log/task.js'
import { entryKey, recordField, type Named } from './entries.js'
import { bounds, nameMap, type PolicyFile } from './shape.js'

export const budgetCacheFile = 'state/budget.state.json'

const limits = strictObject({
  /** Fresh tokens: input, output and cache writes; cache reads do not count. Null: no limit, as for every limit. */
  maxTaskTokens: nullable(bounds.count(1)),
  maxTaskCostUsd: nullable(number(0.000_001, 1_000_000)),
  /** Working time: waits for people do not count. */
  maxTaskWallTimeSec: nullable(bounds.seconds(0.001)),
  /** Counts executions. */
  maxTaskRetries: nullable(bounds.count(1)),
  /**
   * What to do, in order, while the budget is short: in the running turn, for calls that the budget does not cover, and in runs that
   * start with little left. If `onExceeded` is null, also what to do the first time the budget is exceeded, the second time, ….
   */
  degradePolicy: list(oneOf(degradeActions), 1, degradeActions.length),
  /** What to do when a limit is reached or exceeded. */
  onExceeded: nullable(oneOf(degradeActions)),
})
export type Limits = ValueOf<typeof limits>

const agents = nameMap(partial(limits))
export interface BudgetPolicy {
  readonly global: Limits
  readonly agents: ValueOf<typeof agents>
}
export const budgetShape = partial(strictObject({ global: partial(limits), agents }))

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
  path: budgetPolicyFile,
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
const units = {
  maxTaskTokens: 'tokens',
  maxTaskCostUsd: 'micros',
  maxTaskWallTimeSec: 'ms',
  maxTaskRetries: 'runs',
} as const
/** The names of the kernel's limits in this policy. */
export const policyKeys = (keys: readonly BudgetKey[]): ExceededKey[] => keys.map((key) => keyNames[key])

/** One entry of state/budget.state.json, and of `budget` in a task's fields. */
const entryShape = object({
  taskId: text(),
  agent: text({ min: 1 }),
  /** Fresh tokens; the kinds below add up to it, without cache reads. */
  tokenUsage: number(0),
  inputTokens: withDefault(number(0), 0),
  outputTokens: withDefault(number(0), 0),
  cacheReadTokens: withDefault(number(0), 0),
  cacheWriteTokens: withDefault(number(0), 0),
  costMicros: withDefault(number(0), 0),
  elapsedMs: number(0),
  retryCount: number(0),
  /** How often a run exceeded a limit. */
  exceededCount: withDefault(number(0), 0),
  updatedAt: withDefault(text(), ''),
})
export type BudgetEntry = Readonly<ValueOf<typeof entryShape>>

const kinds = ['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'costMicros'] as const
type Kind = (typeof kinds)[number]

const perKind = (amountOf: (kind: Kind) => number) =>
  Object.fromEntries(kinds.map((kind) => [kind, amountOf(kind)])) as Readonly<Record<Kind, number>>

/** For an entry of which only the total is known. */
export const noKinds = perKind(() => 0)

/** The usage of one execution. The kinds are absent if only a total is known. */
export interface Usage extends Partial<Readonly<Record<Kind, number>>> {
  /** Fresh tokens. */
  readonly tokenUsage: number
  readonly elapsedMs: number
}

interface Remaining {
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
      /** The limits with what was used of them and the keys that set them, for people. */
      readonly text: string
    }
)

const agentKey = (agent: string) => agent.trim().toLowerCase()

const ownLimits = (policy: BudgetPolicy, agent: string) =>
  Object.hasOwn(policy.agents, agentKey(agent)) ? policy.agents[agentKey(agent)] : undefined

export function limitsFor(policy: BudgetPolicy, agent: string): Limits {
  return { ...policy.global, ...defined(ownLimits(policy, agent) ?? {}) }
}

/** The key of the policy file that sets a limit of the agent. */
function limitKey(policy: BudgetPolicy, agent: string, key: ExceededKey): string {
  return ownLimits(policy, agent)?.[key] === undefined ? `global.${key}` : `agents.${agentKey(agent)}.${key}`
}

/** A finite, whole, non-negative count: an executor may report anything. */
export function counted(value: number): number {
  return Number.isFinite(value) ? Math.min(Math.max(0, Math.ceil(value)), Number.MAX_SAFE_INTEGER) : 0
}
const added = (left: number, right: number) => Math.min(counted(left) + counted(right), Number.MAX_SAFE_INTEGER)

/** What all agents together have used of a task. */
export function usedByTask(entries: BudgetEntries) {
  const sum = (key: Kind | 'tokenUsage' | 'elapsedMs') =>
    [...entries.values()].reduce((total, entry) => added(total, entry[key]), 0)
  return { tokens: sum('tokenUsage'), ...perKind(sum), wallTimeMs: sum('elapsedMs') }
}

/** The limits in the units of the kernel. */
function limitsOf({ maxTaskTokens: tokens, maxTaskCostUsd, maxTaskWallTimeSec }: Limits) {
  return {
    tokens,
    costMicros: maxTaskCostUsd === null ? null : Math.round(maxTaskCostUsd * 1e6),
    wallTimeMs: maxTaskWallTimeSec === null ? null : Math.ceil(maxTaskWallTimeSec * 1_000),
  }
}

/** Why the kernel stopped a run. */
interface Stop {
  readonly stoppedBy?: readonly ExceededKey[] | undefined
  /** The limits among them that the agent file sets, in words. */
  readonly byAgentFile?: readonly { readonly key: ExceededKey; readonly text: string }[]
}

const agentFileKeys: Partial<Record<ExceededKey, string>> = {
  maxTaskTokens: 'max_tokens',
  maxTaskCostUsd: 'max_cost_usd',
  maxTaskWallTimeSec: 'max_wall_seconds',
}

function stopOf({ agent, stoppedBy, agentLimits = [], tokenUsage, costMicros = 0, elapsedMs }: BudgetedRun): Stop {
  const used: Partial<Record<ExceededKey, number>> = {
    maxTaskTokens: tokenUsage,
    maxTaskCostUsd: costMicros,
    maxTaskWallTimeSec: elapsedMs,
  }
  const own = agentLimits.filter((key) => stoppedBy?.includes(key) === true)
  const byAgentFile = own.map((key) => ({
    key,
    text: `${limitText(units[key], counted(used[key] ?? 0), null)} in this run, set by "budget.${agentFileKeys[key]}" of agents/${agent}.md`,
  }))
  return { stoppedBy, byAgentFile }
}

function evaluate(
  policy: BudgetPolicy,
  agent: string,
  entries: BudgetEntries,
  isExceeded: (usage: number, limit: number) => boolean,
  { stoppedBy, byAgentFile = [] }: Stop = {},
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
  const shown = usage
    .filter(
      ([key]) => exceeded.includes(key) || (exceededKeys.includes(key) && !byAgentFile.some((one) => one.key === key)),
    )
    .map(([key, use, limit]) => `${limitText(units[key], use, limit)}, set by "${limitKey(policy, agent, key)}"`)
  const own = byAgentFile.map(({ text }) => text)
  const ofPolicy =
    shown.length > 0 || own.length === 0
      ? [`${shown.join('; ') || 'the limit that was in force'} of ${budgetPolicyFile}`]
      : []
  return {
    allowed: false,
    limits,
    remaining,
    reasonCode: 'budget_exceeded',
    nextAssignee: 'human',
    action: 'escalate',
    degradeAction: limits.onExceeded ?? step,
    exceededKeys,
    text: `budget_exceeded: ${[...ofPolicy, ...own].join('; ')}`,
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
  /** The limits of the run that the agent file set. */
  readonly agentLimits?: readonly ExceededKey[] | undefined
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
  const grown: BudgetEntry = {
    taskId: run.taskId,
    agent,
    tokenUsage: added(entry?.tokenUsage ?? 0, run.tokenUsage),
    ...perKind((kind) => added(entry?.[kind] ?? 0, run[kind] ?? 0)),
    elapsedMs: added(entry?.elapsedMs ?? 0, run.elapsedMs),
    retryCount: added(entry?.retryCount ?? 0, 1),
    exceededCount: counted(entry?.exceededCount ?? 0),
    updatedAt: at,
  }
  const check = (one: BudgetEntry) =>
    evaluate(policy, run.agent, new Map([...entries, [agent, one]]), (usage, limit) => usage > limit, stopOf(run))
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

export function budgetsOf(task: Task): ReadonlyMap<string, BudgetEntry> {
  return recordField(task, 'budget', (value) => valid(entryShape, value))
}

/** The part of an event's payload that records usage. */
export function budgetPayload(task: Task, entry: BudgetEntry): { readonly budget: Record<string, BudgetEntry> } {
  return { budget: { ...Object.fromEntries(budgetsOf(task)), [entry.agent]: entry } }
}

/** The entries of a task in state/budget.state.json. */
export function budgetEntries(task: Task): readonly Named[] {
  return [...budgetsOf(task).values()].map((entry) => [entryKey(task.taskId, entry.agent), entry])
}
