/**
 * config/runtime-policy.json in its second version: who the agents are, how many run at once, how calls are retried, what no
 * task may pass. Always: any JSON object, of an old, a mixed or the full form, has exactly one second version, and that of a
 * second version is itself; an explicit value that is valid is kept. Pure. Writing it is left to migrate.ts.
 */
import type { z } from 'zod'
import { defaultCallPolicy } from '../../ports/retry.js'
import { shippedBudget } from './budget.js'
import { backoffShape, retryRuleShape } from './retry.js'
import { bounds } from './shape.js'

export const runtimeFile = 'config/runtime-policy.json'

export interface RuntimeAgent {
  readonly id: string
  readonly capabilities: readonly string[]
}

/** The second version, as it stands in the file. */
export interface RuntimeV2 {
  readonly agents: readonly RuntimeAgent[]
  readonly orchestrator: {
    readonly maxConcurrentSpawns: number
    readonly retryPolicy: {
      readonly maxAttempts: number
      readonly backoff: {
        readonly mode: string
        readonly baseMs: number
        readonly maxMs: number
        readonly multiplier: number
        readonly jitterPct: number
      }
    }
    readonly budgetPolicy: {
      readonly guardrails: {
        readonly maxTaskTokens: number
        readonly maxTaskWallTimeSec: number
        readonly maxTaskRetries: number
      }
    }
  }
}

/** What the board goes by. `explicit`: only what the file itself says, for the policies that it stands behind. */
export interface RuntimePolicy {
  readonly agents: readonly RuntimeAgent[]
  readonly maxConcurrentSpawns: number
  readonly explicit: {
    readonly maxConcurrentSpawns: number | null
    readonly retryPolicy: object
    readonly guardrails: object
  }
}

const { maxAttempts, backoff } = defaultCallPolicy.retry
const { global } = shippedBudget

interface Field {
  readonly path: readonly string[]
  readonly shape: z.ZodType
  readonly fallback: number | string | null
}

const field = (path: string, shape: z.ZodType, fallback: number | string | null): Field => ({
  path: path.split('.'),
  shape,
  fallback,
})

/** Every value of the second version beside the agents, with what stands there when nobody said anything. */
const fields: readonly Field[] = [
  field('orchestrator.maxConcurrentSpawns', bounds.count(1, 10_000), 4),
  field('orchestrator.retryPolicy.maxAttempts', retryRuleShape.shape.maxAttempts.unwrap(), maxAttempts),
  field('orchestrator.retryPolicy.backoff.mode', backoffShape.shape.mode.unwrap(), backoff.mode),
  field('orchestrator.retryPolicy.backoff.baseMs', backoffShape.shape.baseMs.unwrap(), backoff.baseMs),
  field('orchestrator.retryPolicy.backoff.maxMs', backoffShape.shape.maxMs.unwrap(), backoff.maxMs),
  field('orchestrator.retryPolicy.backoff.multiplier', backoffShape.shape.multiplier.unwrap(), backoff.multiplier),
  field('orchestrator.retryPolicy.backoff.jitterPct', backoffShape.shape.jitterPct.unwrap(), backoff.jitterPct),
  field('orchestrator.budgetPolicy.guardrails.maxTaskTokens', bounds.count(1), global.maxTaskTokens),
  field('orchestrator.budgetPolicy.guardrails.maxTaskWallTimeSec', bounds.seconds(0.001), global.maxTaskWallTimeSec),
  field('orchestrator.budgetPolicy.guardrails.maxTaskRetries', bounds.count(1), global.maxTaskRetries),
]

export interface Normalized {
  readonly v2: RuntimeV2
  /** Paths of what the second version has no place for. */
  readonly removed: readonly string[]
  /** Paths of values that cannot be used, and were replaced by what is shipped. */
  readonly replaced: readonly string[]
  readonly explicit: RuntimePolicy['explicit']
}

type Table = Readonly<Record<string, unknown>>
const isTable = (value: unknown): value is Table => typeof value === 'object' && value !== null && !Array.isArray(value)
const own = (value: unknown, key: string): unknown =>
  isTable(value) && Object.hasOwn(value, key) ? value[key] : undefined
const at = (value: unknown, path: readonly string[]): unknown => path.reduce(own, value)

function put(into: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [key, ...rest] = path as [string, ...string[]]
  if (rest.length === 0) into[key] = value
  else put((into[key] ??= {}) as Record<string, unknown>, rest, value)
}

/** A number that was written as text is meant as a number. */
const numberFromText = (value: unknown): unknown =>
  typeof value === 'string' && /^\s*\d+(?:\.\d+)?\s*$/.test(value) ? Number(value) : value

