/**
 * Degrade actions in a turn: what a short budget changes in its calls. The board sends the actions of the run in the turn's payload,
 * with its sequence for calls that the budget does not cover.
 */
import { degradeActionsIn, type DegradeAction, type SpendingAction } from '@bellwether/protocol'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'

/** One action that was taken, with what it changed: a part of the metadata of a step. */
export interface Degraded {
  readonly action: DegradeAction
  readonly [effect: string]: unknown
}

/** Whether the action ends the turn. The other actions change its calls. */
export const endsTurn = (action: SpendingAction) => action === 'manual_handoff' || action === 'stop_run'

export interface TurnDegrade {
  /** Apply from the first call on. */
  readonly now: readonly DegradeAction[]
  /** Apply in this order when the budget does not cover a call. Empty: the turn does not say. */
  readonly sequence: readonly DegradeAction[]
}

export function degradeOf({ payload }: Pick<ClaimedTurn, 'payload'>): TurnDegrade {
  return { now: degradeActionsIn(payload['degrade']), sequence: degradeActionsIn(payload['degrade_policy']) }
}
