/** A person's action on an agent: the verb leases the agent and writes the inbox row in one step; a busy agent is left unchanged (T3.1c). */
import { token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { payloadMaxBytes, plainText, storable } from '../../content.js'
import { traceparentOf } from '../../trace.js'
import { call, type Verdict } from '../../verdict.js'

export interface UiAction {
  readonly projectId: string
  readonly agentId: string
  readonly actionId: string
  readonly toolName: string
  readonly args: unknown
  readonly channelId?: string
  readonly traceparent?: string
}

export type UiActionVerdict = Verdict<'accepted' | 'busy' | 'rejected' | 'duplicate'>

export async function uiAction(db: Queryable, ids: Ids, action: UiAction): Promise<UiActionVerdict[]> {
  const payload = {
    action_id: plainText(action.actionId, 'action_id'),
    tool_name: plainText(action.toolName, 'tool_name'),
    args: action.args ?? null,
  }
  storable(payload, 'the action', payloadMaxBytes)
  const agentTurnId = ids.next()
  return call(db, 'ui_action', [
    {
      inbox_id: ids.next(),
      agent_turn_id: agentTurnId,
      project_id: token(action.projectId, 'project'),
      agent_id: token(action.agentId, 'agent'),
      action_id: action.actionId,
      channel_id: action.channelId === undefined ? undefined : token(action.channelId, 'channel'),
      traceparent: traceparentOf(agentTurnId, action.traceparent),
      payload,
    },
  ])
}
