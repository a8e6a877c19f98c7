/**
 * Stores a turn that ran elsewhere: its cards, steps, waits, receipts and transcript, with their ids and times, in one transaction. The turn has
 * ended, so nothing leases, claims or announces it. An id that the database has already makes the whole import fail.
 */
import { defined } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { Trail } from '@bellwether/protocol/http'
import type { Database, Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { cardMaxBytes, payloadMaxBytes, storable } from '../../content.js'

export interface TurnImport {
  readonly projectId: string
  readonly trail: Trail
  readonly importedBy: string
}

// A box of its own: the box that the document names may be the memory of an agent that lives here.
const boxPrefix = 'import-'
const importedBox = (id: string | null) => (id === null || id.startsWith(boxPrefix) ? id : `${boxPrefix}${id}`)

// Never served by a worker; an ended row is not claimed anyway.
const importedTarget = 'imported'

/** Throws Terminal `turn_exists`, and InvalidInput if PostgreSQL cannot store a value. Nothing is written then. */
export async function importTurn(db: Database, ids: Ids, { projectId, trail, importedBy }: TurnImport): Promise<void> {
  const turn = { ...trail.turn, output_box_id: importedBox(trail.turn.output_box_id) }
  for (const { content, metadata } of [...trail.context, ...trail.cards, ...trail.compacted]) {
    storable(content, 'a card of the trail', cardMaxBytes)
    storable(metadata, 'the metadata of a card of the trail', cardMaxBytes)
  }
  for (const { metadata } of trail.steps) storable(metadata, 'the metadata of a step of the trail', payloadMaxBytes)
  for (const { content } of trail.transcript) storable(content, 'the transcript of the trail', cardMaxBytes)
  const contextBoxId = ids.next()
  const { context_box_id: _c, output_box_id: _o, budget_id: _b, session_id: _s, ...rest } = turn.payload
  const payload = storable(
    { ...rest, context_box_id: contextBoxId, output_box_id: turn.output_box_id },
    'the payload of the trail',
    payloadMaxBytes,
  )
  const values: Readonly<Record<string, unknown>> = {
    project_id: projectId,
    turn,
    payload: JSON.parse(payload) as unknown,
    imported_from: { project_id: turn.project_id, bellwether: trail.bellwether, imported_by: importedBy },
    context_box_id: contextBoxId,
    context: trail.context,
    cards: trail.cards,
    compacted: trail.compacted,
    steps: trail.steps,
    waits: trail.waits,
    receipts: trail.receipts,
    transcript: trail.transcript,
    worker_target: importedTarget,
  }
  try {
    await db.transaction(async (tx) => {
      await mustBeNew(tx, turn.agent_turn_id)
      for (const { name, text } of statements) await tx.query({ name, text, values: [JSON.stringify(values)] })
      await mustBeSame(tx, projectId, trail)
    })
  } catch (error) {
    throw reasonOf(error, turn.agent_turn_id)
  }
}

async function mustBeNew(tx: Queryable, agentTurnId: string): Promise<void> {
  const rows = await tx.query({ text: 'select from state.turn_row($1)', values: [agentTurnId] })
  if (rows.length > 0) throw exists(agentTurnId)
}

/** A context card that the database had must be the same card of the same project. */
async function mustBeSame(tx: Queryable, projectId: string, { context, turn }: Trail): Promise<void> {
  const rows = await tx.query({
    name: 'bw_import_same_context',
    text: `select from jsonb_to_recordset($1::jsonb) as c (card_id text, type text, content jsonb)
      where not exists (select from cards.cards k where k.card_id = c.card_id and k.project_id = $2
        and k.type = c.type and k.content = c.content)`,
    values: [JSON.stringify(context), projectId],
  })
  if (rows.length > 0) throw exists(turn.agent_turn_id)
}

const exists = (agentTurnId: string, cause?: unknown) =>
  new Terminal(`Cannot import turn ${agentTurnId}: this database has it, or cards of it`, {
    code: 'turn_exists',
    hint: `show it: bellwether turn show ${agentTurnId}`,
    ...defined({ cause }),
  })

const uniqueViolation = '23505'
/** A value of the wrong form: not a time, not a known status, text that cannot be stored. */
const dataErrors = /^(?:22|23)/

function reasonOf(error: unknown, agentTurnId: string): unknown {
  const { code } = error as { readonly code?: unknown }
  if (error instanceof Terminal || typeof code !== 'string') return error
  if (code === uniqueViolation) return exists(agentTurnId, error)
  if (!dataErrors.test(code)) return error
  return new InvalidInput(`Cannot import the trail: ${(error as Error).message}`, {
    code: 'invalid_trail',
    hint: 'export the turn again; a trail must not be edited by hand',
    cause: error,
  })
}

const cardColumns = 'card_id text, type text, role text, content jsonb, metadata jsonb, created_at timestamptz'
const cardsOf = (list: string) => `rows from (jsonb_to_recordset($1::jsonb -> '${list}') as (${cardColumns}))
  with ordinality as c (card_id, type, role, content, metadata, created_at, ord)`

const statements = [
  {
    name: 'bw_import_cards',
    text: `insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
      select c.card_id, $1::jsonb ->> 'project_id', c.type, c.role, c.content, c.metadata, c.created_at
      from (select * from ${cardsOf('cards')} union all select * from ${cardsOf('compacted')}) c`,
  },
  {
    name: 'bw_import_context',
    // Turns may share context cards: the first import stored them.
    text: `insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
      select c.card_id, $1::jsonb ->> 'project_id', c.type, c.role, c.content, c.metadata, c.created_at
      from ${cardsOf('context')} on conflict (card_id) do nothing`,
  },
  {
    name: 'bw_import_boxes',
    // Turns of one agent share an output box: the second import adds to that of the first.
    text: `with made as (
        insert into cards.boxes (box_id, project_id, kind, result_fields_card_id, created_at)
        select b.box_id, $1::jsonb ->> 'project_id', b.kind, b.fields, state.now() from (values
          ($1::jsonb ->> 'context_box_id', 'context', (select c.card_id from ${cardsOf('context')}
            where c.type = 'task.result_fields' order by c.ord desc limit 1)),
          ($1::jsonb -> 'turn' ->> 'output_box_id', 'output', null)) as b (box_id, kind, fields)
        where b.box_id is not null and not exists (select from cards.boxes o where o.box_id = b.box_id
          and o.project_id = $1::jsonb ->> 'project_id' and b.kind = 'output' and o.kind = 'output')
      )
      insert into cards.box_cards (box_id, card_id)
      select b.box_id, b.card_id from (
        select $1::jsonb ->> 'context_box_id' as box_id, c.card_id, 1 as part, c.ord from ${cardsOf('context')}
        union all
        select $1::jsonb -> 'turn' ->> 'output_box_id', c.card_id, 2, c.ord from ${cardsOf('cards')}
        where $1::jsonb -> 'turn' ->> 'output_box_id' is not null) b
      order by b.part, b.ord`,
  },
  {
    name: 'bw_import_turn',
    text: `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, message_type, agent_turn_id,
        payload, created_at, deaths, turn_epoch, status, processed_at, started_at, archived_at, outcome, error,
        deliverable_card_id, ended_at)
      select 'import-' || t.agent_turn_id, $1::jsonb ->> 'project_id', t.agent_id, $1::jsonb ->> 'worker_target',
        t.message_type::state.message_type, t.agent_turn_id,
        ($1::jsonb -> 'payload') || jsonb_build_object('imported_from',
          ($1::jsonb -> 'imported_from') || jsonb_build_object('imported_at', state.now())),
        t.created_at, t.deaths, t.turn_epoch,
        (case when t.started_at is null then 'cancelled' else 'consumed' end)::state.inbox_status, state.now(),
        t.started_at, state.now(), t.outcome::state.outcome, t.error, t.deliverable_card_id, t.ended_at
      from jsonb_to_record($1::jsonb -> 'turn') as t (agent_id text, message_type text, agent_turn_id text,
        created_at timestamptz, deaths int, turn_epoch bigint, started_at timestamptz, ended_at timestamptz,
        outcome text, error text, deliverable_card_id text)`,
  },
  {
    name: 'bw_import_receipts',
    text: `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, message_type, agent_turn_id,
        correlation_id, payload, created_at, status, processed_at)
      select 'import-' || c.card_id, $1::jsonb ->> 'project_id', $1::jsonb -> 'turn' ->> 'agent_id',
        $1::jsonb ->> 'worker_target', 'tool_result', $1::jsonb -> 'turn' ->> 'agent_turn_id',
        c.content ->> 'tool_call_id', jsonb_build_object('tool_result_card_id', c.card_id),
        ($1::jsonb -> 'turn' ->> 'created_at')::timestamptz + r.ord * interval '1 microsecond', 'consumed', state.now()
      from jsonb_array_elements_text($1::jsonb -> 'receipts') with ordinality as r (card_id, ord)
      join cards.cards c on c.card_id = r.card_id and c.project_id = $1::jsonb ->> 'project_id'`,
  },
  {
    name: 'bw_import_steps',
    text: `insert into state.agent_steps (project_id, agent_id, step_id, agent_turn_id, phase, status, tool_call_ids,
        metadata, error, started_at, ended_at)
      select $1::jsonb ->> 'project_id', $1::jsonb -> 'turn' ->> 'agent_id', s.step_id,
        $1::jsonb -> 'turn' ->> 'agent_turn_id', s.phase, s.status, s.tool_call_ids, s.metadata, s.error, s.started_at,
        s.ended_at
      from jsonb_to_recordset($1::jsonb -> 'steps') as s (step_id text, phase text, status text,
        tool_call_ids text[], metadata jsonb, error text, started_at timestamptz, ended_at timestamptz)`,
  },
  {
    name: 'bw_import_waits',
    // A wait of an ended turn is over, whatever the document says.
    text: `insert into state.turn_waiting_tools (project_id, agent_id, agent_turn_id, turn_epoch, step_id, tool_call_id,
        tool_name, wait_status, tool_result_card_id, tool_call_card_id, after_execution, idempotent, created_at)
      select $1::jsonb ->> 'project_id', $1::jsonb -> 'turn' ->> 'agent_id', $1::jsonb -> 'turn' ->> 'agent_turn_id',
        w.turn_epoch, w.step_id, w.tool_call_id, w.tool_name,
        case w.wait_status when 'waiting' then 'dropped' when 'received' then 'applied' else w.wait_status end,
        w.tool_result_card_id, w.tool_call_card_id, w.after_execution, w.idempotent, w.created_at
      from rows from (jsonb_to_recordset($1::jsonb -> 'waits') as (step_id text, tool_call_id text, tool_name text,
        wait_status text, tool_call_card_id text, tool_result_card_id text, after_execution text, idempotent boolean,
        turn_epoch bigint, created_at timestamptz)) with ordinality
        as w (step_id, tool_call_id, tool_name, wait_status, tool_call_card_id, tool_result_card_id, after_execution,
          idempotent, turn_epoch, created_at, ord)
      order by w.ord`,
  },
  {
    name: 'bw_import_transcript',
    text: `insert into state.transcript (agent_turn_id, seq, turn_epoch, entry_key, total_bytes, created_at, kind,
        continued, call_id, name, content)
      select $1::jsonb -> 'turn' ->> 'agent_turn_id', e.seq,
        coalesce(($1::jsonb -> 'turn' ->> 'turn_epoch')::bigint, 0), 0,
        sum(64 + octet_length(e.content)) over (order by e.seq), e.created_at, e.kind, e.continued, e.call_id, e.name,
        e.content
      from jsonb_to_recordset($1::jsonb -> 'transcript') as e (seq int, kind text, continued boolean, call_id text,
        name text, content text, created_at timestamptz)`,
  },
  {
    name: 'bw_import_words',
    // An import writes no event, by which the PMO would find the turn.
    text: `select state.add_words(array[$1::jsonb -> 'turn' ->> 'agent_turn_id'])`,
  },
]
