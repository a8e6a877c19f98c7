/** Tools for people who decide: list the calls that wait for approval, and allow or deny one. */
import { defined } from '@bellwether/base'
import { approvalScopes, Terminal } from '@bellwether/protocol'
import { z } from 'zod'
import { fitting, resultChars, shownJson } from './bounded.js'
import { tool, type Tool } from './tool.js'

// With the rest of its line, a call of this length is shown in full.
const argumentsMax = resultChars / 2
// As many as the server lists.
const listMax = 500
const isShown = (args: unknown) => shownJson(args).length <= argumentsMax
const notShown = 'too long to show here; the dashboard and `bellwether approvals` show it in full'

export const approvalTools: readonly Tool[] = [
  tool({
    name: 'list_approvals',
    title: 'List approvals',
    description:
      'Lists the calls of agents that wait until a person allows or denies them, oldest first, with the exact arguments and the deadline, after which a call is denied.',
    readOnly: true,
    input: z.strictObject({ limit: z.number().int().min(1).max(listMax).default(50) }),
    run: async (query, { client, signal }) => {
      const { approvals } = await client.ask('GET /projects/:project/approvals', { query, signal })
      const { shown, left } = fitting(
        approvals.map((one) => ({
          approval: one.approval_id,
          agent: one.agent_id,
          turn: one.agent_turn_id,
          tool: one.tool_name,
          arguments: isShown(one.arguments) ? one.arguments : notShown,
          asked_at: one.asked_at,
          decide_by: one.deadline,
        })),
        resultChars,
        (one) => one,
      )
      const more = left > 0 ? ` ${left} more did not fit: use a smaller limit, or decide about these first.` : ''
      return {
        summary: shown.length === 0 ? 'No call waits for approval.' : `${shown.length} calls.${more}`,
        data: shown,
      }
    },
  }),
  tool({
    name: 'decide_approval',
    title: 'Allow or deny a call',
    description:
      'Allows or denies a call that waits for a person. Decide only what the person you speak for has decided about exactly this call: it counts as their decision.',
    readOnly: false,
    input: z.strictObject({
      approval: z.string().min(1).max(500).describe('the id, from list_approvals'),
      decision: z.enum(['allow', 'deny']),
      for: z
        .enum(approvalScopes)
        .default('once')
        .describe('with allow: this call, or equal calls of its turn or its agent'),
      any_arguments: z
        .array(z.string().min(1).max(200))
        .max(50)
        .optional()
        .describe('with turn or agent: the arguments that may have any value'),
      reason: z.string().min(1).max(2_000).optional().describe('with deny: the agent reads it'),
    }),
    run: async ({ approval, decision, for: scope, any_arguments, reason }, { client, signal }) => {
      if (decision === 'allow') {
        const { approvals } = await client.ask('GET /projects/:project/approvals', {
          query: { limit: listMax },
          signal,
        })
        const found = approvals.find((one) => one.approval_id === approval)
        if (found !== undefined && !isShown(found.arguments))
          throw new Terminal(`Cannot allow call ${approval} here: its arguments are ${notShown}`, {
            code: 'call_not_shown',
            hint: 'allow it there, or deny it',
          })
      }
      const { status } = await client.ask('POST /projects/:project/approvals/:approval/decision', {
        params: { approval },
        body:
          decision === 'allow'
            ? { decision, for: scope, ...defined({ any_arguments }) }
            : { decision, ...defined({ reason }) },
        signal,
      })
      return { summary: status === 'allowed' ? 'Allowed.' : 'Denied.' }
    },
  }),
]
