/** The worker API, for workers in any language: claim, beat, record steps, spend from the budget, suspend, deliver. */
import { z } from '../deferred.js'
import {
  activities,
  afterExecutions,
  agentStatuses,
  budgetKeys,
  cardTypes,
  memories,
  resultStatuses,
  suspendStatuses,
  waitStatuses,
} from '../vocabulary.js'
import { batchTasks } from './batches.js'
import {
  bodyBytes,
  amount,
  card,
  fenced,
  id,
  list,
  longText,
  newCard,
  record,
  seconds,
  text,
  time,
  token,
  waitMaxSeconds,
  type Route,
} from './shapes.js'

/** More than any worker starts at once. */
const claimMax = 32
const oneTurn = z.object({ turn: id })
// The kernel writes the cards that begin and end a turn; a worker writes the others.
const workerCardTypes = cardTypes.filter((type) => !type.startsWith('task.'))

const toolResult = z.object({
  tool_call_id: z.string(),
  tool_name: z.string(),
  step_id: z.string(),
  wait_status: z.enum(waitStatuses),
  after_execution: z.enum(afterExecutions),
  status: z.enum(resultStatuses),
  result: z.unknown(),
  error: z.object({ code: z.string(), message: z.string().optional() }).nullable(),
})

export type ToolResult = z.input<typeof toolResult>

const workerMessage = z.object({ seq: z.number(), sender: z.string(), text: z.string(), created_at: time })

const fence = z.object({
  agent_turn_id: z.string(),
  turn_epoch: z.number(),
  lease_token: z.string().describe('the secret of this claim; send it with every request for the turn'),
})
const budgetLeft = z
  .object({ tokens: z.number().nullable(), cost_micros: z.number().nullable(), wall_ms: z.number().nullable() })
  .nullable()
/** What a worker learns about its budget. */
const budgetState = {
  left: budgetLeft.describe('what the turn may still use; a null key is not limited; null: the turn has no budget'),
  exceeded_keys: list(z.enum(budgetKeys)).describe(
    'the limits that the turn has exceeded: if there are any, stop working and deliver what you have',
  ),
} as const

const reservation = {
  reservation_id: text(200).describe('unique in the turn; after a takeover, ids may be used again'),
} as const

const claimedTurn = fence.extend({
  fence,
  project_id: z.string(),
  agent_id: z.string(),
  kind: z
    .enum(['turn', 'resume'])
    .describe('`turn`: start, or continue from the cards. `resume`: `results` has every awaited result'),
  taken_over: z
    .boolean()
    .describe('another worker stopped sending beats: `output` has its cards, `results` its last results'),
  message_type: z.string(),
  inbox_id: z.string(),
  channel_id: z.string().nullable(),
  payload: record,
  deaths: z.number(),
  recursion_depth: z.number(),
  traceparent: z.string().nullable(),
  correlation_id: z.string().nullable(),
  turn_deadline: time.nullable().describe('the absolute end, which beats cannot move'),
  beat_seconds: z.number().describe('send a beat this often'),
  silent_seconds: z.number().describe('without a beat for this long, another worker takes the turn over'),
  agent: z
    .object({
      agent_id: z.string(),
      profile_id: z.string().nullable(),
      worker_target: z.string(),
      status: z.enum(agentStatuses),
      memory: z.enum(memories),
      metadata: record,
    })
    .nullable()
    .describe('the agent’s entry in the roster; null if it was removed'),
  profile: z.object({ profile_id: z.string(), name: z.string(), spec: record }).nullable(),
  tools: list(
    z.object({
      tool_name: z.string(),
      description: z.string(),
      parameters: z.unknown(),
      after_execution: z.string(),
      options: record,
    }),
  ),
  context_box_id: z.string().nullable(),
  context: list(card).describe('the cards of the context box: instruction, result fields, packed boxes'),
  context_truncated: z
    .boolean()
    .describe('only the newest cards are included: 4 MiB per box, less if many turns are claimed'),
  output_box_id: z.string().nullable(),
  output: list(card).describe('the cards that this turn has written so far: thoughts, tool calls, results'),
  output_truncated: z
    .boolean()
    .describe('as `context_truncated`; `GET /projects/{project}/boxes/{box}/cards` returns all cards'),
  session_id: z.string().nullable().describe('the session that the caller named'),
  memory: list(card).describe(
    'cards of earlier turns, as the agent’s `memory` says: none, what was asked and answered in the session, or the cards of its box',
  ),
  memory_truncated: z.boolean().describe('older cards are left out: output and memory share 4 MiB'),
  results: list(toolResult).describe('in the order of the calls'),
  left: budgetLeft.describe('what the turn may use; a null key is not limited; null: the turn has no budget'),
})
export type WorkerTurn = z.input<typeof claimedTurn>

