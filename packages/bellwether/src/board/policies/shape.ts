/**
 * Building blocks for the schemas of policy files, and error messages for values that do not match: file, key, what was
 * expected, and the nearest valid key. Pure. load.ts reads the files.
 */
import { z } from 'zod'
import { nearest } from '../../settings/nearest.js'

/** A file of the task root that overrides the defaults of one policy. */
export interface PolicyFile<P> {
  readonly path: string
  /** What the file may contain; every key is optional. */
  readonly shape: z.ZodType
  readonly defaults: P
  /** The comment in the file that `init` writes. */
  readonly about: string
}

// 100 years: more is a typing error; in milliseconds it still fits into 53 bits.
const secondsMax = 100 * 365 * 86_400

export const bounds = {
  count: (min: number, max = 1_000_000_000_000) => z.number().int().min(min).max(max),
  number: (min: number, max: number) => z.number().min(min).max(max),
  seconds: (min: number) => z.number().min(min).max(secondsMax),
}

// Keys of every JavaScript object: as keys of a policy they would change the object itself.
const reserved = new Set(['__proto__', 'constructor', 'prototype'])
const namePattern = /^[a-z0-9][a-z0-9_.:@/-]{0,127}$/

/** The name of an agent, role or reason, case-insensitive. */
export const roleName = z
  .string()
  .transform((text) => text.trim().toLowerCase())
  .refine((text) => namePattern.test(text) && !reserved.has(text), {
    message: 'must be 1 to 128 letters, digits and _ . : @ / -',
  })

/** An object by name; the same name twice in different case is an error. */
export function nameMap<V extends z.ZodType>(value: V) {
  // More than any file that a person maintains.
  const namesMax = 1_000
  return z.record(z.string(), value).transform((table, context) => {
    const entries = new Map<string, z.output<V>>()
    for (const [key, inner] of Object.entries(table)) {
      const name = roleName.safeParse(key)
      if (!name.success) context.addIssue({ code: 'custom', path: [key], message: 'is not a valid name' })
      else if (entries.has(name.data))
        context.addIssue({ code: 'custom', path: [key], message: 'occurs twice, in different case' })
      else entries.set(name.data, inner as z.output<V>)
    }
    if (entries.size > namesMax)
      context.addIssue({ code: 'custom', message: `must not have more than ${namesMax} names` })
    return Object.fromEntries(entries)
  })
}

const dotted = (path: readonly PropertyKey[]) => path.map(String).join('.')
const shown = (key: string) => (key.length > 80 ? `${key.slice(0, 80)}…` : key)

/** Every valid key, dotted; `*` stands for any name. */
export function keysOf(schema: z.ZodType, prefix: readonly string[] = []): string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable)
    return keysOf(schema.unwrap() as z.ZodType, prefix)
  if (schema instanceof z.ZodPipe) return keysOf(schema.in as z.ZodType, prefix)
  if (schema instanceof z.ZodRecord) return keysOf(schema.valueType as z.ZodType, [...prefix, '*'])
  if (schema instanceof z.ZodObject)
    return Object.entries(schema.shape).flatMap(([key, inner]) => [
      [...prefix, key].join('.'),
      ...keysOf(inner as z.ZodType, [...prefix, key]),
    ])
  return []
}

/** The valid key most similar to `path`, with the names of the file. */
function nearestKey(schema: z.ZodType, path: readonly string[]): string | undefined {
  const known = keysOf(schema)
  const named = known.map((key) =>
    key
      .split('.')
      .map((part, index) => (part === '*' ? (path[index] ?? part) : part))
      .join('.'),
  )
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
export function problemsOf(file: string, schema: z.ZodType, error: z.ZodError): string[] {
  const lines: string[] = []
  for (const issue of error.issues) {
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) {
        const path = [...issue.path.map(String), key]
        const suggestion = lines.length < searchedMax ? nearestKey(schema, path) : undefined
        const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`
        lines.push(`${file}: unknown key ${shown(dotted(path))}${hint}`)
      }
    } else {
      const where = issue.path.length === 0 ? 'the file' : shown(dotted(issue.path))
      lines.push(`${file}: ${where}: ${issue.message}`)
    }
  }
  return lines
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
