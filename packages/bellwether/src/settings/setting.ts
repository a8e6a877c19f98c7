/** The kinds of settings, each with its bounds. schema.ts lists the settings themselves. */

export const daySeconds = 86_400
export const longestSeconds = 365 * daySeconds

interface Bounds {
  readonly min?: number
  readonly max?: number
}

/** One setting. `min` and `max` bound a number, or the length of a string. */
export interface Setting<T> {
  readonly type: 'number' | 'integer' | 'boolean' | 'string'
  /** Undefined if the setting is optional. */
  readonly default: T
  readonly min?: number
  readonly max?: number
  readonly choices?: readonly string[]
  readonly description: string
}

/** A duration. Fractions are allowed, because tests use short timings. */
export function seconds(fallback: number, description: string, { min = 0.01, max = 7 * daySeconds }: Bounds = {}) {
  return { type: 'number', default: fallback, min, max, description } satisfies Setting<number>
}

export function count(fallback: number, description: string, { min = 1, max = 1_000_000 }: Bounds = {}) {
  return { type: 'integer', default: fallback, min, max, description } satisfies Setting<number>
}

export function text<T extends string | undefined>(
  fallback: T,
  description: string,
  { min = 1, max = 4_096 }: Bounds = {},
) {
  return { type: 'string', default: fallback, min, max, description } satisfies Setting<T>
}

export const optionalText = (description: string) => text<string | undefined>(undefined, description)

/** Names, checked by the part that uses them. */
export const names = (description: string) => text<string>('', description, { min: 0 })

export function flag(fallback: boolean, description: string) {
  return { type: 'boolean', default: fallback, description } satisfies Setting<boolean>
}

/** The same setting without a default. */
export function optional<T>(setting: Setting<T>): Setting<T | undefined> {
  return { ...setting, default: undefined }
}
