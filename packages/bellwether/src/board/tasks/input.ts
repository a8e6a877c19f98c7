/**
 * The shapes of what people and programs may write into a task. Every value is bounded, and an unknown key is an error. The
 * callers of task-commands.ts check their input here, once.
 */
import { InvalidInput } from '@bellwether/protocol'
import { z } from 'zod'

const taskIdPattern = /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/
const line = (max: number) => z.string().trim().min(1).max(max)
const taskId = z.string().regex(taskIdPattern, 'must be 1 to 128 letters, digits and . _ : @ -')
// Wide enough for any numbering scheme; finite, so that tasks can be ordered.
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

const fields = {
  title: line(500),
  instruction: z.string().max(100_000),
  priority: weight,
  impact: weight,
  dependencies: z.array(taskId).max(1_000),
  role: line(128),
  agent: line(128),
  verify: z.array(command).max(50),
  /** Whether a person reviews the task after acceptance. */
  review: z.boolean(),
  requiresApproval: z.boolean(),
}

export const newTaskShape = z
  .strictObject({ ...fields, taskId })
  .partial()
  .required({ title: true })
export type NewTask = z.output<typeof newTaskShape>

/** Fields that can change without a transition. */
export const changeShape = z.strictObject(fields).partial()
export type TaskChange = z.output<typeof changeShape>

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
