/** Turns: enqueue, list, read, wait, stop. */
import { z } from '../deferred.js'
import {
  activities,
  budgetKeys,
  deliverableKinds,
  memories,
  messageMaxChars,
  outcomes,
  waitStatuses,
} from '../vocabulary.js'
import {
  flag,
  bodyBytes,
  amount,
  card,
  fieldSpec,
  id,
  inProject,
  list,
  longText,
  page,
  record,
  secondsUpTo,
  text,
  time,
  token,
  waitMaxSeconds,
  type Route,
  type Row,
} from './shapes.js'
import { taskChanges } from './board.js'
import { turnFilter } from './turns/filter.js'
import { childTurn, relatedTurn } from './turns/relatives.js'

/** What one turn may spend. */
export const turnBudget = z.strictObject({
  max_tokens: amount.optional(),
  max_cost_micros: amount.optional(),
  max_wall_ms: amount.optional(),
})

const newTurn = z
  .strictObject({
    instruction: longText.min(1).optional(),
    context_box_id: id.optional(),
    result_fields: z.array(fieldSpec).min(1).max(200).optional(),
    channel_id: token.optional(),
    correlation_id: id.optional(),
    session_id: id
      .optional()
      .describe('the conversation: an agent with `memory: session` knows what was asked and answered in it'),
    traceparent: text(100).optional(),
    metadata: record.optional(),
    budget: turnBudget.optional(),
  })
  .refine((body) => (body.instruction === undefined) !== (body.context_box_id === undefined), {
    error: 'must have either instruction or context_box_id',
  })

const turn = z.object({
  agent_turn_id: z.string(),
  inbox_id: z.string(),
  project_id: z.string(),
  agent_id: z.string(),
  channel_id: z.string().nullable(),
  message_type: z.string(),
  correlation_id: z.string().nullable(),
  status: z.string().describe('queued, pending, dispatched, running, suspended, or the outcome'),
  turn_epoch: z.number().nullable(),
  deaths: z.number(),
  claimed_by: z.string().nullable(),
  recursion_depth: z.number(),
  traceparent: z.string().nullable(),
  source_agent_id: z.string().nullable(),
  source_step_id: z.string().nullable(),
  turn_deadline: time.nullable(),
  resume_deadline: time.nullable(),
  waiting_tool_count: z.number().nullable(),
  activity: z.enum(activities).nullable(),
  current_tool: z.string().nullable(),
  created_at: time,
  started_at: time.nullable(),
  ended_at: time.nullable(),
  outcome: z.enum(outcomes).nullable(),
  deliverable_card_id: z.string().nullable(),
  error: z.string().nullable(),
})

/** A row of a list. */
const listedTurn = turn.extend({
  cost_micros: z.number().nullable().optional().describe('with `summary`; null: none is reported'),
  instruction: z.string().nullable().optional().describe('with `summary`: its beginning; null: it has none'),
})

export type Turn = z.output<typeof listedTurn>
export type TurnRow = Row<z.input<typeof turn>>

const step = z.object({
  step_id: z.string(),
  agent_turn_id: z.string(),
  phase: z.string(),
  status: z.string(),
  tool_call_ids: list(z.string()),
  metadata: record,
  error: z.string().nullable(),
  started_at: time,
  ended_at: time.nullable(),
})
export type StepRow = Row<z.input<typeof step>>

const wait = z.object({
  agent_turn_id: z.string(),
  turn_epoch: z.number(),
  step_id: z.string(),
  tool_call_id: z.string(),
  tool_name: z.string(),
  wait_status: z.enum(waitStatuses),
  tool_result_card_id: z.string().nullable(),
  tool_call_card_id: z.string().nullable(),
  after_execution: z.string(),
  idempotent: z.boolean(),
  started_by: z.string().nullable(),
  started_at: time.nullable(),
  sent_at: time.nullable(),
  host_beat_at: time.nullable(),
  created_at: time,
  approval: z
    .enum(['waiting', 'allowed'])
    .nullable()
    .describe('`waiting`: a person has not allowed the call yet; null if it needs no approval'),
})
export type WaitRow = Row<z.input<typeof wait>>

export const intervention = z.object({
  intervention_id: z.number(),
  kind: z.string(),
  reason: z.string(),
  agent_turn_id: z.string().nullable(),
  turn_epoch: z.number().nullable(),
  before: record,
  after: record,
  created_at: time,
})

const used = z.object({ used: z.number(), limit: z.number().nullable() })

