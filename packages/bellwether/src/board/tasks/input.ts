/**
 * Checks what people write into the board on the command line. The shapes are in the protocol, where the HTTP contract uses
 * them too. The callers of task-commands.ts check their input once.
 */
import { InvalidInput } from '@bellwether/protocol'
import { z } from 'zod'

const problemsMax = 10

export function checked<T>(shape: z.ZodType<T>, value: unknown, what: string): T {
  const result = shape.safeParse(value)
  if (result.success) return result.data
  const problems = result.error.issues
    .slice(0, problemsMax)
    .map((issue) => `${issue.path.length === 0 ? what : issue.path.map(String).join('.')}: ${issue.message}`)
  throw new InvalidInput(`Invalid ${what}: ${problems.join('; ')}`, {
    code: 'invalid_task',
    hint: 'Correct every value named above.',
  })
}

const nameShape = z
  .string()
  .trim()
  .min(1)
  .max(128)
  .regex(/^[^\p{Cc}]+$/u, 'must not contain control characters')

/** The actor of a line. */
export function actorName(value: string): string {
  return checked(nameShape, value, 'actor')
}

const reasonShape = z.string().trim().min(1).max(2_000)

export function reasonText(value: string | undefined): string | undefined {
  return value === undefined ? undefined : checked(reasonShape, value, 'reason')
}
