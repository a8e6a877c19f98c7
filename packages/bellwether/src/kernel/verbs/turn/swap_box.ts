/** Compaction: a running turn goes on with a new output box; the old one stays as it was (T5.4). A lost fence writes nothing. */
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { cardRow, unknownCard, type NewCard } from '../cards.js'
import { call, fenceRow, type Fence } from '../../verdict.js'

export interface BoxSwap extends Fence {
  /** Cards of the turn's own boxes that it keeps, in order. */
  readonly cardIds?: readonly string[]
  /** What follows them: a summary of the rest, for example. */
  readonly cards?: readonly NewCard[]
}

/** The new box's id, or `stale`. */
export async function swapBox(db: Queryable, ids: Ids, swap: BoxSwap): Promise<{ readonly boxId: string } | 'stale'> {
  const boxId = ids.next()
  const row = {
    ...fenceRow(swap),
    box_id: boxId,
    card_ids: swap.cardIds ?? [],
    cards: (swap.cards ?? []).map((card) => cardRow(ids, card)),
  }
  const [verdict] = await call(db, 'swap_box', [row]).catch(unknownCard)
  return verdict?.what === 'swapped' ? { boxId } : 'stale'
}
