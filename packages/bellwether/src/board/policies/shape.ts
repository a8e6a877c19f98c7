/**
 * The pieces that policy files are described with, and how a value that does not fit is told to people: by file, key, what
 * was expected, and the nearest key that exists. Pure. Reading files is left to load.ts.
 */
import { z } from 'zod'
import { nearest } from '../../settings/nearest.js'

// A century: more is a typing error, and less than what a 53-bit number of milliseconds can hold.
const secondsMax = 100 * 365 * 86_400

export const bounds = {
  count: (min: number, max = 1_000_000_000_000) => z.number().int().min(min).max(max),
  number: (min: number, max: number) => z.number().min(min).max(max),
  seconds: (min: number) => z.number().min(min).max(secondsMax),
}

// Names that every object knows already: as a key they would change what reads them, not say anything.
const reserved = new Set(['__proto__', 'constructor', 'prototype'])
const namePattern = /^[a-z0-9][a-z0-9_.:@/-]{0,127}$/

/** The name of an agent, role or reason: compared without regard to case, as the files were always read. */
export const roleName = z
  .string()
  .transform((text) => text.trim().toLowerCase())
  .refine((text) => namePattern.test(text) && !reserved.has(text), {
    message: 'must be a name of letters, digits and _ . : @ / -, at most 128 long',
  })

/** A table of names; the same name twice, in different case, is an error and no matter of luck. */
export function nameMap<V extends z.ZodType>(value: V) {
  // A thousand names fit into any file that a person keeps.
  const namesMax = 1_000
  return z.record(z.string(), value).transform((table, context) => {
    const entries = new Map<string, z.output<V>>()
    for (const [key, inner] of Object.entries(table)) {
      const name = roleName.safeParse(key)
      if (!name.success) context.addIssue({ code: 'custom', path: [key], message: 'is no name that can be used here' })
      else if (entries.has(name.data))
        context.addIssue({ code: 'custom', path: [key], message: 'is there twice, in different case' })
      else entries.set(name.data, inner as z.output<V>)
    }
    if (entries.size > namesMax)
      context.addIssue({ code: 'custom', message: `must not have more than ${namesMax} names` })
    return Object.fromEntries(entries)
  })
}

const dotted = (path: readonly PropertyKey[]) => path.map(String).join('.')
const shown = (key: string) => (key.length > 80 ? `${key.slice(0, 80)}…` : key)

/** Every key that may be written, dotted; `*` stands for a name. */
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

/** The key that was most likely meant, written with the names that stand in the file. */
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

// A file of a megabyte can hold a hundred thousand wrong keys: only the first ones are worth the search for what was meant.
const searchedMax = 20

/** One line a problem: `file: key: what is wrong`. */
export function problemsOf(file: string, schema: z.ZodType, error: z.ZodError): string[] {
  const lines: string[] = []
  for (const issue of error.issues) {
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) {
        const path = [...issue.path.map(String), key]
        const suggestion = lines.length < searchedMax ? nearestKey(schema, path) : undefined
        const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`
        lines.push(`${file}: there is no key ${shown(dotted(path))}${hint}`)
      }
    } else {
      const where = issue.path.length === 0 ? 'the whole file' : shown(dotted(issue.path))
      lines.push(`${file}: ${where}: ${issue.message}`)
    }
  }
  return lines
}

/** Keys that every object knows already, anywhere in what was read: as a rule nobody writes them by accident. */
export function reservedKeys(file: string, value: unknown, path: readonly string[] = []): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    reserved.has(key)
      ? [`${file}: ${shown(dotted([...path, key]))}: this key must not be used`]
      : reservedKeys(file, inner, [...path, key]),
  )
}
