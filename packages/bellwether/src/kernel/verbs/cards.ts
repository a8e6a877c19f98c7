/** Creates cards and boxes. Cards never change and boxes only grow; a context box is complete when it is created (T5.1). */
import { hasCode } from '@bellwether/base'
import { InvalidInput, type CardType } from '@bellwether/protocol'
import type { CardRow, FieldSpec } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import type { Ids } from '../../ports/ids.js'
import { cardMaxBytes, storable } from '../content.js'

export interface NewCard {
  /** Set by a caller that may have to repeat the write after an in-doubt commit; absent: a new id. */
  readonly cardId?: string
  readonly type: CardType
  readonly role?: string
  readonly content: unknown
  readonly metadata?: Readonly<Record<string, unknown>>
}

export type Card = Readonly<CardRow>

export interface NewBox {
  readonly projectId: string
  /** Boxes whose cards come first, in order: this is how agents share context (T5.2). */
  readonly pack?: readonly string[]
  readonly cardIds?: readonly string[]
  readonly cards?: readonly NewCard[]
}

export type { FieldSpec }

export function cardRow(ids: Ids, card: NewCard): { card_id: string } & Record<string, unknown> {
  storable(card.content, `a ${card.type} card`, cardMaxBytes)
  if (card.metadata !== undefined) storable(card.metadata, `the metadata of a ${card.type} card`, cardMaxBytes)
  const { cardId = ids.next(), ...rest } = card
  return { card_id: cardId, ...rest }
}

export function resultFieldsCard(fields: readonly FieldSpec[]): NewCard {
  const names = fields.map((field) => field.name)
  if (names.length === 0 || names.some((name) => name === '') || new Set(names).size !== names.length) {
    throw new InvalidInput('"result_fields" must be a non-empty list of fields with distinct names', {
      code: 'invalid_result_fields',
    })
  }
  return { type: 'task.result_fields', role: 'user', content: { fields } }
}

/** Creates a context box and returns its id. */
export async function makeBox(db: Queryable, ids: Ids, box: NewBox): Promise<string> {
  const boxId = ids.next()
  const row = {
    project_id: box.projectId,
    box_id: boxId,
    kind: 'context',
    pack: box.pack ?? [],
    card_ids: box.cardIds ?? [],
    cards: (box.cards ?? []).map((card) => cardRow(ids, card)),
  }
  await db
    .query({ name: 'bw_make_boxes', text: 'select state.make_boxes($1::json)', values: [JSON.stringify([row])] })
    .catch(cardProblem)
  return boxId
}

/** Turns the database's error about an unknown card or box, or about the id of another card, into InvalidInput. */
export function cardProblem(error: unknown): never {
  if (hasCode(error, 'BW003')) throw new InvalidInput(error.message, { code: 'unknown_card', cause: error })
  const isTaken = hasCode(error, '23505') && (error as { readonly constraint?: unknown }).constraint === 'cards_pkey'
  if (!isTaken && !hasCode(error, 'BW007')) throw error
  throw new InvalidInput(`Cannot write a card: ${isTaken ? 'its card_id is in use' : error.message}`, {
    code: 'duplicate_card',
    hint: 'omit card_id, or choose a random UUID',
    cause: error,
  })
}
