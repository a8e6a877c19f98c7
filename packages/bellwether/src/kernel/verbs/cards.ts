/** Cards and boxes: insert-only, append-only. A context box is made whole and never written again (T5.1). */
import { InvalidInput, type CardType } from '@bellwether/protocol'
import type { Queryable } from '../../ports/database/database.js'
import type { Ids } from '../../ports/ids.js'
import { cardMaxBytes, storable } from '../content.js'

export interface NewCard {
  /** Given by whoever may have to write the same card again after an in-doubt commit; absent: a new one. */
  readonly cardId?: string
  readonly type: CardType
  readonly role?: string
  readonly content: unknown
  readonly metadata?: Readonly<Record<string, unknown>>
}

export interface Card {
  readonly card_id: string
  readonly type: CardType
  readonly role: string
  readonly content: unknown
  readonly metadata: Readonly<Record<string, unknown>>
  readonly created_at: Date
}

export interface NewBox {
  readonly projectId: string
  /** Boxes whose cards come first, in order: this is how context is shared between agents (T5.2). */
  readonly pack?: readonly string[]
  readonly cardIds?: readonly string[]
  readonly cards?: readonly NewCard[]
}

export interface FieldSpec {
  readonly name: string
  readonly description?: string
  readonly required?: boolean
  readonly type?: string
}

// The largest box that a worker reads whole.
const boxCardsMax = 10_000

export function cardRow(ids: Ids, card: NewCard): { card_id: string } & Record<string, unknown> {
  storable(card.content, `a ${card.type} card`, cardMaxBytes)
  if (card.metadata !== undefined) storable(card.metadata, `the metadata of a ${card.type} card`, cardMaxBytes)
  const { cardId = ids.next(), ...rest } = card
  return { card_id: cardId, ...rest }
}

export function resultFieldsCard(fields: readonly FieldSpec[]): NewCard {
  const names = fields.map((field) => field.name)
  if (names.length === 0 || names.some((name) => name === '') || new Set(names).size !== names.length) {
    throw new InvalidInput('result_fields must be a list of fields with distinct names', {
      code: 'invalid_result_fields',
    })
  }
  return { type: 'task.result_fields', role: 'user', content: { fields } }
}

/** Makes a context box and answers its id. */
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
    .catch(unknownCard)
  return boxId
}

/** Says of a card or box that is not there what it is: the caller's mistake. */
export function unknownCard(error: unknown): never {
  if (error instanceof Error && 'code' in error && error.code === 'BW003') {
    throw new InvalidInput(error.message, { code: 'unknown_card', cause: error })
  }
  throw error
}

/** The cards of boxes, in order, a box after the other; of very long ones the newest. */
export async function readBoxes(db: Queryable, boxIds: readonly (string | null)[]): Promise<Card[]> {
  return db.query<Card>({
    name: 'bw_read_boxes',
    text: `select card_id, type, role, content, metadata, created_at from (
        select c.*, b.ord, x.position from unnest($1::text[]) with ordinality as b (box_id, ord)
        join cards.box_cards x on x.box_id = b.box_id join cards.cards c on c.card_id = x.card_id
        order by b.ord desc, x.position desc limit ${boxCardsMax}) newest
      order by ord, position`,
    values: [boxIds],
  })
}

export async function readCard(db: Queryable, cardId: string): Promise<Card | undefined> {
  const [card] = await db.query<Card>({
    name: 'bw_read_card',
    text: 'select card_id, type, role, content, metadata, created_at from cards.cards where card_id = $1',
    values: [cardId],
  })
  return card
}
