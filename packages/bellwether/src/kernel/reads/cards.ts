/** Reads cards and boxes, page by page. A read that names a project returns cards of that project only. */
import type { CardType } from '@bellwether/protocol'
import type { BoxPage } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import type { Card } from '../verbs/cards.js'

const columns = 'c.card_id, c.type, c.role, c.content, c.metadata, c.created_at'

// The largest box that a worker reads completely.
const boxCardsMax = 10_000

/** The cards of several boxes, box by box, in order; the newest cards if there are more than the limit. */
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

export async function readCardOf(db: Queryable, projectId: string, cardId: string): Promise<Card | undefined> {
  const [card] = await db.query<Card>({
    name: 'bw_read_card_of',
    text: `select ${columns} from cards.cards c where c.card_id = $1 and c.project_id = $2`,
    values: [cardId, projectId],
  })
  return card
}

// A card may hold 1 MB and a page many cards: one response stays below the size limit of a request.
export const pageBytesMax = 8_388_608

/** In order; a page of large cards ends early. Undefined: the project has no such box. */
export async function readBoxOf(
  db: Queryable,
  projectId: string,
  boxId: string,
  after: number,
  limit: number,
): Promise<BoxPage | undefined> {
  const [box] = await db.query<{ kind: 'context' | 'output' }>({
    name: 'bw_read_box',
    text: 'select kind from cards.boxes where box_id = $1 and project_id = $2',
    values: [boxId, projectId],
  })
  if (box === undefined) return undefined
  const rows = await db.query<BoxPage['cards'][number] & { readonly total: number; readonly before: number }>({
    name: 'bw_read_box_page',
    text: `select * from (
        select x.position, ${columns}, (count(*) over ())::int as total,
          sum(octet_length(c.content::text)) over (order by x.position) - octet_length(c.content::text) as before
        from (select * from cards.box_cards x where x.box_id = $1 and x.position > $2 order by x.position limit $3) x
        join cards.cards c on c.card_id = x.card_id) page
      where before < ${pageBytesMax} order by position`,
    values: [boxId, after, limit],
  })
  const isAll = rows.length === (rows[0]?.total ?? 0) && rows.length < limit
  const cards = rows.map(({ total: _total, before: _before, ...card }) => card)
  return { kind: box.kind, cards, cursor: isAll ? null : cards.at(-1)!.position }
}

export interface CardsWithin {
  readonly cards: readonly Card[]
  /** The size of content and metadata as stored. */
  readonly bytes: number
  /** Older cards were left out. */
  readonly truncated: boolean
}

export interface BoxBounds {
  readonly bytesMax: number
  readonly cardsMax: number
  /** Only cards of these types; null: all cards. */
  readonly types?: readonly CardType[] | null
  /** Only the cards at the end of the box that this active turn wrote; null: the cards of all turns. */
  readonly turn?: string | null
}

/** A row of a read within bounds: a card, and the sums over all its cards. */
export type BoundedCard = Card & { readonly bytes: number; readonly truncated: boolean }

/** The card of a row `walk`: OFFSET 0 keeps the lookup by its key, however few cards the planner believes there to be. */
export const cardOf = (walk: string) => `(select * from cards.cards c where c.card_id = ${walk}.card_id offset 0)`
/** The size of a card `c`, as bounds count it. */
export const cardBytes = 'octet_length(c.content::text) + octet_length(c.metadata::text)'
/** The columns of a BoundedCard, from a walk `walk` that ends with the first row that does not fit. */
export const boundedColumns = (walk: string) =>
  `${columns}, (select max(w.bytes) from ${walk} w where w.fits)::double precision as bytes,
    (select not bool_and(w.fits) from ${walk} w) as truncated`

/**
 * The newest cards of a box that fit into the bounds, in order; always at least the newest card. The database walks back from the
 * newest card and stops at the bound, so that neither side reads the rest of the box.
 */
export async function readBoxWithin(
  db: Queryable,
  boxId: string,
  { bytesMax, cardsMax, types = null, turn = null }: BoxBounds,
): Promise<CardsWithin> {
  // A turn that is cancelled in the queue writes its deliverable while another turn of the agent runs: such a card does not end the
  // walk over the cards of the active turn.
  const rows = await db.query<BoundedCard>({
    name: 'bw_read_box_within',
    text: `with recursive newest (position, card_id, bytes, cards, fits) as (
        select null::bigint, null::text, 0::bigint, 0, true
        union all
        select o.position, o.card_id, n.bytes + o.bytes, n.cards + 1,
          n.cards < $3 and (n.cards = 0 or n.bytes + o.bytes <= $2)
        from newest n cross join lateral (
          select x.position, c.card_id, ${cardBytes} as bytes, coalesce(c.metadata ->> 'agent_turn_id', $5) as turn
          from cards.box_cards x join cards.cards c on c.card_id = x.card_id
          where x.box_id = $1 and x.position < coalesce(n.position, 9223372036854775807)
            and ($4::text[] is null or c.type = any ($4))
            and case when $5::text is null or c.type <> 'task.deliverable' or c.metadata ->> 'status' <> 'canceled'
              then true else not exists (select from state.turn_row(c.metadata ->> 'agent_turn_id') i
                where i.status = 'cancelled') end
          order by x.position desc limit 1) o
        where n.fits and ($5::text is null or o.turn = $5)
      )
      select ${boundedColumns('newest')} from newest n cross join lateral ${cardOf('n')} c
      where n.fits order by n.position`,
    values: [boxId, bytesMax, cardsMax, types, turn],
  })
  return cardsWithin(rows)
}

export function cardsWithin(rows: readonly BoundedCard[]): CardsWithin {
  const { bytes = 0, truncated = false } = rows[0] ?? {}
  const cards = rows.map(({ card_id, type, role, content, metadata, created_at }) => ({
    card_id,
    type,
    role,
    content,
    metadata,
    created_at,
  }))
  return { cards, bytes, truncated }
}
