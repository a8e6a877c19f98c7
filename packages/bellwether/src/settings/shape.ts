/**
 * Small schemas for the files and log fields that short commands read. They stand in for zod there, because loading zod takes half of
 * the CPU time of `task list`. A shape checks a value, reports every problem with its path, and returns a copy without unknown keys.
 */
import { isObject } from '@bellwether/base'

export interface Issue {
  readonly path: readonly string[]
  readonly message: string
  /** The key at the end of the path is not known. */
  readonly unknownKey?: true
}

type Path = readonly string[]

const invalid = Symbol('invalid')
type Checked<T> = T | typeof invalid

export interface Shape<T> {
  /** Adds to `issues` if the value does not match, and returns `invalid`. */
  readonly check: (value: unknown, path: Path, issues: Issue[]) => Checked<T>
  /** Every valid key below this value, as paths; `*` stands for any name. */
  readonly keys: readonly Path[]
}

export type ValueOf<S> = S extends Shape<infer T> ? T : never

export function parse<T>(
  shape: Shape<T>,
  value: unknown,
): { readonly value: T } | { readonly issues: readonly Issue[] } {
  const issues: Issue[] = []
  const checked = shape.check(value, [], issues)
  return checked === invalid ? { issues } : { value: checked }
}

/** The checked value; undefined if it does not match. */
export function valid<T>(shape: Shape<T>, value: unknown): T | undefined {
  const parsed = parse(shape, value)
  return 'value' in parsed ? parsed.value : undefined
}

function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80))
  return Array.isArray(value) ? 'a list' : 'an object'
}

function failed(path: Path, issues: Issue[], wanted: string, value: unknown): typeof invalid {
  issues.push({ path, message: `must be ${wanted} (got ${shown(value)})` })
  return invalid
}

/** A value that a test accepts. `wanted` completes the sentence "must be …". */
function leaf<T>(wanted: string, accepts: (value: unknown) => value is T): Shape<T> {
  return { check: (value, path, issues) => (accepts(value) ? value : failed(path, issues, wanted, value)), keys: [] }
}

const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)

export const number = (min: number, max = Number.MAX_VALUE): Shape<number> =>
  leaf(
    max === Number.MAX_VALUE ? `a number of at least ${min}` : `a number from ${min} to ${max}`,
    (value): value is number => isNumber(value) && value >= min && value <= max,
  )

export const integer = (min: number, max = Number.MAX_SAFE_INTEGER): Shape<number> =>
  leaf(
    max === Number.MAX_SAFE_INTEGER ? `a whole number of at least ${min}` : `a whole number from ${min} to ${max}`,
    (value): value is number => isNumber(value) && Number.isSafeInteger(value) && value >= min && value <= max,
  )

export const flag: Shape<boolean> = leaf('true or false', (value): value is boolean => typeof value === 'boolean')

export interface TextRule {
  readonly min?: number
  readonly max?: number
  readonly accepts?: (text: string) => boolean
  /** Completes the sentence "must be …". */
  readonly wanted?: string
}

export function text({ min = 0, max = Number.MAX_SAFE_INTEGER, accepts, wanted }: TextRule = {}): Shape<string> {
  const length =
    max === Number.MAX_SAFE_INTEGER ? (min > 0 ? ' that is not empty' : '') : ` of ${min} to ${max} characters`
  return leaf(
    wanted ?? `a text${length}`,
    (value): value is string =>
      typeof value === 'string' && value.length >= min && value.length <= max && (accepts?.(value) ?? true),
  )
}

export const oneOf = <const T extends string | number>(choices: readonly T[]): Shape<T> =>
  leaf(choices.length === 1 ? String(choices[0]) : `one of ${choices.join(', ')}`, (value): value is T =>
    choices.includes(value as T),
  )

export const unknown: Shape<unknown> = { check: (value) => value, keys: [] }

export const nullable = <T>({ check, keys }: Shape<T>): Shape<T | null> => ({
  check: (value, path, issues) => (value === null ? null : check(value, path, issues)),
  keys,
})

export const optional = <T>({ check, keys }: Shape<T>): Shape<T | undefined> => ({
  check: (value, path, issues) => (value === undefined ? undefined : check(value, path, issues)),
  keys,
})

export const withDefault = <T>({ check, keys }: Shape<T>, fallback: T): Shape<T> => ({
  check: (value, path, issues) => (value === undefined ? fallback : check(value, path, issues)),
  keys,
})

