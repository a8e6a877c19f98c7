/**
 * What comes back to turns that wait: results of tools, answers of people, actions from a user's screen. Always: a result that
 * nobody waits for any more is acknowledged and changes nothing (T8.2).
 */
import { afterExecutions, resultStatuses, Terminal } from '@bellwether/protocol'
import { z } from 'zod'
import { readQuestions } from '../../kernel/reads/waits.js'
import { id, inProject, limitOf, text, token, type Api, type KernelParts } from '../api.js'
import { defined } from '@bellwether/base'

const resultBody = z.strictObject({
  status: z.enum(resultStatuses),
  result: z.unknown().optional(),
  error: z
    .union([
      z.strictObject({ code: text(200), message: text(10_000).optional() }),
      text(10_000).transform((message) => ({ code: 'tool_failed', message })),
    ])
    .optional(),
  after_execution: z.enum(afterExecutions).optional(),
})
const actionBody = z.strictObject({
  action_id: id,
  agent_id: token,
  tool_name: text(200),
  args: z.unknown().optional(),
  channel_id: token.optional(),
})
const oneCall = inProject.extend({ call: id })
const unknownCall = (call: string) => new Terminal(`there is no tool call ${call}`, { code: 'unknown_tool_call' })

export function toolCallRoutes(app: Api, { kernel, tail }: KernelParts): void {
  const report = {
    params: oneCall,
    body: resultBody,
    summary: 'The result of a tool call, or the answer to a question',
    description: 'Repeated, late or unwanted results are acknowledged as `ignored` and change nothing.',
  }
  app.post('/projects/:project/tool-calls/:call/result', { schema: report }, async ({ params, body }, reply) => {
    const [result] = await kernel.report([
      {
        projectId: params.project,
        toolCallId: params.call,
        status: body.status,
        ...defined({
          result: body.result,
          error: body.error && { ...defined(body.error), code: body.error.code },
          afterExecution: body.after_execution,
        }),
      },
    ])
    if (result === 'unknown_tool_call') throw unknownCall(params.call)
    tail.wake()
    return reply.code(202).send({ tool_call_id: params.call, status: result })
  })

  const start = {
    params: oneCall,
    body: z.strictObject({ host: text(200) }),
    summary: 'A tool host takes a call before it acts',
    description:
      'One host is told `started`. `unknown`: another host started a call that must not run twice. `gone`: nobody waits any more.',
  }
  app.post('/projects/:project/tool-calls/:call/start', { schema: start }, async ({ params, body }) => {
    const started = await kernel.startTool(params.project, params.call, body.host)
    if (started === undefined) throw unknownCall(params.call)
    const { what, ...facts } = started
    return { ...facts, status: what, tool_call_id: params.call }
  })

  const questions = {
    params: inProject,
    querystring: z.object({ limit: limitOf(500, 100) }),
    summary: 'What agents ask people, with deadlines; answered as the result of the tool call',
  }
  app.get('/projects/:project/questions', { schema: questions }, async ({ params, query }) => ({
    questions: await readQuestions(kernel.db, params.project, query.limit),
  }))

  const act = { params: inProject, body: actionBody, summary: 'A person’s action on an agent that is at rest' }
  app.post('/projects/:project/ui-actions', { schema: act }, async ({ params, body }, reply) => {
    const { what, agentTurnId } = await kernel.uiAction({
      projectId: params.project,
      agentId: body.agent_id,
      actionId: body.action_id,
      toolName: body.tool_name,
      args: body.args,
      ...defined({ channelId: body.channel_id }),
    })
    tail.wake()
    // The same action again was accepted before.
    const status = what === 'duplicate' ? 'accepted' : what
    return reply.code(status === 'accepted' ? 202 : 200).send({ status, agent_turn_id: agentTurnId })
  })
}
