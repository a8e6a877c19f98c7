/**
 * Results of tools, answers of people, and actions from a user interface. A result that no turn waits for is acknowledged
 * and changes nothing (T8.2). A question is for a person: no worker's key answers it, and no key answers what its own turn asked.
 */
import { defined } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { listToolNames } from '../../kernel/reads/agents.js'
import { readCallOwner, readQuestions } from '../../kernel/reads/waits.js'
import type { RejectedAction, UiAction } from '../../kernel/verbs/turn/ui_action.js'
import type { Queryable } from '../../ports/database/database.js'
import { nearest } from '../../settings/nearest.js'
import type { Api, KernelParts } from '../api.js'
import { callerName, type Grant } from '../auth.js'
import { mustReachTarget } from '../roles.js'

const unknownCall = (call: string) => new Terminal(`Tool call ${call} does not exist`, { code: 'unknown_tool_call' })

const notAllowed = (message: string, code: string, hint: string) => new Terminal(message, { code, hint })

export function toolCallRoutes(api: Api, { kernel, tail }: KernelParts): void {
  async function mustAnswer(grant: Grant, project: string, call: string): Promise<void> {
    const owner = await readCallOwner(kernel.db, project, call)
    if (owner === undefined) throw unknownCall(call)
    mustReachTarget(grant, owner.worker_target)
    if (grant.role === 'answerer' && !owner.is_question)
      throw notAllowed(
        'This call is not a question to a person',
        'forbidden',
        'a tool host answers it, with a key of role worker',
      )
    if (!owner.is_question) return
    if (grant.role === 'worker')
      throw notAllowed(
        'A worker’s key may not answer a question to a person',
        'forbidden',
        'use a key of role answerer or operator',
      )
    if (owner.key_id === grant.keyId)
      throw notAllowed(
        'This key claimed the turn that asks: it may not answer the question',
        'own_question',
        'answer with another key, and give the worker a key of role worker',
      )
  }

  api('POST /projects/:project/tool-calls/:call/result', async ({ params, body, grant }) => {
    await mustAnswer(grant, params.project, params.call)
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

  api('POST /projects/:project/tool-calls/:call/start', async ({ params, body, grant }) => {
    await mustAnswer(grant, params.project, params.call)
    const started = await kernel.startTool(params.project, params.call, body.host)
    if (started === undefined) throw unknownCall(params.call)
    const { what, ...call } = started
    return { ...call, status: what, tool_call_id: params.call }
  })

  api('GET /projects/:project/questions', async ({ params, query }) => ({
    questions: await readQuestions(kernel.db, params.project, query.limit),
  }))

  api('POST /projects/:project/ui-actions', async ({ params: { project }, body, grant }, reply) => {
    const action = { projectId: project, agentId: body.agent_id, toolName: body.tool_name, actionId: body.action_id }
    const { what, agentTurnId, reason } = await kernel.uiAction({
      ...action,
      args: body.args,
      requestedBy: callerName(grant),
      ...defined({ channelId: body.channel_id }),
    })
    if (what === 'conflict') throw reusedAction(action)
    if (what === 'busy') return { status: what, agent_turn_id: null, error: null }
    if (what === 'rejected') {
      const code = reason ?? 'unknown_agent'
      const message = await rejection(kernel.db, action, code)
      return { status: what, agent_turn_id: null, error: { code, message } }
    }
    tail.wake()
    // A repeated action was accepted before.
    void reply.code(202)
    return { status: 'accepted', agent_turn_id: agentTurnId }
  })
}

type Requested = Pick<UiAction, 'projectId' | 'agentId' | 'toolName' | 'actionId'>

function reusedAction({ actionId, agentId }: Requested): Terminal {
  return new Terminal(`Action id "${actionId}" was used for another action of agent "${agentId}"`, {
    code: 'action_conflict',
    hint: 'use a new action_id for each action; repeat one only with the same tool_name and args',
  })
}

async function rejection(db: Queryable, action: Requested, reason: RejectedAction): Promise<string> {
  const { projectId, agentId, toolName } = action
  if (reason === 'unknown_agent') return `Agent "${agentId}" does not exist in project "${projectId}"`
  if (reason === 'agent_retired') return `Agent "${agentId}" is retired`
  const similar = nearest(toolName, await listToolNames(db, projectId))
  const question = similar === undefined ? '' : `Did you mean "${similar}"? If not, `
  const declare = `PUT /projects/${projectId}/tools/${toolName} declares it`
  return `Project "${projectId}" has no tool "${toolName}". ${question}${declare}`
}