const turnFile = z.object({
  path: z.string(),
  how: z
    .enum(['claimed', 'changed', 'deleted'])
    .describe(
      'the deliverable names the file, or a view saw it change or be deleted while the turn ran; the deletion of a directory is one item',
    ),
  certainty: z
    .enum(['claimed_and_seen', 'claimed', 'only_turn', 'several_turns'])
    .describe(
      'how certain it is that this turn changed the file: the deliverable names it and a view saw it change during the turn; only the deliverable names it; no other turn of the project ran when it changed; other turns ran, too. People and other programs may also change files.',
    ),
  other_turns: list(z.string()).describe('turns of the project that ran when the file changed, at most 10'),
  kind: z.literal('file'),
  view: z.string().nullable(),
  source_id: z.string().nullable(),
  found: z.boolean().nullable().describe('whether a view has the file; null: no view could answer'),
  size: z.number().nullable(),
  modified_time: z.number().nullable(),
  integrity_suspect: z.boolean().nullable(),
})

export type TurnFile = z.input<typeof turnFile>

const fallback = z.object({
  code: z.string().describe('the error of the turn, or its outcome if it has no error'),
  ended_by: z.string().describe('`worker`, `watchdog`, or who requested the stop'),
  reason: z.string(),
  started: z.boolean().describe('false: no worker ever started the turn'),
  exceeded_keys: list(z.enum(budgetKeys))
    .optional()
    .describe('with code `budget_exceeded`: the limits that ended the turn'),
  cards: z.number().describe('how many cards the turn wrote; at most 200 are counted'),
  last_text: z
    .string()
    .nullable()
    .describe('the end of its newest text, at most 8,000 characters; null: it wrote none, or the content has it'),
  tool_results: list(
    z.object({
      tool_call_id: z.string(),
      tool_name: z.string().nullable(),
      status: z.string().nullable(),
      card_id: z.string(),
      error: z.string().nullable(),
      result: z.unknown().describe('the result, or the first 1,000 characters of its JSON text'),
      truncated: z.boolean(),
    }),
  ).describe('the newest 10'),
  tool_results_received: z.number(),
  truncated: z.boolean().describe('the turn has more cards or results: read its output box'),
  output_box_id: z.string(),
})
export type Fallback = z.output<typeof fallback>

/** The content of a deliverable card whose metadata has `kind: "fallback"`. */
export const fallbackContent = z.looseObject({ text: z.string().optional(), fallback })

const message = z.object({
  seq: z.number(),
  sender: z.string(),
  text: z.string(),
  urgent: z.boolean(),
  created_at: time,
  delivered_at: time.nullable().describe('null: it waits, or the turn ended before the agent got it'),
})
export type TurnMessageRow = Row<z.input<typeof message>>

/** What the kernel reads about a turn in one query. */
const turnTrail = z.object({
  deliverable: z
    .object({
      card_id: z.string(),
      kind: z
        .enum(deliverableKinds)
        .describe('`result`: the agent made it. `fallback`: the turn did not succeed; reason and partial work'),
      content: z.unknown(),
      fallback: fallback.nullable().describe('null: the deliverable is a result'),
      created_at: time,
    })
    .nullable(),
  steps: list(step),
  waits: list(wait).describe('its tool calls'),
  interventions: list(intervention).describe('what watchdogs did to the turn'),
  parent: relatedTurn.nullable().describe('the turn that enqueued it, that it continues, or that it was forked from'),
  continues: z.string().nullable().describe('the turn that it follows up'),
  forked_from: z
    .object({ agent_turn_id: z.string(), step: z.number() })
    .nullable()
    .describe('the turn whose cards it began with, up to this step'),
  imported_from: z
    .object({ project_id: z.string(), bellwether: z.string(), imported_at: time, imported_by: z.string() })
    .nullable()
    .describe('the turn ran elsewhere and was imported: it is never run here'),
  context_box_id: z.string().nullable(),
  output_box_id: z.string().nullable(),
  session_id: z.string().nullable(),
  context_size: z
    .object({
      memory: z.enum(memories).describe('what the turn knew of earlier turns'),
      cards: z.number().describe('cards in its context box; at most 2,000 are counted'),
      bytes: z.number(),
      memory_cards: z.number().describe('cards of earlier turns that it read'),
      memory_bytes: z.number(),
      memory_truncated: z.boolean().describe('older cards were left out'),
    })
    .nullable()
    .describe('what the turn knew at its start; null: it has not started'),
  usage: z.object({
    steps: z.number(),
    total_tokens: z.number().describe('all kinds, cache reads included'),
    input_tokens: z.number().describe('without tokens that were read from a cache or written to one'),
    output_tokens: z.number(),
    cache_read_tokens: z.number(),
    cache_write_tokens: z.number(),
    cost_micros: z.number().nullable().describe('null: no step reported a cost'),
  }),
  budget: z
    .object({
      budget_id: z.string(),
      parent_budget_id: z.string().nullable(),
      tokens: used.describe('fresh tokens: cache reads do not count'),
      cost_micros: used,
      wall_ms: used.describe('working time: waits for people do not count'),
      exceeded_keys: list(z.enum(budgetKeys)).describe(
        'the limits that stopped the turn, or that were too small for its last call',
      ),
      agent_limits: list(z.enum(budgetKeys)).describe('the limits that the agent file set'),
    })
    .nullable(),
})

