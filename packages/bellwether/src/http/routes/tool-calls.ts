/**
 * Results of tools, answers of people, and actions from a user interface. A result that no turn waits for is acknowledged
 * and changes nothing (T8.2).
 */
import { defined } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { readQuestions } from '../../kernel/reads/waits.js'
import type { Api, KernelParts } from '../api.js'

const unknownCall = (call: string) => new Terminal(`Tool call ${call} does not exist`, { code: 'unknown_tool_call' })

export function toolCallRoutes(api: Api, { kernel, tail }: KernelParts): void {
  api('POST /projects/:project/tool-calls/:call/result', async ({ params, body }) => {
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
    if (result === undefined || result === 'unknown_tool_call') throw unknownCall(params.call)
    tail.wake()
    return { tool_call_id: params.call, status: result }
  })

  api('POST /projects/:project/tool-calls/:call/start', async ({ params, body }) => {
    const started = await kernel.startTool(params.project, params.call, body.host)
    if (started === undefined) throw unknownCall(params.call)
    const { what, ...call } = started
    return { ...call, status: what, tool_call_id: params.call }
  })

  api('GET /projects/:project/questions', async ({ params, query }) => ({
    questions: await readQuestions(kernel.db, params.project, query.limit),
  }))

  api('POST /projects/:project/ui-actions', async ({ params, body }, reply) => {
    const { what, agentTurnId } = await kernel.uiAction({
      projectId: params.project,
      agentId: body.agent_id,
      actionId: body.action_id,
      toolName: body.tool_name,
      args: body.args,
      ...defined({ channelId: body.channel_id }),
    })
    tail.wake()
    if (what === 'busy' || what === 'rejected') return { status: what, agent_turn_id: agentTurnId }
    // A repeated action was accepted before.
    void reply.code(202)
    return { status: 'accepted', agent_turn_id: agentTurnId }
  })
}
