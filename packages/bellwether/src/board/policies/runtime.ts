/**
 * Version 2 of config/runtime-policy.json: agents, concurrency, retries and guardrails. Any JSON object in an old, mixed or
 * complete form normalizes to exactly one version 2, and version 2 normalizes to itself. A valid explicit value is preserved.
 * Pure. repair/migrate-run.ts writes the file.
 */
import { isObject, type JsonObject } from '@bellwether/base'
import { defaultCallPolicy, type RetryPolicy } from '../../ports/retry.js'
import { valid, type Shape } from '../../settings/shape.js'
import { referenceLimits } from './budget.js'
import { attemptsShape, backoffShape } from './retry.js'
import { bounds } from './shape.js'

export const runtimeFile = 'config/runtime-policy.json'

export interface RuntimeAgent {
  readonly id: string
  readonly capabilities: readonly string[]
}

/** Version 2, as in the file. */
export interface RuntimeV2 {
  readonly agents: readonly RuntimeAgent[]
  readonly orchestrator: {
    readonly maxConcurrentSpawns: number
    readonly retryPolicy: RetryPolicy
    readonly budgetPolicy: { readonly guardrails: Readonly<Record<keyof typeof referenceLimits, number>> }
  }
}

/** What the board uses. `explicit`: only the values of the file itself, which other policies may override. */
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

interface Field {
  readonly path: readonly string[]
  readonly shape: Shape<number | string>
  readonly fallback: number | string | null
}

const field = (path: string, shape: Shape<number | string>, fallback: number | string | null): Field => ({
  path: path.split('.'),
  shape,
  fallback,
})

/** Every value of version 2 except the agents, with its default. */
const fields: readonly Field[] = [
  field('orchestrator.maxConcurrentSpawns', bounds.count(1, 10_000), 4),
  field('orchestrator.retryPolicy.maxAttempts', attemptsShape, maxAttempts),
  field('orchestrator.retryPolicy.backoff.mode', backoffShape.fields.mode, backoff.mode),
  field('orchestrator.retryPolicy.backoff.baseMs', backoffShape.fields.baseMs, backoff.baseMs),
  field('orchestrator.retryPolicy.backoff.maxMs', backoffShape.fields.maxMs, backoff.maxMs),
  field('orchestrator.retryPolicy.backoff.multiplier', backoffShape.fields.multiplier, backoff.multiplier),
  field('orchestrator.retryPolicy.backoff.jitterPct', backoffShape.fields.jitterPct, backoff.jitterPct),
  field('orchestrator.budgetPolicy.guardrails.maxTaskTokens', bounds.count(1), referenceLimits.maxTaskTokens),
  field(
    'orchestrator.budgetPolicy.guardrails.maxTaskWallTimeSec',
    bounds.seconds(0.001),
    referenceLimits.maxTaskWallTimeSec,
  ),
  field('orchestrator.budgetPolicy.guardrails.maxTaskRetries', bounds.count(1), referenceLimits.maxTaskRetries),
]

export interface Normalized {
  readonly v2: RuntimeV2
  /** Paths of keys that version 2 does not have. */
  readonly removed: readonly string[]
  /** Paths of invalid values that were replaced by the defaults. */
  readonly replaced: readonly string[]
  readonly explicit: RuntimePolicy['explicit']
}

const own = (value: unknown, key: string): unknown =>
  isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined
const at = (value: unknown, path: readonly string[]): unknown => path.reduce(own, value)

function put(into: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [key, ...rest] = path as [string, ...string[]]
  if (rest.length === 0) into[key] = value
  else put((into[key] ??= {}) as Record<string, unknown>, rest, value)
}

/** A number that was written as a string. */
const numberFromText = (value: unknown): unknown =>
  typeof value === 'string' && /^\s*\d+(?:\.\d+)?\s*$/.test(value) ? Number(value) : value

