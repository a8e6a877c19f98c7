/** Compaction: a running turn continues with a new output box; the old box stays unchanged (T5.4). A lost fence writes nothing. */
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { cardRow, cardProblem, type NewCard } from '../cards.js'
import { call, fenceRow, type Fence, type Verdict } from '../../verdict.js'

export interface BoxSwap extends Fence {
  /** Cards of the turn's own boxes to keep, in order. */
  readonly cardIds?: readonly string[]
  /** New cards after them, for example a summary of the rest. */
  readonly cards?: readonly NewCard[]
}

/** Returns the id of the new box. */
export async function swapBox(db: Queryable, ids: Ids, swap: BoxSwap): Promise<{ readonly boxId: string } | 'stale'> {
  const boxId = ids.next()
  const row = {
    ...fenceRow(swap),
    box_id: boxId,
    card_ids: swap.cardIds ?? [],
    cards: (swap.cards ?? []).map((card) => cardRow(ids, card)),
  }
  const [verdict] = await call<Verdict<'swapped' | 'stale'>>(db, 'swap_box', [row]).catch(cardProblem)
  return verdict?.what === 'swapped' ? { boxId } : 'stale'
}
