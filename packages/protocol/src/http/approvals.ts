/** Approvals: calls that wait until a person allows or denies them, and what people allowed beyond one call. */
import { z } from '../deferred.js'
import { approvalScopes, approvalStatuses } from '../vocabulary.js'
import { id, inProject, limit, list, record, text, time, type Route, type Row } from './shapes.js'

const approval = z.object({
  approval_id: z.string(),
  agent_id: z.string(),
  agent_turn_id: z.string(),
  tool_call_id: z.string().nullable().describe('null if a program that the turn runs asks'),
  tool_name: z.string(),
  arguments: record.describe('exactly what runs if it is allowed'),
  asked_at: time,
  deadline: time.describe('if no one decides before then, the call is denied'),
  status: z.enum(approvalStatuses),
  scope: z.enum(approvalScopes).nullable(),
  decided_by: z.string().nullable(),
  decided_at: time.nullable(),
  reason: z.string().nullable(),
  may_have_run: z
    .boolean()
    .describe(
      'an equal call of the turn was allowed, and its worker was lost before the program ended: it may have run',
    ),
})
export type Approval = z.output<typeof approval>
export type ApprovalRow = Row<z.input<typeof approval>>

const grant = z.object({
  grant_id: z.string(),
  agent_id: z.string(),
  agent_turn_id: z.string().nullable().describe('null: for every turn of the agent'),
  tool_name: z.string(),
  arguments: record.describe('the arguments that must be equal'),
  any_arguments: z.array(z.string()).describe('the arguments that may have any value'),
  granted_by: z.string(),
  granted_at: time,
  uses: z.number(),
  last_used_at: time.nullable(),
})
export type ApprovalGrant = z.output<typeof grant>
export type GrantRow = Row<z.input<typeof grant>>

export const approvalRoutes = {
  'GET /projects/:project/approvals': {
    summary: 'List calls that wait for a person, oldest first',
    description: '`show=all` includes decided calls, newest first, with who decided.',
    params: inProject,
    query: z.object({ show: z.enum(['waiting', 'all']).default('waiting'), limit: limit(500, 100) }),
    responses: { 200: z.object({ approvals: list(approval) }) },
  },
  'POST /projects/:project/approvals/:approval/decision': {
    summary: 'Allow or deny a call that waits',
    description:
      'One decision counts. A second one is refused with 409 `already_decided`, a late one with 409 `approval_expired`, one for a turn that is over with 409 `approval_ended`; they change nothing.',
    params: inProject.extend({ approval: id }),
    body: z.union([
      z.strictObject({
        decision: z.literal('allow'),
        for: z
          .enum(approvalScopes)
          .default('once')
          .describe('this call, equal calls of this turn, or equal calls of this agent until the grant is revoked'),
        any_arguments: z
          .array(text(200))
          .max(50)
          .optional()
          .describe('with `turn` or `agent`: the arguments that may have any value. Default: none'),
      }),
      z.strictObject({ decision: z.literal('deny'), reason: text(2_000).optional().describe('the agent reads it') }),
    ]),
    responses: { 200: z.object({ approval_id: z.string(), status: z.enum(['allowed', 'denied']) }) },
  },
  'GET /projects/:project/grants': {
    summary: 'List what people allowed for a turn or an agent, newest first',
    params: inProject,
    query: z.object({ limit: limit(1_000, 500) }),
    responses: { 200: z.object({ grants: list(grant) }) },
  },
  'DELETE /projects/:project/grants/:grant': {
    summary: 'Revoke a grant: equal calls wait for a person again',
    params: inProject.extend({ grant: id }),
    responses: { 200: z.object({ grant_id: z.string() }) },
  },
} as const satisfies Record<string, Route>