/** Keys beside those that some field goes through. */
function unknownKeys(value: unknown, prefix: readonly string[] = []): string[] {
  if (!isTable(value)) return []
  return Object.keys(value).flatMap((key) => {
    const path = [...prefix, key]
    if (path.join('.') === 'agents') return []
    const known = fields.filter((one) => path.every((part, index) => one.path[index] === part))
    if (known.length === 0) return [path.join('.')]
    return known.some((one) => one.path.length === path.length) ? [] : unknownKeys(value[key], path)
  })
}

// A fleet of more kinds of agents than this is no list that a person keeps.
const agentsMax = 10_000
const idMax = 128

interface Agents {
  readonly agents: RuntimeAgent[]
  readonly removed: string[]
}

function agentOf(raw: unknown, path: string, removed: string[]): RuntimeAgent | undefined {
  const name = typeof raw === 'string' ? raw : (own(raw, 'id') ?? own(raw, 'name'))
  const id = typeof name === 'string' ? name.trim() : ''
  if (id === '' || id.length > idMax) {
    removed.push(path)
    return undefined
  }
  const listed = own(raw, 'capabilities')
  const capabilities = Array.isArray(listed) ? (listed as unknown[]) : listed === undefined ? [] : [listed]
  const strange = isTable(raw) ? Object.keys(raw).filter((key) => !['id', 'name', 'capabilities'].includes(key)) : []
  if (own(raw, 'id') !== undefined && own(raw, 'name') !== undefined) strange.push('name')
  removed.push(...strange.map((key) => `${path}.${key}`))
  const texts = capabilities.filter((item, index): item is string => {
    if (typeof item !== 'string') removed.push(`${path}.capabilities.${index}`)
    return typeof item === 'string'
  })
  return { id, capabilities: texts }
}

/** A list of names or objects; a table of objects by name, as some wrote it; one name alone. */
function agentsOf(raw: unknown): Agents {
  const removed: string[] = []
  const list: readonly (readonly [string, unknown])[] = Array.isArray(raw)
    ? (raw as unknown[]).map((item, index) => [`agents.${index}`, item] as const)
    : isTable(raw)
      ? Object.entries(raw).map(([id, item]) => [`agents.${id}`, isTable(item) ? { ...item, id } : id] as const)
      : typeof raw === 'string'
        ? [['agents', raw] as const]
        : []
  if (raw !== undefined && raw !== null && list.length === 0 && !Array.isArray(raw) && !isTable(raw))
    removed.push('agents')
  const agents = new Map<string, RuntimeAgent>()
  for (const [path, item] of list) {
    const agent = agentOf(item, path, removed)
    if (agent === undefined) continue
    // The first of two with the same name counts: a list is read from above.
    if (agents.has(agent.id.toLowerCase()) || agents.size >= agentsMax) removed.push(path)
    else agents.set(agent.id.toLowerCase(), agent)
  }
  return { agents: [...agents.values()], removed }
}

export function normalize(input: Table): Normalized {
  const { agents, removed } = agentsOf(own(input, 'agents'))
  const replaced: string[] = []
  const v2: Record<string, unknown> = { agents }
  const explicit: Record<string, unknown> = {}
  for (const { path, shape, fallback } of fields) {
    const given = at(input, path)
    const checked = shape.safeParse(numberFromText(given))
    if (given !== undefined && !checked.success) replaced.push(path.join('.'))
    put(v2, path, given !== undefined && checked.success ? checked.data : fallback)
    if (given !== undefined && checked.success) put(explicit, path, checked.data)
  }
  const parents = ['orchestrator', 'orchestrator.retryPolicy', 'orchestrator.retryPolicy.backoff']
  parents.push('orchestrator.budgetPolicy', 'orchestrator.budgetPolicy.guardrails')
  const misshapen = parents.filter((path) => {
    const value = at(input, path.split('.'))
    return value !== undefined && !isTable(value)
  })
  return {
    v2: v2 as unknown as RuntimeV2,
    removed: [...removed, ...unknownKeys(input), ...misshapen],
    replaced,
    explicit: {
      maxConcurrentSpawns: (at(explicit, ['orchestrator', 'maxConcurrentSpawns']) as number | undefined) ?? null,
      retryPolicy: at(explicit, ['orchestrator', 'retryPolicy']) ?? {},
      guardrails: at(explicit, ['orchestrator', 'budgetPolicy', 'guardrails']) ?? {},
    },
  }
}

/** What the board goes by, whichever version the file is of. */
export function asRuntimePolicy(input: Table): RuntimePolicy {
  const { v2, explicit } = normalize(input)
  return { agents: v2.agents, maxConcurrentSpawns: v2.orchestrator.maxConcurrentSpawns, explicit }
}
