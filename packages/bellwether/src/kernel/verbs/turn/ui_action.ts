/**
 * A person's action on an agent: the verb leases the agent and writes the inbox row in one step (T3.1c). The worker that claims the row
 * calls the tool (worker/ui-action.ts). A busy agent, an unknown tool and a reused action id change nothing (T3.1e).
 */
import { token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { payloadMaxBytes, plainText, storable } from '../../content.js'
import { isBuiltInTool } from '../../pmo-tools.js'
import { checkTraceparent } from '../../trace.js'
import { call, type Verdict } from '../../verdict.js'

export interface UiAction {
  readonly projectId: string
  readonly agentId: string
  readonly actionId: string
  readonly toolName: string
  readonly args: unknown
  /** Who requested the action. The agent reads it on the card of the call. */
  readonly requestedBy?: string
  readonly channelId?: string
  readonly traceparent?: string
}

export type RejectedAction = 'unknown_agent' | 'agent_retired' | 'unknown_tool'

export type UiActionVerdict = Verdict<
  'accepted' | 'busy' | 'rejected' | 'duplicate' | 'conflict',
  { readonly reason?: RejectedAction } | null
>

export async function uiAction(db: Queryable, ids: Ids, action: UiAction): Promise<UiActionVerdict[]> {
  const payload = {
    action_id: plainText(action.actionId, 'action_id'),
    tool_name: token(action.toolName, 'tool'),
    args: action.args ?? null,
    requested_by: action.requestedBy === undefined ? undefined : plainText(action.requestedBy, 'requested_by', 200),
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
      traceparent: checkTraceparent(action.traceparent),
      payload,
      built_in: isBuiltInTool(payload.tool_name),
    },
  ])
}