export const workerRoutes = {
  'POST /workers/:target/claim': {
    summary: 'Claim turns of a worker target',
    description: `Responds as soon as there are turns, or with none after \`wait_seconds\` (at most ${waitMaxSeconds}).`,
    params: z.object({ target: token }),
    body: z.strictObject({
      max: z.number().int().min(1).max(claimMax).default(1).describe('how many turns the worker can start now'),
      wait_seconds: seconds(3_600).default(0),
      worker_id: text(120).optional().describe('names the process in lists and logs; default: the id of the key'),
    }),
    responses: { 200: z.object({ turns: list(claimedTurn) }) },
  },
  'POST /turns/:turn/beat': {
    summary: 'Report that the worker is alive and runs the turn',
    params: oneTurn,
    bodyBytesMax: bodyBytes.text,
    body: z.strictObject({
      ...fenced,
      activity: z.enum(activities).optional(),
      current_tool: text(200).optional(),
      messages_seen: z
        .number()
        .int()
        .min(0)
        .optional()
        .describe('the highest `seq` that the worker has read; the response has all later messages'),
    }),
    responses: {
      200: z.object({
        status: z.literal('alive'),
        messages: list(workerMessage).describe(
          'messages of people to the turn, in order; also cards of its output box',
        ),
      }),
    },
  },
  'POST /turns/:turn/steps': {
    summary: 'Append cards to the turn’s output box, and record a step',
    description: 'With a `card_id` (a UUID) per card and a `step_id`, the request can be repeated safely.',
    params: oneTurn,
    bodyBytesMax: bodyBytes.large,
    body: z.strictObject({
      ...fenced,
      cards: z
        .array(newCard.extend({ type: z.enum(workerCardTypes) }))
        .min(1)
        .max(100)
        .optional(),
      step: z
        .strictObject({
          step_id: id.optional(),
          phase: text(100),
          status: text(100),
          tool_call_ids: z.array(id).max(1_000).optional(),
          metadata: record.optional(),
          error: text(10_000).optional(),
        })
        .optional(),
    }),
    responses: {
      200: z.object({
        status: z.literal('recorded'),
        step_id: z.string().nullable(),
        card_ids: list(z.string()),
        ...budgetState,
      }),
    },
  },
  'POST /turns/:turn/reserve': {
    summary: 'Reserve the most that a call may use, before it is made',
    description:
      '`exceeded`: the budget does not cover it, `exceeded_keys` names the limits, and nothing is reserved: reserve less, or deliver ' +
      '`failed`. `unlimited`: the turn has no budget. Repeating an open reservation returns `already`.',
    params: oneTurn,
    body: z.strictObject({
      ...fenced,
      ...reservation,
      tokens: amount.describe('the prompt and the longest answer'),
      cost_micros: amount.default(0),
    }),
    responses: { 200: z.object({ status: z.enum(['reserved', 'already', 'exceeded', 'unlimited']), ...budgetState }) },
  },
  'POST /turns/:turn/commit': {
    summary: 'Charge what a reserved call has used, and release the rest of its reservation',
    description: 'A reservation is settled once: repeating the request returns `already` and charges nothing.',
    params: oneTurn,
    body: z
      .strictObject({
        ...fenced,
        ...reservation,
        tokens: amount.describe('fresh tokens: input, output and cache writes'),
        cost_micros: amount.default(0),
        output_tokens: amount.default(0).describe('the part of `tokens` that is output'),
        cache_write_tokens: amount.default(0).describe('the part of `tokens` that is cache writes'),
        cache_read_tokens: amount.default(0).describe('not part of `tokens`'),
      })
      .refine((body) => body.output_tokens + body.cache_write_tokens <= body.tokens, {
        path: ['tokens'],
        error: 'must include output_tokens and cache_write_tokens',
      }),
    responses: { 200: z.object({ status: z.enum(['committed', 'already', 'unlimited']), ...budgetState }) },
  },
  'POST /turns/:turn/release': {
    summary: 'Release the reservation of a call that was not made or cost nothing',
    description: 'Repeating it, or releasing what was committed, returns `already` and changes nothing.',
    params: oneTurn,
    body: z.strictObject({ ...fenced, ...reservation }),
    responses: { 200: z.object({ status: z.enum(['released', 'already', 'unlimited']), ...budgetState }) },
  },
  'POST /turns/:turn/suspend': {
    summary: 'Call tools and suspend the turn until their results arrive',
    params: oneTurn,
    bodyBytesMax: bodyBytes.large,
    body: z.strictObject({
      ...fenced,
      step_id: id.optional(),
      calls: z
        .array(
          z.strictObject({
            tool_call_id: id,
            tool_name: token,
            arguments: z.unknown().optional(),
            after_execution: z.enum(afterExecutions).optional(),
            timeout_seconds: z.number().positive().max(31_536_000).optional(),
            idempotent: z.boolean().optional(),
            batch: batchTasks.optional(),
          }),
        )
        .min(1)
        .max(1_000),
    }),
    responses: { 200: z.object({ status: z.enum(suspendStatuses), step_id: z.string() }) },
  },
  'POST /turns/:turn/deliver': {
    summary: 'End the turn with its deliverable',
    description:
      'Repeating it with the same fence returns `already`. If required fields are missing, the response is 422 and the turn continues.',
    params: oneTurn,
    bodyBytesMax: bodyBytes.large,
    body: z
      .strictObject({
        ...fenced,
        status: z.enum(['success', 'failed', 'timeout']).default('success'),
        text: longText.optional(),
        fields: z
          .array(z.strictObject({ name: text(200), value: z.unknown() }))
          .max(1_000)
          .optional(),
        error: text(500).optional(),
      })
      .refine((body) => (body.text === undefined) !== (body.fields === undefined), {
        error: 'must have either text or fields',
      }),
    responses: { 200: z.object({ status: z.enum(['ended', 'already']) }) },
  },
} as const satisfies Record<string, Route>
