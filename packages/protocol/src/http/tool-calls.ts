/** Tool results, questions to people, and actions from a user interface. */
import { z } from '../deferred.js'
import { afterExecutions, resultStatuses } from '../vocabulary.js'
import { bodyBytes, id, inProject, limit, list, text, time, token, type Route, type Row } from './shapes.js'

const oneCall = inProject.extend({ call: id })

const question = z.object({
  tool_call_id: z.string(),
  agent_id: z.string(),
  agent_turn_id: z.string(),
  arguments: z.unknown(),
  asked_at: time,
  deadline: time.nullable().describe('when the wait ends; null while a timeout is being delivered'),
})

export type Question = z.output<typeof question>
export type QuestionRow = Row<z.input<typeof question>>

export const toolCallRoutes = {
  'POST /projects/:project/tool-calls/:call/result': {
    summary: 'Report the result of a tool call, or answer a question',
    description: 'A repeated or late result is acknowledged with status `ignored` and changes nothing.',
    params: oneCall,
    bodyBytesMax: bodyBytes.large,
    body: z.strictObject({
      status: z.enum(resultStatuses),
      result: z.unknown().optional(),
      error: z
        .union([
          z.strictObject({ code: text(200), message: text(10_000).optional() }),
          text(10_000).transform((message) => ({ code: 'tool_failed', message })),
        ])
        .optional(),
      after_execution: z.enum(afterExecutions).optional(),
    }),
    responses: { 202: z.object({ tool_call_id: z.string(), status: z.string() }) },
  },
  'POST /projects/:project/tool-calls/:call/start': {
    summary: 'Claim a tool call before running it',
    description:
      'One host gets `started`. `unknown`: another host started a call that must not run twice. `waiting`: a person has not allowed the call yet. `gone`: the turn no longer waits for the call.',
    params: oneCall,
    body: z.strictObject({ host: text(200) }),
    responses: {
      200: z.object({
        tool_call_id: z.string(),
        status: z.enum(['started', 'unknown', 'waiting', 'gone']),
        agent_id: z.string(),
        agent_turn_id: z.string(),
        turn_epoch: z.number(),
        tool_name: z.string(),
        arguments: z.unknown(),
        started_by: z.string().nullable(),
      }),
    },
  },
  'GET /projects/:project/questions': {
    summary: 'List questions that wait for a person, oldest first',
    description: 'Answer a question by reporting the result of its tool call.',
    params: inProject,
    query: z.object({ limit: limit(500, 100) }),
    responses: { 200: z.object({ questions: list(question) }) },
  },
  'POST /projects/:project/ui-actions': {
    summary: 'Call a tool on behalf of a person, as an idle agent',
    description:
      'A turn of the agent calls the tool with these arguments, waits for the result and delivers it; the agent’s executor does not run. The tool is one that the project declares, or `delegate`, `fork_join` or `ask_person`. The cards of the turn name the key that requested the action. Repeating the request returns the same turn; the same `action_id` with another tool or other arguments is a conflict (409 `action_conflict`).',
    params: inProject,
    bodyBytesMax: bodyBytes.large,
    body: z.strictObject({
      action_id: id,
      agent_id: token,
      tool_name: token,
      args: z.unknown().optional().describe('the arguments of the tool, an object'),
      channel_id: token.optional(),
    }),
    responses: {
      202: z.object({ status: z.literal('accepted'), agent_turn_id: z.string().nullable() }),
      200: z
        .object({
          status: z.enum(['busy', 'rejected']),
          agent_turn_id: z.null(),
          error: z
            .object({ code: z.enum(['unknown_agent', 'agent_retired', 'unknown_tool']), message: z.string() })
            .nullable()
            .describe('why the action was rejected; null if the agent is busy'),
        })
        .describe('Nothing was written'),
    },
  },
} as const satisfies Record<string, Route>
