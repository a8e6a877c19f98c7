/** What the description of a route is made of, and the small shapes that many answers share. Loaded when somebody asks for the description. */
import { activities, cardTypes, outcomes, waitStatuses } from '@bellwether/protocol'
import { z } from 'zod'

/** Besides what the route itself declares. `answers`: by status; a text is the media type of an answer that is no JSON. */
export interface RouteDoc {
  readonly summary?: string
  readonly description?: string
  readonly querystring?: z.ZodType
  readonly body?: z.ZodType
  readonly answers: Readonly<Record<number, z.ZodType | string>>
  /** Needs no key. */
  readonly open?: boolean
}

export type Docs = Readonly<Record<string, RouteDoc>>

export const time = z.string().meta({ format: 'date-time' })
export const name = z.string()
export const flag = z.boolean()
export const count = z.number()
export const maybe = <T extends z.ZodType>(shape: T) => shape.nullable()
export const anything = z.record(z.string(), z.unknown())
export const said = (...words: readonly [string, ...string[]]) => z.enum(words)
/** New fields may come: whoever reads skips what it does not know. */
export const shape = z.looseObject
export const list = z.array
export const pageOf = (named: string, one: z.ZodType, cursor: z.ZodType = maybe(name)) =>
  shape({ [named]: list(one), cursor: cursor.describe('ask again with it; null: that was all') })

export const outcome = z.enum(outcomes)
export const card = shape({
  card_id: name,
  type: z.enum(cardTypes),
  role: name,
  content: z.unknown(),
  metadata: anything,
  created_at: time,
})

const turnFields = {
  agent_turn_id: name,
  inbox_id: name,
  project_id: name,
  agent_id: name,
  channel_id: maybe(name),
  message_type: name,
  correlation_id: maybe(name),
  status: name.describe('queued, pending, dispatched, running, suspended, or how it ended'),
  turn_epoch: maybe(count),
  attempts: count,
  claimed_by: maybe(name),
  recursion_depth: count,
  traceparent: maybe(name),
  source_agent_id: maybe(name),
  source_step_id: maybe(name),
  turn_deadline: maybe(time),
  resume_deadline: maybe(time),
  waiting_tool_count: maybe(count),
  activity: maybe(z.enum(activities)),
  current_tool: maybe(name),
  created_at: time,
  started_at: maybe(time),
  ended_at: maybe(time),
  outcome: maybe(outcome),
  deliverable_card_id: maybe(name),
  error: maybe(name),
}
export const turn = shape(turnFields)

const used = shape({ used: count, limit: maybe(count) })
const relative = {
  agent_turn_id: name,
  agent_id: maybe(name),
  status: maybe(name),
  outcome: maybe(outcome),
}
const intervention = shape({
  intervention_id: count,
  kind: name,
  reason: name,
  agent_turn_id: maybe(name),
  turn_epoch: maybe(count),
  before: anything,
  after: anything,
  created_at: time,
})
export const watched = intervention.extend({ project_id: maybe(name), agent_id: maybe(name) })

export const wholeTurn = shape({
  ...turnFields,
  trace_id: maybe(name),
  deliverable: maybe(shape({ card_id: name, content: z.unknown(), created_at: time })),
  steps: list(
    shape({
      step_id: name,
      agent_turn_id: name,
      phase: name,
      status: name,
      tool_call_ids: list(name),
      metadata: anything,
      error: maybe(name),
      started_at: time,
      ended_at: maybe(time),
    }),
  ),
  waits: list(
    shape({
      agent_turn_id: name,
      turn_epoch: count,
      step_id: name,
      tool_call_id: name,
      tool_name: name,
      wait_status: z.enum(waitStatuses),
      tool_result_card_id: maybe(name),
      tool_call_card_id: maybe(name),
      after_execution: name,
      idempotent: flag,
      started_by: maybe(name),
      started_at: maybe(time),
      sent_at: maybe(time),
      host_beat_at: maybe(time),
      created_at: time,
    }),
  ),
  interventions: list(intervention).describe('every touch of a watchdog'),
  context_box_id: maybe(name),
  output_box_id: maybe(name),
  context_cards: list(card).describe('what it was given'),
  cards: list(card).describe('what it wrote, in order'),
  cards_truncated: flag.describe('the boxes have more'),
  usage: shape({
    steps: count,
    total_tokens: count,
    input_tokens: count,
    output_tokens: count,
    cost_micros: maybe(count),
  }),
  budget: maybe(
    shape({
      budget_id: name,
      parent_budget_id: maybe(name),
      tokens: used,
      cost_micros: used,
      wall_ms: used,
      fraction: maybe(count).describe('of the nearest limit; 1 is the limit'),
      nearest: maybe(said('tokens', 'cost_micros', 'wall_ms')),
    }),
  ),
  parent: maybe(shape(relative)),
  children: list(
    shape({
      ...relative,
      error: maybe(name),
      created_at: maybe(time),
      started_at: maybe(time),
      ended_at: maybe(time),
      children: list(z.unknown()).describe('theirs, of the same shape, to five levels'),
    }),
  ),
  children_truncated: flag,
  files: list(
    shape({
      path: name,
      how: said('claimed', 'changed_meanwhile').describe(
        'its deliverable names it, or a view saw it change while the turn ran: others may have done that',
      ),
      kind: name,
      view: maybe(name),
      source_id: maybe(name),
      found: maybe(flag),
      size: maybe(count),
      modified_time: maybe(count),
      integrity_suspect: maybe(flag),
    }),
  ),
  files_truncated: flag,
})
