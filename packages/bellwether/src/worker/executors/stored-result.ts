/**
 * The result of a command as a card of its own, written before the turn is delivered: a worker that takes over from there delivers
 * it, and runs nothing a second time. Pure.
 */
import type { Card, NewCard } from '../../kernel/verbs/cards.js'
import type { Fence } from '../../kernel/verdict.js'
import type { TurnAction } from '../agent.js'

export type Delivered = Extract<TurnAction, { readonly deliver: unknown }>

/** In the metadata of such a card. */
export const resultMark = 'command_result'

export function resultCard({ deliver, status = 'success', error }: Delivered, turn: Fence): NewCard {
  const mark = { status, ...(error === undefined ? {} : { error }) }
  return { type: 'agent.thought', content: deliver, metadata: { agent_turn_id: turn.agentTurnId, [resultMark]: mark } }
}

export function keptResult(output: readonly Card[], turn: Fence): Delivered | undefined {
  const card = output.findLast(
    ({ metadata }) => metadata['agent_turn_id'] === turn.agentTurnId && metadata[resultMark] !== undefined,
  )
  if (card === undefined) return undefined
  return { deliver: card.content as Delivered['deliver'], ...(card.metadata[resultMark] as Pick<Delivered, 'status'>) }
}
