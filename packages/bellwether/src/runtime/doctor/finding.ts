/** What a check of `doctor` returns. */
import { hasCode } from '@bellwether/base'

export interface Finding {
  readonly check: string
  readonly state: 'good' | 'warning' | 'bad'
  readonly found: string
  /** What to do about it. */
  readonly fix?: string
}

export type Found = Omit<Finding, 'check'>

export const good = (found: string) => ({ state: 'good', found }) as const
export const warning = (found: string, fix: string) => ({ state: 'warning', found, fix }) as const
export const bad = (found: string, fix: string) => ({ state: 'bad', found, fix }) as const

/** Maps ENOENT to undefined. */
export function absent(error: unknown): undefined {
  if (hasCode(error, 'ENOENT')) return undefined
  throw error
}
