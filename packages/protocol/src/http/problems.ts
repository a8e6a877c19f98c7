/** The body of every error response: application/problem+json (RFC 9457) with a stable code and a hint. */
import { z } from '../deferred.js'

export const problemType = 'application/problem+json'

export const problem = z.object({
  type: z.string(),
  title: z.string(),
  status: z.number(),
  code: z.string().describe('stable: programs decide by it'),
  detail: z.string().describe('what failed and why, for people'),
  hint: z.string().optional().describe('what to do'),
  missing: z.array(z.string()).readonly().optional().describe('required result fields that a delivery lacks'),
})
export type Problem = z.infer<typeof problem>
