/** The message about an invalid value in a declaration file: the key, the rule, the value as written, and the remedy. Pure. */
import { valueAt } from '@bellwether/base'
import type { z } from 'zod'

const shownMaxChars = 80

export function invalidValue(key: string, issue: z.core.$ZodIssue, values: unknown): string {
  const value = valueAt(values, issue.path)
  const rule = issue.message
    .replace(/^Invalid input: /, '')
    .replace(/^expected (\S+), received .*$/, 'must be of type $1')
  if (value === undefined) return `"${key}" is missing: ${rule}. Add the key`
  const shown = JSON.stringify(value)?.slice(0, shownMaxChars)
  return `"${key}" is invalid: ${rule} (got ${shown}). Fix the value or remove the key`
}
