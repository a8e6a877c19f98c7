/**
 * The statement that searches turns by words. It reads the cards of the turns in blocks that may contain the words, newest blocks first, and
 * of the turns that no block contains: those that have not ended, and the last ones that ended. Bounded: of more, the next page reads on.
 */

// Turns that no block contains; above it, or while the PMO catches up, a page of the list is scanned instead.
const openMax = 2_000
// Rows of the outbox between the last block and now: about 20 ms.
const rowsMax = 20_000
// Turns whose cards one page reads at most: about 150 ms.
const openReadMax = 500
const blocksMax = 6
// Blocks whose words one page compares at most: those of about 250,000 turns.
const looksMax = 2_000

/** The words of $10. The last one may be the beginning of a word, unless it stands in parentheses. */
const wanted = `(select case when right(w::text, 1) = '''' then (w::text || ':*')::tsquery else w end
  from websearch_to_tsquery('simple', $10) w)`

/** Whether a card of turn `i` has the words of $10. */
export const hasWords = `exists (
  select from state.turn_contents(i.payload ->> 'context_box_id', i.deliverable_card_id) t
  where state.card_words(t.content) @@ ${wanted})`

/**
 * What a block of many turns must have: the same words, without those that are excluded, and in any order. Null: no word is required, so
 * that every block may match.
 */
const required = `(select nullif(nullif(regexp_replace(querytree(${wanted}), '<(-|[0-9]+)>', '&', 'g'), ''), 'T')::tsquery)`

/** `matches`: the filters of turn `i`. $1 is the project, $3 the cursor, $4 the limit, $13 the lowest id that is searched. */
export const wordSearch = (matches: string) => `with asked as materialized (
    select ${required} as words
  ), ended as materialized (
    select o.kind, o.agent_turn_id from state.word_progress p cross join lateral (
      select o.kind, o.agent_turn_id from state.outbox o where (o.xid, o.event_id) > (p.xid, p.event_id)
      order by o.xid, o.event_id limit ${rowsMax + 1}) o
  ), queued as materialized (
    select q.inbox_id from state.queue q where q.project_id = $1 and q.status = 'queued' limit ${openMax + 1}
  ), state as materialized (
    select a.words, a.words is not null and (select count(*) from ended) <= ${rowsMax}
      and (select count(*) from ended where kind = 'task') <= ${openMax} and (select count(*) from queued) <= ${openMax} as known from asked a
  ), open as materialized (
    select o.id from (
      select agent_turn_id as id from ended where kind = 'task'
      union select i.agent_turn_id from queued q cross join lateral state.inbox_row(q.inbox_id) i
      union select h.active_agent_turn_id from state.agent_state_head h
        where h.awake and h.active_agent_turn_id is not null and h.project_id = $1) o
    where (select known from state) and o.id < $3 and o.id >= $13 order by o.id desc limit ${openReadMax + 1}
  ), crossing as materialized (
    -- The blocks of turns that ran for long: some turns are above the cursor and some below.
    select b.turns from state.word_blocks b
    where (select known from state) and b.project_id = $1 and b.last_turn >= $3 and b.first_turn < $3
      and coalesce(b.words @@ (select words from state), true)
  ), blocks as materialized (
    -- Without an order of its own, so that it stops at the last block that it needs.
    select b.turns, b.last_turn from (
      select b.* from state.word_blocks b where b.project_id = $1 and b.last_turn < $3 and b.last_turn >= $13
      order by b.last_turn desc limit ${looksMax}) b
    where (select known from state) and coalesce(b.words @@ (select words from state), true) limit ${blocksMax + 1}
  ), edge as materialized (
    -- The first turn that this page does not reach.
    select greatest((select id from open order by id desc offset ${openReadMax}),
      (select last_turn from blocks order by last_turn desc offset ${blocksMax}),
      (select b.last_turn from state.word_blocks b where b.project_id = $1 and b.last_turn < $3 and b.last_turn >= $13
        order by b.last_turn desc offset ${looksMax} limit 1)) as id
  ), near as materialized (
    select n.id from (select id from open union select t from blocks cross join lateral unnest(turns) t
      union select t from crossing cross join lateral unnest(turns) t) n
    where n.id < $3 and n.id >= $13 and n.id > coalesce((select id from edge), '')
  ), page as (
    -- Sorted first, so that it stops when the page is full.
    select n.id from (select id from near order by id desc offset 0) n
    cross join lateral (select * from state.turn_row(n.id) offset 0) i
    where i.project_id = $1 and ($2::text is null or i.agent_id = $2) and ($5::text is null or i.outcome = $5)
      and ${matches}
    order by n.id desc limit $4
  )
  select s.known, (select id || '0' from edge) as edge,
    null::timestamptz as edge_at, t.*
  from state s left join page p on true
  left join lateral (select * from state.turns t where t.agent_turn_id = p.id) t on true
  order by t.agent_turn_id desc`
