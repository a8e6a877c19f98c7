/**
 * Carries out a person's action on an agent (T3.1e): the turn calls the requested tool, waits as after any other call, and delivers the
 * result. The agent's executor does not run; a later turn finds the call, who requested it, and the result if the agent's memory is `box`. The id of
 * the call follows from the turn, so that a takeover cannot call the tool twice.
 */
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { ToolCall } from '../kernel/verbs/turn/suspend.js'
import { askPerson } from '../kernel/pmo-tools.js'
import { peopleHost } from './executors/person/person.js'

export const isUiAction = ({ messageType }: Pick<ClaimedTurn, 'messageType'>): boolean => messageType === 'ui_action'

/** The id of the only call of an action's turn. */
export const actionCallId = (agentTurnId: string): string => `${agentTurnId}-action`

/** The call that the turn of an action waits for. The kernel wrote the payload and has checked that the project has the tool. */
export function actionStep({ agentTurnId, payload }: Pick<ClaimedTurn, 'agentTurnId' | 'payload'>): {
  readonly stepId: string
  readonly calls: readonly [ToolCall]
} {
  const toolName = String(payload['tool_name'])
  const id = actionCallId(agentTurnId)
  return {
    stepId: id,
    calls: [
      {
        toolCallId: id,
        toolName,
        args: payload['args'] ?? {},
        ...(toolName === askPerson ? { hostedBy: peopleHost } : {}),
      },
    ],
  }
}
