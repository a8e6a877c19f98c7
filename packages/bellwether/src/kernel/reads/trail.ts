/**
 * Reads the trail of an ended turn: everything that a replay, a fork or another machine needs, as one document. Reads only. Bounded: a
 * trail that is too large is refused, never cut.
 */
import { Terminal } from '@bellwether/protocol'
import { trailFormat, trailLimits, trailVersion, type Trail, type TrailCard } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import type { Card } from '../verbs/cards.js'
import { readBoxWithin } from './cards.js'
import { outputBox, readWrittenCards } from './turn-detail.js'

type Row<T> = { readonly [Name in keyof T]: Name extends `${string}_at` ? Date | null : T[Name] }
type TurnOf = Row<Omit<Trail['turn'], 'ended_at'>> & {
  readonly ended_at: Date | null
  readonly context_box_id: string | null
}

/** Undefined: the project has no such turn. Throws Terminal if the turn has not ended, or if its trail is too large. */
export async function readTrail(
  db: Queryable,
  projectId: string,
  agentTurnId: string,
  bellwether: string,
): Promise<Trail | undefined> {
  const turn = await readTurnOf(db, agentTurnId)
  if (turn === undefined || turn.project_id !== projectId) return undefined
  if (turn.ended_at === null)
    throw new Terminal(`Turn ${agentTurnId} has not ended`, {
      code: 'turn_not_ended',
      hint: `wait for its end: bellwether turn watch ${agentTurnId}`,
    })
  const { context_box_id: contextBoxId, output_box_id: outputBoxId, ...facts } = turn
  const bounds = { bytesMax: trailLimits.bytes, cardsMax: trailLimits.cards }
  const nothing = { cards: [], truncated: false }
  const context = contextBoxId === null ? nothing : await readBoxWithin(db, contextBoxId, bounds)
  const written =
    outputBoxId === null || turn.started_at === null ? nothing : await readWrittenCards(db, turn, outputBoxId, bounds)
  const steps = await readSteps(db, agentTurnId)
  const waits = await readWaits(db, agentTurnId)
  const entries = await readEntries(db, agentTurnId)
  if (
    context.truncated ||
    written.truncated ||
    Math.max(steps.length, waits.length) > trailLimits.steps ||
    entries.length > trailLimits.entries
  )
    throw tooLarge(agentTurnId)
  const receipts = await readReceipts(db, agentTurnId)
  const inBox = new Set(written.cards.map(({ card_id: id }) => id))
  const trail: Trail = {
    format: trailFormat,
    version: trailVersion,
    bellwether,
    turn: { ...withTimes(facts), output_box_id: outputBoxId } as Trail['turn'],
    context: context.cards.map(trailCard),
    cards: (await withDeliverable(db, written.cards, turn)).map(trailCard),
    steps: steps.map(withTimes) as Trail['steps'],
    waits: waits.map(withTimes) as Trail['waits'],
    receipts: receipts.map(({ card_id: id }) => id),
    compacted: receipts.filter(({ card_id: id }) => !inBox.has(id)).map(trailCard),
    transcript: entries.map(withTimes) as Trail['transcript'],
  }
  if (Buffer.byteLength(JSON.stringify(trail)) > trailLimits.bytes) throw tooLarge(agentTurnId)
  return trail
}

const tooLarge = (agentTurnId: string) =>
  new Terminal(
    `The trail of turn ${agentTurnId} is too large: at most ${trailLimits.cards} cards, ${trailLimits.steps} steps, ${trailLimits.entries} entries of its transcript and ${trailLimits.bytes} bytes`,
    { code: 'trail_too_large', hint: `read the turn instead: bellwether turn show ${agentTurnId} --json` },
  )

async function readTurnOf(db: Queryable, agentTurnId: string): Promise<TurnOf | undefined> {
  const [row] = await db.query<TurnOf>({
    name: 'bw_read_trail_turn',
    text: `select i.agent_turn_id, i.project_id, i.agent_id, i.message_type, i.payload ->> 'session_id' as session_id,
        i.turn_epoch, i.deaths, i.created_at, i.started_at, i.ended_at, i.outcome, i.error, i.deliverable_card_id,
        i.payload ->> 'context_box_id' as context_box_id, ${outputBox} as output_box_id,
        i.payload::jsonb - '{context_box_id,output_box_id,budget_id,session_id}'::text[] as payload
      from state.turn_row($1) i`,
    values: [agentTurnId],
  })
  return row
}

/** The deliverable of a turn that was cancelled in the queue is written while another turn of the agent runs. */
async function withDeliverable(
  db: Queryable,
  cards: readonly Card[],
  { deliverable_card_id: id }: TurnOf,
): Promise<readonly Card[]> {
  if (id === null || cards.some((card) => card.card_id === id)) return cards
  const found = await db.query<Card>({
    name: 'bw_read_trail_deliverable',
    text: 'select card_id, type, role, content, metadata, created_at from cards.cards where card_id = $1',
    values: [id],
  })
  return [...cards, ...found]
}

const readSteps = (db: Queryable, agentTurnId: string) =>
  db.query<Row<Trail['steps'][number]>>({
    name: 'bw_read_trail_steps',
    text: `select step_id, phase, status, tool_call_ids, metadata, error, started_at, ended_at
      from state.agent_steps where agent_turn_id = $1 order by started_at, step_id limit ${trailLimits.steps + 1}`,
    values: [agentTurnId],
  })

const readWaits = (db: Queryable, agentTurnId: string) =>
  db.query<Row<Trail['waits'][number]>>({
    name: 'bw_read_trail_waits',
    text: `select step_id, tool_call_id, tool_name, wait_status, tool_call_card_id, tool_result_card_id,
        after_execution, idempotent, turn_epoch, created_at
      from state.turn_waiting_tools where agent_turn_id = $1 order by wait_seq limit ${trailLimits.steps + 1}`,
    values: [agentTurnId],
  })

const readEntries = (db: Queryable, agentTurnId: string) =>
  db.query<Row<Trail['transcript'][number]>>({
    name: 'bw_read_trail_entries',
    text: `select seq, kind, continued, call_id, name, content, created_at
      from state.transcript where agent_turn_id = $1 order by seq limit ${trailLimits.entries + 1}`,
    values: [agentTurnId],
  })

/** In the order in which a fallback lists them. */
const readReceipts = (db: Queryable, agentTurnId: string) =>
  db.query<Card>({
    name: 'bw_read_trail_receipts',
    text: `select c.card_id, c.type, c.role, c.content, c.metadata, c.created_at from state.agent_inbox i
      join cards.cards c on c.card_id = i.payload ->> 'tool_result_card_id'
      where i.agent_turn_id = $1 and i.message_type in ('tool_result', 'timeout')
      order by i.created_at, i.inbox_id limit ${trailLimits.steps}`,
    values: [agentTurnId],
  })

const withTimes = (row: object): object =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, value instanceof Date ? value.toISOString() : value]),
  )

const trailCard = ({ card_id, type, role, content, metadata, created_at }: Card): TrailCard => ({
  card_id,
  type,
  role,
  content,
  metadata,
  created_at: created_at.toISOString(),
})
