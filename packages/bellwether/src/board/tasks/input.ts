/**
 * What people and programs may say about a task, checked before it becomes a line. Always: bounded, finite, and without a
 * key that nobody reads; a mistake is told with its key. Whether the board lets it happen is left to hands.ts.
 */
import { InvalidInput } from '@bellwether/protocol'
import { z } from 'zod'

const taskIdPattern = /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/
const line = (max: number) => z.string().trim().min(1).max(max)
const taskId = z.string().regex(taskIdPattern, 'must be letters, digits and . _ : @ -, at most 128')
// Wide enough for every scheme of numbering; finite, so that tasks can be ordered.
const weight = z.number().min(-1_000_000).max(1_000_000)
const command = z.union([
  line(8_192),
  z.array(z.string().max(8_192)).min(1).max(256),
  z.strictObject({
    command: z.union([line(8_192), z.array(z.string().max(8_192)).min(1).max(256)]),
    timeoutSec: z.number().min(0.1).max(86_400).optional(),
    cwd: line(4_096).optional(),
  }),
])

const words = {
  title: line(500),
  instruction: z.string().max(100_000),
  priority: weight,
  impact: weight,
  dependencies: z.array(taskId).max(1_000),
  role: line(128),
  agent: line(128),
  verify: z.array(command).max(50),
  /** After acceptance a person still looks. */
  review: z.boolean(),
  requiresApproval: z.boolean(),
}

export const newTaskShape = z
  .strictObject({ ...words, taskId })
  .partial()
  .required({ title: true })
export type NewTask = z.output<typeof newTaskShape>

/** What may be changed while a task stands; moves have verbs of their own. */
export const changeShape = z.strictObject(words).partial()
export type TaskChange = z.output<typeof changeShape>

const problemsMax = 10

export function checked<T>(shape: z.ZodType<T>, value: unknown, what: string): T {
  const result = shape.safeParse(value)
  if (result.success) return result.data
  const problems = result.error.issues
    .slice(0, problemsMax)
    .map((issue) => `${issue.path.length === 0 ? what : issue.path.map(String).join('.')}: ${issue.message}`)
  throw new InvalidInput(`${what} is not as it must be: ${problems.join('; ')}`, { code: 'invalid_task' })
}

const nameShape = z
  .string()
  .trim()
  .min(1)
  .max(128)
  .regex(/^[^\p{Cc}]+$/u, 'must not hold control characters')

/** Who signs a line. */
export function actorName(value: string): string {
  return checked(nameShape, value, 'the actor')
}

const reasonShape = z.string().trim().min(1).max(2_000)

export function reasonText(value: string | undefined): string | undefined {
  return value === undefined ? undefined : checked(reasonShape, value, 'the reason')
}
