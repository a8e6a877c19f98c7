/**
 * Reads what a turn knows of earlier turns, as its agent's `memory` setting says (T9.3): nothing, the earlier turns of its session, or the
 * cards in the agent's box. Newest first up to a bound, returned in order. The first read of a turn also records the size, under the
 * turn's fence; turns of agents without memory write nothing.
 */
import type { Memory } from '@bellwether/protocol'
import type { Queryable } from '../../ports/database/database.js'
import type { Fence } from '../verdict.js'
import { ownSession } from './follow-up.js'
import {
  boundedColumns,
  cardBytes,
  cardOf,
  cardsWithin,
  type BoundedCard,
  type BoxBounds,
  type CardsWithin,
} from './cards.js'

export interface MemoryRequest extends Pick<BoxBounds, 'bytesMax' | 'cardsMax'> {
  readonly memory: Exclude<Memory, 'none'>
  /** The session that the caller named. Without one, memory `session` is empty. */
  readonly sessionId: string | null
  /** Only turns that were created before; null: all earlier ones. */
  readonly before: Date | null
  readonly outputBoxId: string | null
}

/** Records the size of what `walk` read, once per turn. */
const noted = (walk: string, memory: MemoryRequest['memory']) => `noted as (
    insert into state.turn_memories (agent_turn_id, memory, cards, bytes, truncated)
    select $3, '${memory}', coalesce(max(w.cards) filter (where w.fits), 0), coalesce(max(w.bytes) filter (where w.fits), 0),
      not bool_and(w.fits)
    from ${walk} w
    having exists (select from state.head($1, $2) h where h.active_agent_turn_id = $3 and h.turn_epoch = $4)
    on conflict do nothing)`

export async function readMemory(db: Queryable, fence: Fence, request: MemoryRequest): Promise<CardsWithin> {
  const { bytesMax, cardsMax } = request
  const { text, name } = request.memory === 'session' ? session : box
  const of = request.memory === 'session' ? request.sessionId : request.outputBoxId
  const { projectId, agentId, agentTurnId, turnEpoch } = fence
  const bounds = [projectId, agentId, agentTurnId, turnEpoch, of, bytesMax, cardsMax]
  const values = request.memory === 'session' ? [...bounds, request.before] : bounds
  return cardsWithin(await db.query<BoundedCard>({ name, text, values }))
}

/** The cards of other turns in the box. */
const box = {
  name: 'bw_read_memory_box',
  text: `with recursive newest (position, card_id, bytes, cards, fits) as (
      select null::bigint, null::text, 0::bigint, 0, true
      union all
      select o.position, o.card_id, n.bytes + o.bytes, n.cards + 1,
        n.cards < $7::int and (n.cards = 0 or n.bytes + o.bytes <= $6::bigint)
      from newest n cross join lateral (
        select x.position, c.card_id, ${cardBytes} as bytes
        from cards.box_cards x join cards.cards c on c.card_id = x.card_id
        where x.box_id = $5::text and x.position < coalesce(n.position, 9223372036854775807)
          and c.metadata ->> 'agent_turn_id' is distinct from $3::text
        order by x.position desc limit 1) o
      where n.fits
    ), ${noted('newest', 'box')}
    select ${boundedColumns('newest')} from newest n cross join lateral ${cardOf('n')} c
    where n.fits order by n.position`,
}

// More turns than a conversation has; a session beyond it loses its beginning.
const turnsMax = 1_000
const typesOfSession = `('task.instruction', 'task.deliverable')`
/** The instructions of a turn, then its deliverable. */
const cardsOfTurn = (turn: string) => `(
    select x.card_id, x.position from cards.box_cards x where x.box_id = ${turn}.context_box_id
    union all select ${turn}.deliverable_card_id, 9223372036854775807)`

const turnColumns = `i.created_at, i.inbox_id, i.payload ->> 'context_box_id' as context_box_id, i.deliverable_card_id`
const isEarlier = `(i.created_at, i.inbox_id) < (e.created_at, e.inbox_id)
  and i.agent_turn_id <> $3::text and i.started_at is not null and i.ended_at is not null
  and ($8::timestamptz is null or i.created_at < $8)`

/** What was asked and what was answered in the earlier turns of the session. */
const session = {
  name: 'bw_read_memory_session',
  text: `with recursive earlier (turns, created_at, inbox_id, context_box_id, deliverable_card_id, bytes, cards, fits) as (
      select 0, 'infinity'::timestamptz, ''::text, null::text, null::text, 0::bigint, 0, true
      union all
      select e.turns + 1, o.created_at, o.inbox_id, o.context_box_id, o.deliverable_card_id, e.bytes + s.bytes,
        e.cards + s.cards, e.turns < ${turnsMax} and e.cards + s.cards <= $7::int
          and (e.turns = 0 or e.bytes + s.bytes <= $6::bigint)
      from earlier e cross join lateral (
        select * from (
          (select ${turnColumns} from state.agent_inbox i
            where i.project_id = $1 and i.agent_id = $2 and i.payload ->> 'session_id' = $5::text and ${isEarlier}
            order by i.created_at desc, i.inbox_id desc limit 1)
          union all
          -- The turn that began the session by being continued.
          select ${turnColumns} from state.turn_row(case when $5 like '${ownSession}%'
            then substr($5, ${ownSession.length + 1}) end) i
          where i.project_id = $1 and i.agent_id = $2 and ${isEarlier}) t
        order by t.created_at desc, t.inbox_id desc limit 1) o
      cross join lateral (
        select coalesce(sum(${cardBytes}), 0)::bigint as bytes, count(*)::int as cards
        from ${cardsOfTurn('o')} k cross join lateral ${cardOf('k')} c
        where c.type in ${typesOfSession}) s
      where e.fits
    ), ${noted('earlier', 'session')}
    select ${boundedColumns('earlier')} from earlier e cross join lateral ${cardsOfTurn('e')} k
    cross join lateral ${cardOf('k')} c
    where e.fits and c.type in ${typesOfSession} order by e.created_at, e.inbox_id, k.position`,
}
