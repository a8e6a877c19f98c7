/**
 * Plans the migration of config/runtime-policy.json to version 2: what changes, what is removed, and the risks. Pure. Version 2
 * migrates to itself, and every removed key is named. migrate-run.ts does the I/O.
 */
import type { Diff } from '../log/snapshot/snapshot-diff.js'
import { parseObject } from '../policies/inside.js'
import { normalize, type RuntimeV2 } from '../policies/runtime.js'

/** The risks, in the words of the reference. */
export const migrationRisks = {
  parse: 'parse failed',
  removes: 'migration removes unsupported/deprecated fields',
  replaces: 'migration replaces values that cannot be used',
  empty: 'agent list is empty after migration',
  write: 'write failed',
} as const

export interface Plan {
  readonly target: RuntimeV2
  readonly changed: boolean
  readonly diff: Diff
  readonly risks: readonly string[]
  readonly parseError: string | null
}

// Enough examples; the counts cover all.
const sampleMax = 20

/** Every value with its path; an empty list or object is also a value. */
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
  // Neither unchanged nor removed: the value has another form, such as a name that became an object.
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

/** `text`: the contents of the file; null: there is no file; undefined: it is not UTF-8. */
export function plan(text: string | null | undefined): Plan {
  const parsed = text === null ? { value: {} } : text === undefined ? { why: 'not UTF-8' } : parseObject(text)
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
