/**
 * Building blocks for the schemas of policy files, and error messages for values that do not match: file, key, what was
 * expected, and the nearest valid key. Pure. load.ts reads the files.
 */
import { shortened } from '@bellwether/protocol'
import { nearest } from '../../settings/nearest.js'
import { integer, mapped, number, record, text, type Issue, type Shape } from '../../settings/shape.js'

/** A file of the task root that overrides the defaults of one policy. */
export interface PolicyFile<P> {
  readonly path: string
  /** What the file may contain; every key is optional. */
  readonly shape: Shape<unknown>
  readonly defaults: P
  /** The comment in the file that `init` writes. */
  readonly about: string
}

// 100 years: more is a typing error; in milliseconds it still fits into 53 bits.
const secondsMax = 100 * 365 * 86_400

export const bounds = {
  count: (min: number, max = 1_000_000_000_000) => integer(min, max),
  number: (min: number, max: number) => number(min, max),
  seconds: (min: number) => number(min, secondsMax),
}

// Keys of every JavaScript object: as keys of a policy they would change the object itself.
const reserved = new Set(['__proto__', 'constructor', 'prototype'])
const namePattern = /^[a-z0-9][a-z0-9_.:@/-]{0,127}$/

/** The name of an agent, role or reason, in lower case; undefined if it is not valid. */
function nameOf(text: string): string | undefined {
  const name = text.trim().toLowerCase()
  return namePattern.test(name) && !reserved.has(name) ? name : undefined
}

export const roleName: Shape<string> = mapped(
  text({
    accepts: (value) => nameOf(value) !== undefined,
    wanted: 'a name of 1 to 128 letters, digits and _ . : @ / -',
  }),
  (value) => nameOf(value) ?? value,
)

// More than any file that a person maintains.
const namesMax = 1_000

/** An object by name; the same name twice in different case is an error. */
export const nameMap = <T>(value: Shape<T>): Shape<Record<string, T>> => record(value, namesMax, nameOf)

const dotted = (path: readonly string[]) => path.join('.')
const shown = (key: string) => shortened(key, 80)

/** The valid key most similar to `path`, with the names of the file. */
function nearestKey({ keys }: Shape<unknown>, path: readonly string[]): string | undefined {
  const named = keys.map((key) => dotted(key.map((part, index) => (part === '*' ? (path[index] ?? part) : part))))
  const own = path.at(-1) ?? ''
  const siblings = named.filter((key) => key.split('.').slice(0, -1).join('.') === path.slice(0, -1).join('.'))
  const sibling = nearest(
    own,
    siblings.map((key) => key.split('.').at(-1) ?? key),
  )
  if (sibling !== undefined) return [...path.slice(0, -1), sibling].join('.')
  return nearest(path.join('.'), named)
}

// A file of 1 MB can have 100,000 wrong keys: search a suggestion only for the first ones.
const searchedMax = 20

/** One line per problem: `file: key: what is wrong`. */
export function problemsOf(file: string, shape: Shape<unknown>, issues: readonly Issue[]): string[] {
  return issues.map(({ path, message, unknownKey }, index) => {
    const where = path.length === 0 ? 'the file' : shown(dotted(path))
    if (unknownKey !== true) return `${file}: ${where}: ${message}`
    const suggestion = index < searchedMax ? nearestKey(shape, path) : undefined
    return `${file}: unknown key ${where}${suggestion === undefined ? '' : `; did you mean ${suggestion}?`}`
  })
}

/** Reports reserved keys anywhere in the file. */
export function reservedKeys(file: string, value: unknown, path: readonly string[] = []): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    reserved.has(key)
      ? [`${file}: ${shown(dotted([...path, key]))}: this key is reserved`]
      : reservedKeys(file, inner, [...path, key]),
  )
}