export type TurnTrail = z.input<typeof turnTrail>

const turnDetail = turn.extend({
  ...turnTrail.shape,
  budget: turnTrail.shape.budget
    .unwrap()
    .extend({
      fraction: z.number().nullable().describe('used share of the nearest limit; 1 is the limit'),
      nearest: z.enum(['tokens', 'cost_micros', 'wall_ms']).nullable(),
    })
    .nullable()
    .describe('null: the turn has no limit'),
  trace_id: z.string().nullable().describe('from `traceparent`'),
  context_cards: list(card).describe('the cards of its context box'),
  cards: list(card).describe('the cards that it wrote, in order: the newest 500, at most 1 MiB'),
  cards_truncated: z.boolean().describe('the boxes hold more cards'),
  children: list(childTurn).describe('at most 5 levels and 500 turns'),
  children_truncated: z.boolean(),
  messages: list(message).describe('messages to the turn, in order'),
  files: list(turnFile).describe('at most 200'),
  files_truncated: z.boolean(),
})

export type TurnDetail = z.output<typeof turnDetail>

const turnChanges = taskChanges
  .omit({ runId: true })
  .extend({ diff: z.string().nullable().describe('unified, at most 100,000 characters') })

const oneTurn = inProject.extend({ turn: id })
export const startedTurn = z.object({ agent_turn_id: z.string(), inbox_id: z.string(), status: z.string() })

export const turnRoutes = {
  'POST /projects/:project/agents/:agent/turns': {
    summary: 'Enqueue a turn',
    description:
      'With an `Idempotency-Key` header, repeating the request returns the first response. Reusing the key with another body is refused with 422.',
    params: inProject.extend({ agent: token }),
    bodyBytesMax: bodyBytes.large,
    body: newTurn,
    responses: { 202: startedTurn },
  },
  'GET /projects/:project/turns': {
    summary: 'List turns, newest first',
    description: 'A page may be short, or empty, and still have a cursor: continue until the cursor is null.',
    params: inProject,
    query: turnFilter.extend({ summary: flag.describe('true: also the cost and the beginning of the instruction') }),
    responses: { 200: page('turns', listedTurn, z.string()) },
  },
  'GET /projects/:project/turns/:turn': {
    summary: 'Read a turn with its steps, tool calls, cards and children',
    description: `With \`?wait=SECONDS\` (at most ${waitMaxSeconds}) the server answers when the turn ends, or when the time is over.`,
    params: oneTurn,
    query: z.object({ wait: secondsUpTo(waitMaxSeconds) }),
    responses: { 200: turnDetail },
  },
  'GET /projects/:project/turns/:turn/changes': {
    summary: 'Read what a turn changed, as a diff',
    description:
      'Of an ended turn: the last run of a task as the board recorded it; of any other turn the files that a view saw change, compared with the commit that was checked out when it started. A file that changed again later has no diff.',
    params: oneTurn,
    responses: { 200: turnChanges },
  },
  'POST /projects/:project/turns/:turn/stop': {
    summary: 'Stop an active turn, or cancel a queued turn',
    params: oneTurn,
    body: z.strictObject({ reason: text(2_000).optional() }),
    responses: { 200: z.object({ agent_turn_id: z.string(), status: z.string() }) },
  },
  'POST /projects/:project/turns/:turn/messages': {
    summary: 'Send a message to a turn that has not ended',
    description:
      'A model gets it before its next step, a function when it asks, an HTTP worker with its next beat, a coding agent through its input or when its program is resumed. Each message is delivered once and in order. An ended turn refuses it (409 `turn_ended`).',
    params: oneTurn,
    bodyBytesMax: bodyBytes.text,
    body: z.strictObject({
      text: text(messageMaxChars).min(1),
      now: z
        .boolean()
        .optional()
        .describe(
          'interrupt the program of a coding agent that reads no messages while it runs; it is resumed at once',
        ),
      message_id: id.optional().describe('a repeated request with the same id stores the message once'),
    }),
    responses: {
      202: z.object({ agent_turn_id: z.string(), seq: z.number(), status: z.enum(['waiting', 'delivered']) }),
    },
  },
  'POST /projects/:project/turns/:turn/continue': {
    summary: 'Start a follow-up turn of the same agent, in the same session',
    description:
      'The follow-up resumes the session of a coding agent’s program, and an agent with `memory: session` knows the turn. The turn is the parent of its follow-up. A turn that has not ended refuses it (409 `turn_not_ended`).',
    params: oneTurn,
    bodyBytesMax: bodyBytes.large,
    body: z.strictObject({ instruction: longText.min(1), budget: turnBudget.optional() }),
    responses: { 202: startedTurn },
  },
} as const satisfies Record<string, Route>
