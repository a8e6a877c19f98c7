/**
 * Brings config/runtime-policy.json to its second version: what would change, what would be lost, and what to beware of.
 * Always: pure; the second version of a second version is itself; nothing is removed without being named. Reading, backup
 * and writing are left to migrate-run.ts.
 */
import { parseObject } from '../policies/inside.js'
import { normalize, type RuntimeV2 } from '../policies/runtime.js'

/** The troubles by the names that people look for. */
export const migrationRisks = {
  parse: 'parse failed',
  removes: 'migration removes unsupported/deprecated fields',
  replaces: 'migration replaces values that cannot be used',
  empty: 'agent list is empty after migration',
  write: 'write failed',
} as const

export interface Diff {
  readonly added: number
  readonly removed: number
  readonly changed: number
  readonly sampleAdded: readonly string[]
  readonly sampleRemoved: readonly string[]
  readonly sampleChanged: readonly string[]
}

export interface Plan {
  readonly target: RuntimeV2
  readonly changed: boolean
  readonly diff: Diff
  readonly risks: readonly string[]
  readonly parseError: string | null
}

// Enough to recognise what is meant; the counts tell how much more there is.
const sampleMax = 20

/** Every value with its path; an empty list or table is a value too. */
function leaves(value: unknown, path = ''): Map<string, string> {
  if (typeof value === 'object' && value !== null && Object.keys(value).length > 0) {
    const inner = Object.entries(value).flatMap(([key, item]) => [
      ...leaves(item, path === '' ? key : `${path}.${key}`),
    ])
    return new Map(inner)
  }
  return new Map([[path, JSON.stringify(value)]])
}

function diffOf(before: unknown, after: unknown, removed: readonly string[]): Diff {
  const old = leaves(before)
  const now = leaves(after)
  const added = [...now.keys()].filter((path) => !old.has(path))
  const gone = (path: string) => removed.some((one) => path === one || path.startsWith(`${one}.`))
  // What is neither there as it was nor removed has taken another form: a name that became an object, a text a number.
  const changed = [...old.entries()]
    .filter(([path, value]) => now.get(path) !== value && !gone(path))
    .map(([path]) => path)
  const sample = (paths: readonly string[]) => paths.slice(0, sampleMax).map((path) => path.slice(0, 200))
  return {
    added: added.length,
    removed: removed.length,
    changed: changed.length,
    sampleAdded: sample(added),
    sampleRemoved: sample(removed),
    sampleChanged: sample(changed),
  }
}

function same(left: unknown, right: unknown): boolean {
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return left === right
  if (Array.isArray(left) !== Array.isArray(right)) return false
  const [ours, theirs] = [Object.entries(left), new Map(Object.entries(right))]
  return ours.length === theirs.size && ours.every(([key, value]) => theirs.has(key) && same(value, theirs.get(key)))
}

/** `text`: the file's contents, null when there is none; undefined when they are no text. */
export function plan(text: string | null | undefined): Plan {
  const parsed = text === null ? { value: {} } : text === undefined ? { why: 'it is not UTF-8' } : parseObject(text)
  const parseError = 'why' in parsed ? parsed.why : null
  const input = 'value' in parsed ? parsed.value : {}
  const { v2, removed, replaced } = normalize(input)
  const risks: string[] = []
  if (parseError !== null) risks.push(migrationRisks.parse)
  if (removed.length > 0) risks.push(migrationRisks.removes)
  if (replaced.length > 0) risks.push(migrationRisks.replaces)
  if (v2.agents.length === 0) risks.push(migrationRisks.empty)
  return {
    target: v2,
    changed: text === null || parseError !== null || !same(input, v2),
    diff: diffOf(input, v2, removed),
    risks,
    parseError,
  }
}
