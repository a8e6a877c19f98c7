/**
 * Checks what people write into the board on the command line. The shapes are in the protocol, where the HTTP contract uses
 * them too. The callers of task-commands.ts check their input once.
 */
import { InvalidInput } from '@bellwether/protocol'
import type { z } from 'zod'

const problemsMax = 10

export function checked<T>(shape: z.ZodType<T>, value: unknown, what: string): T {
  const result = shape.safeParse(value)
  if (result.success) return result.data
  const problems = result.error.issues
    .slice(0, problemsMax)
    .map((issue) => `${issue.path.length === 0 ? what : issue.path.map(String).join('.')}: ${issue.message}`)
  throw invalidTask(what, problems.join('; '))
}

const invalidTask = (what: string, problems: string) =>
  new InvalidInput(`Invalid ${what}: ${problems}`, { code: 'invalid_task', hint: 'Correct every value named above.' })

function textOf(value: string, what: string, max: number): string {
  const text = value.trim()
  if (text.length >= 1 && text.length <= max) return text
  throw invalidTask(what, `${what}: must have 1 to ${max} characters`)
}

/** The actor of a line. */
export function actorName(value: string): string {
  const name = textOf(value, 'actor', 128)
  if (/\p{Cc}/u.test(name)) throw invalidTask('actor', 'actor: must not contain control characters')
  return name
}

export function reasonText(value: string | undefined): string | undefined {
  return value === undefined ? undefined : textOf(value, 'reason', 2_000)
}