/** The first shape that matches. The problems are those of the last. */
export const either = <A, B>(first: Shape<A>, last: Shape<B>): Shape<A | B> => ({
  check: (value, path, issues) => {
    const checked = first.check(value, path, [])
    return checked === invalid ? last.check(value, path, issues) : checked
  },
  keys: last.keys,
})

export const mapped = <T, U>({ check, keys }: Shape<T>, change: (value: T) => U): Shape<U> => ({
  check: (value, path, issues) => {
    const checked = check(value, path, issues)
    return checked === invalid ? invalid : change(checked)
  },
  keys,
})

export const list = <T>(item: Shape<T>, min: number, max: number): Shape<T[]> => ({
  check: (value, path, issues) => {
    if (!Array.isArray(value) || value.length < min || value.length > max)
      return failed(path, issues, `a list of ${min} to ${max} values`, value)
    const items = (value as unknown[]).map((one, index) => item.check(one, [...path, String(index)], issues))
    return items.includes(invalid) ? invalid : (items as T[])
  },
  keys: [],
})

type Fields = Readonly<Record<string, Shape<unknown>>>
type OptionalKeys<F> = { [K in keyof F]: undefined extends ValueOf<F[K]> ? K : never }[keyof F]
type ObjectOf<F> = { [K in Exclude<keyof F, OptionalKeys<F>>]: ValueOf<F[K]> } & {
  [K in OptionalKeys<F>]?: ValueOf<F[K]>
}

export interface ObjectShape<F extends Fields> extends Shape<ObjectOf<F>> {
  readonly fields: F
}

function checkedObject<F extends Fields>(fields: F, isStrict: boolean): ObjectShape<F> {
  const entries = Object.entries(fields)
  return {
    fields,
    keys: entries.flatMap(([key, { keys }]) => [[key], ...keys.map((path) => [key, ...path])]),
    check: (value, path, issues) => {
      if (!isObject(value)) return failed(path, issues, 'an object', value)
      const before = issues.length
      const result: Record<string, unknown> = {}
      for (const [key, { check }] of entries) {
        const isSet = Object.hasOwn(value, key)
        const checked = check(isSet ? value[key] : undefined, [...path, key], issues)
        if (isSet || checked !== undefined) result[key] = checked
      }
      for (const key of isStrict ? Object.keys(value) : [])
        if (!Object.hasOwn(fields, key)) issues.push({ path: [...path, key], message: 'unknown key', unknownKey: true })
      return issues.length > before ? invalid : (result as ObjectOf<F>)
    },
  }
}

/** Other keys are ignored and not copied. */
export const object = <F extends Fields>(fields: F): ObjectShape<F> => checkedObject(fields, false)
/** Other keys are problems. */
export const strictObject = <F extends Fields>(fields: F): ObjectShape<F> => checkedObject(fields, true)

type Partially<F extends Fields> = { readonly [K in keyof F]: Shape<ValueOf<F[K]> | undefined> }

/** The same strict object with every key optional. */
export function partial<F extends Fields>({ fields }: ObjectShape<F>): ObjectShape<Partially<F>> {
  const optionals = Object.fromEntries(Object.entries(fields).map(([key, shape]) => [key, optional(shape)]))
  return strictObject(optionals as Partially<F>)
}

/** An object by name. `nameOf` returns the name for a key, or undefined if it is not valid; two keys with one name are a problem. */
export function record<T>(
  { check, keys }: Shape<T>,
  max: number,
  nameOf: (key: string) => string | undefined = (key) => key,
): Shape<Record<string, T>> {
  return {
    keys: keys.map((path) => ['*', ...path]),
    check: (value, path, issues) => {
      if (!isObject(value)) return failed(path, issues, 'an object', value)
      const before = issues.length
      const entries = new Map<string, Checked<T>>()
      for (const [key, inner] of Object.entries(value)) {
        const at = [...path, key]
        const name = nameOf(key)
        if (name === undefined) issues.push({ path: at, message: 'is not a valid name' })
        else if (entries.has(name)) issues.push({ path: at, message: 'occurs twice, in different case' })
        else entries.set(name, check(inner, at, issues))
      }
      if (entries.size > max) issues.push({ path, message: `must not have more than ${max} names` })
      return issues.length > before ? invalid : (Object.fromEntries(entries) as Record<string, T>)
    },
  }
}
