/**
 * The result of a command as a card, written before the turn is delivered. A worker that takes over finds the card and delivers it
 * without running the command again. Pure.
 */
import { defined } from '@bellwether/base'
import type { Card, NewCard } from '../../kernel/verbs/cards.js'
import type { ClaimedTurn } from '../../kernel/verbs/turn/claim.js'
import type { Fence } from '../../kernel/verdict.js'
import type { TurnAction } from '../agent.js'

export type Delivered = Extract<TurnAction, { readonly deliver: unknown }>

/** The metadata key of such a card. */
export const resultMark = 'command_result'

export function resultCard({ deliver, status = 'success', error }: Delivered, turn: Fence): NewCard {
  const mark = { status, ...defined({ error }) }
  return { type: 'agent.thought', content: deliver, metadata: { agent_turn_id: turn.agentTurnId, [resultMark]: mark } }
}

/** The result that a lost worker stored, or that a fork began with. */
export const earlierResult = ({ takenOver, payload }: ClaimedTurn, output: readonly Card[]) =>
  takenOver || payload['forked_from'] !== undefined ? storedResult(output) : undefined

/** `output`: the cards of this turn. */
export function storedResult(output: readonly Card[]): Delivered | undefined {
  const card = output.findLast(({ metadata }) => metadata[resultMark] !== undefined)
  if (card === undefined) return undefined
  return { deliver: card.content as Delivered['deliver'], ...(card.metadata[resultMark] as Pick<Delivered, 'status'>) }
}
