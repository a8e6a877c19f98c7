/** Quotas: accounts that reached a limit of their provider, and spending limits per calendar day and month. */
import { z } from '../deferred.js'
import { spendingActions } from '../vocabulary.js'
import { list, text, time, type Route } from './shapes.js'

const hold = z.object({
  account: z.string(),
  reason: z.string().describe('the message of the provider or the coding agent'),
  held_since: time,
  until: time.describe('then one turn probes the account'),
  window: z.number().describe('counts the probes: the first window is 1'),
  probing: z.boolean().describe('whether a turn probes the account now'),
  turns: z.number().describe('how many turns wait for the account'),
})
export type Hold = z.output<typeof hold>
export type HoldRow = z.input<typeof hold>

const amounts = z.object({
  used: z.number(),
  reserved: z.number().describe('set aside for calls that run now'),
  limit: z.number().nullable(),
})

const spending = z.object({
  limit: z.string().describe('what it limits, such as `agent coder day`'),
  scope: z.enum(['project', 'agent', 'model']),
  name: z.string().nullable(),
  period: z.enum(['day', 'month']),
  action: z.enum(spendingActions).describe('what happens to a call that the limit does not cover'),
  project_id: z.string().nullable().describe('null: nothing was used in this period'),
  starts_at: time.nullable(),
  ends_at: time.nullable(),
  tokens: amounts,
  cost_micros: amounts,
})
export type Spending = z.output<typeof spending>
export type SpendingRow = z.input<typeof spending>

export const quotaRoutes = {
  'GET /quotas': {
    summary:
      'List accounts that reached a limit of their provider, and what was spent of the limits per day and month. A key of one project sees what concerns it',
    responses: { 200: z.object({ holds: list(hold), limits: list(spending) }) },
  },
  'POST /quotas/lift': {
    summary: 'End the hold of an account: its turns continue at once',
    body: z.strictObject({ account: text(200).min(1) }),
    responses: { 200: z.object({ account: z.string(), status: z.literal('lifted') }) },
  },
} as const satisfies Record<string, Route>