/** The paths of keys that are not on the way to any field. */
function unknownKeys(value: unknown, prefix: readonly string[] = []): string[] {
  if (!isObject(value)) return []
  return Object.keys(value).flatMap((key) => {
    const path = [...prefix, key]
    if (path.join('.') === 'agents') return []
    const known = fields.filter((field) => path.every((part, index) => field.path[index] === part))
    if (known.length === 0) return [path.join('.')]
    return known.some((one) => one.path.length === path.length) ? [] : unknownKeys(value[key], path)
  })
}

// More than any list that a person maintains.
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
  const extra = isObject(raw) ? Object.keys(raw).filter((key) => !['id', 'name', 'capabilities'].includes(key)) : []
  if (own(raw, 'id') !== undefined && own(raw, 'name') !== undefined) extra.push('name')
  removed.push(...extra.map((key) => `${path}.${key}`))
  const texts = capabilities.filter((item, index): item is string => {
    if (typeof item !== 'string') removed.push(`${path}.capabilities.${index}`)
    return typeof item === 'string'
  })
  return { id, capabilities: texts }
}

/** An agent by name: an object, or only its capabilities; `null` and `true` stand for none. Any other value is removed and reported. */
function agentEntry(id: string, item: unknown, removed: string[]): unknown {
  if (isObject(item)) return { ...item, id }
  if (Array.isArray(item) || typeof item === 'string') return { id, capabilities: item }
  if (item !== null && item !== true) removed.push(`agents.${id}`)
  return id
}

/** Accepts a list of names or objects, an object of objects by name, or a single name. */
function agentsOf(raw: unknown): Agents {
  const removed: string[] = []
  const list: readonly (readonly [string, unknown])[] = Array.isArray(raw)
    ? (raw as unknown[]).map((item, index) => [`agents.${index}`, item] as const)
    : isObject(raw)
      ? Object.entries(raw).map(([id, item]) => [`agents.${id}`, agentEntry(id, item, removed)] as const)
      : typeof raw === 'string'
        ? [['agents', raw] as const]
        : []
  if (raw !== undefined && raw !== null && list.length === 0 && !Array.isArray(raw) && !isObject(raw))
    removed.push('agents')
  const agents = new Map<string, RuntimeAgent>()
  for (const [path, item] of list) {
    const agent = agentOf(item, path, removed)
    if (agent === undefined) continue
    // The first of two agents with the same name counts.
    if (agents.has(agent.id.toLowerCase()) || agents.size >= agentsMax) removed.push(path)
    else agents.set(agent.id.toLowerCase(), agent)
  }
  return { agents: [...agents.values()], removed }
}

export function normalize(input: JsonObject): Normalized {
  const { agents, removed } = agentsOf(own(input, 'agents'))
  const replaced: string[] = []
  const v2: Record<string, unknown> = { agents }
  const explicit: Record<string, unknown> = {}
  for (const { path, shape, fallback } of fields) {
    const value = at(input, path)
    const checked = valid(shape, numberFromText(value))
    if (value !== undefined && checked === undefined) replaced.push(path.join('.'))
    put(v2, path, checked ?? fallback)
    if (checked !== undefined) put(explicit, path, checked)
  }
  const parents = ['orchestrator', 'orchestrator.retryPolicy', 'orchestrator.retryPolicy.backoff']
  parents.push('orchestrator.budgetPolicy', 'orchestrator.budgetPolicy.guardrails')
  const malformed = parents.filter((path) => {
    const value = at(input, path.split('.'))
    return value !== undefined && !isObject(value)
  })
  return {
    v2: v2 as unknown as RuntimeV2,
    removed: [...removed, ...unknownKeys(input), ...malformed],
    replaced,
    explicit: {
      maxConcurrentSpawns: (at(explicit, ['orchestrator', 'maxConcurrentSpawns']) as number | undefined) ?? null,
      retryPolicy: at(explicit, ['orchestrator', 'retryPolicy']) ?? {},
      guardrails: at(explicit, ['orchestrator', 'budgetPolicy', 'guardrails']) ?? {},
    },
  }
}

/** What the board uses, for a file of any version. */
export function asRuntimePolicy(input: JsonObject): RuntimePolicy {
  const { v2, explicit } = normalize(input)
  return { agents: v2.agents, maxConcurrentSpawns: v2.orchestrator.maxConcurrentSpawns, explicit }
}
