/** Trails: the record of one ended turn as a document that can be replayed, forked, exported and imported. */
import { z } from '../deferred.js'
import { cardTypes, messageMaxChars, messageTypes, outcomes, waitStatuses } from '../vocabulary.js'
import { bodyBytes, id, inProject, list, longText, record, text, token, type Route } from './shapes.js'
import { startedTurn } from './turns.js'

export const trailFormat = 'bellwether-trail'
/** The version of the document that this program writes. It reads this one and all earlier ones. */
export const trailVersion = 2

/** A larger trail is refused: it would not fit into one request. */
export const trailLimits = { bytes: bodyBytes.large - 65_536, cards: 5_000, steps: 5_000, entries: 20_000 } as const

const at = z.iso.datetime({ offset: true })
const rows = <T extends z.ZodType>(one: T, max: number) => z.array(one).max(max)

// The only id of a document that becomes part of addresses, file names and commands.
const turnId = z.string().regex(/^[A-Za-z0-9][\w.:-]{0,199}$/, 'must be letters, digits and _ . : -')

const trailCard = z.strictObject({
  card_id: id,
  type: z.enum(cardTypes),
  role: z.string().min(1).max(40),
  content: z.unknown(),
  metadata: record,
  created_at: at,
})

const trailStep = z.strictObject({
  step_id: id,
  phase: text(500),
  status: text(500),
  tool_call_ids: rows(id, 1_000),
  metadata: record,
  error: longText.nullable(),
  started_at: at,
  ended_at: at.nullable(),
})

const trailWait = z.strictObject({
  step_id: id,
  tool_call_id: id,
  tool_name: text(500),
  wait_status: z.enum(waitStatuses),
  tool_call_card_id: id.nullable(),
  tool_result_card_id: id.nullable(),
  after_execution: z.enum(['suspend', 'terminate']),
  idempotent: z.boolean(),
  turn_epoch: z.number().int().min(0),
  created_at: at,
})

const trailEntry = z.strictObject({
  seq: z.number().int().min(1),
  kind: text(40),
  continued: z.boolean(),
  call_id: z.string().max(500).nullable(),
  name: z.string().max(500).nullable(),
  content: z.string().max(65_536),
  created_at: at,
})

export const trailDocument = z
  .strictObject({
    format: z.literal(trailFormat),
    version: z.union([z.literal(1), z.literal(trailVersion)]),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/, 'must be 64 characters 0-9 and a-f')
      .optional()
      .describe('the hash of the rest of the document as JSON with sorted keys; from version 2 on'),
    bellwether: text(100).describe('the version of the program that wrote the document'),
    turn: z.strictObject({
      agent_turn_id: turnId,
      project_id: token,
      agent_id: token,
      message_type: z.enum(messageTypes).extract(['turn', 'ui_action']),
      session_id: id.nullable(),
      turn_epoch: z.number().int().min(0).nullable(),
      deaths: z.number().int().min(0),
      created_at: at,
      started_at: at.nullable(),
      ended_at: at,
      outcome: z.enum(outcomes),
      error: longText.nullable(),
      deliverable_card_id: id.nullable(),
      output_box_id: id.nullable(),
      payload: record.describe('the payload of the request, without the ids of boxes and budgets'),
    }),
    context: rows(trailCard, trailLimits.cards).describe('the cards of its context box'),
    cards: rows(trailCard, trailLimits.cards).describe('the cards that it wrote, in order, with the deliverable'),
    steps: rows(trailStep, trailLimits.steps),
    waits: rows(trailWait, trailLimits.steps).describe('its tool calls, in order'),
    receipts: rows(id, trailLimits.steps).describe('the ids of the result cards, in the order of their arrival'),
    compacted: rows(trailCard, trailLimits.cards).describe('result cards that a compaction removed from its box'),
    transcript: rows(trailEntry, trailLimits.entries),
  })
  .meta({ id: 'Trail' })

export type Trail = z.output<typeof trailDocument>
export type TrailCard = Trail['cards'][number]

const trailExecutors = ['model', 'command', 'person', 'function', 'action', 'none'] as const

const replayStep = z.object({
  step: z.number().describe('`turn fork --at` takes it'),
  title: z.string(),
  result: z.enum(['same', 'differs', 'not_reached']),
})

const difference = z.object({
  step: z.number().nullable(),
  what: z.string(),
  recorded: z.string(),
  replayed: z.string(),
})
export type Difference = Readonly<z.output<typeof difference>>

const replayReport = z.object({
  agent_turn_id: z.string(),
  result: z.enum(['exact', 'differs']),
  executor: z.enum(trailExecutors).describe('`none`: the turn never started'),
  rerun: z
    .boolean()
    .describe('whether the decisions were made again; false for a function, whose code the trail does not have'),
  compared: z.string().describe('what was made again and compared'),
  steps: list(replayStep).describe(
    'the steps that the trail has; a turn can be forked after each of them, and after 0',
  ),
  first_step: z.number().describe('the first step to fork from; above 0 if older steps were compacted'),
  difference: difference.nullable().describe('the first difference; step null: the deliverable'),
  deliverable: z.object({ recorded_sha256: z.string().nullable(), replayed_sha256: z.string().nullable() }),
})
export type ReplayReport = z.output<typeof replayReport>

export const forkEdit = z
  .strictObject({
    instruction: longText.min(1).optional().describe('replaces the instruction of the turn'),
    results: z
      .record(id, z.unknown())
      .optional()
      .describe('by tool call id: replaces the result of a call that the fork keeps'),
    message: text(messageMaxChars).optional().describe('a message that the agent gets before its next step'),
  })
  .refine((edit) => Object.keys(edit).length > 0, { error: 'must have instruction, results or message' })
export type ForkEdit = z.output<typeof forkEdit>

const oneTurn = inProject.extend({ turn: id })

export const trailRoutes = {
  'GET /projects/:project/turns/:turn/replay': {
    summary: 'Replay an ended turn from its trail',
    description:
      'Makes the decisions of the turn again, from its stored cards alone, and compares each step and the deliverable. Calls no model and no tool, and writes nothing. A turn that has not ended refuses it (409 `turn_not_ended`).',
    params: oneTurn,
    responses: { 200: replayReport },
  },
  'POST /projects/:project/turns/:turn/fork': {
    summary: 'Start a new turn from a step of an ended one',
    description:
      'The new turn has the cards of the old one up to and including step `at`, with ids of its own, and continues from there. An agent that was made for one task takes no other turn: the agent from which it was made gets the fork. The old turn does not change and is the parent of the new one. 400 `unknown_step` lists the steps.',
    params: oneTurn,
    bodyBytesMax: bodyBytes.large,
    body: z.strictObject({
      at: z.number().int().min(0).max(1_000_000).describe('0: before the first step'),
      edit: forkEdit.optional(),
    }),
    responses: { 202: startedTurn },
  },
  'GET /projects/:project/turns/:turn/export': {
    summary: 'Export an ended turn as one document',
    description:
      'The document has everything that the agent read and wrote, which may contain secrets that agents printed. It has no API keys, lease tokens, settings or environment variables. A trail above 8 MB is refused (`trail_too_large`). The hash shows whether a document was cut, damaged or edited later.',
    params: oneTurn,
    responses: { 200: trailDocument },
  },
  'POST /projects/:project/imports': {
    summary: 'Import a turn that was exported elsewhere',
    description:
      'Stores the turn with its cards, steps and transcript, marked as imported. It is never run. It keeps its ids: a turn that the database has is refused (409 `turn_exists`). A document that is invalid, damaged or newer than this server changes nothing.',
    params: inProject,
    bodyBytesMax: bodyBytes.large,
    body: z.looseObject({ format: z.unknown(), version: z.unknown() }).describe('a document of the export'),
    responses: { 201: z.object({ agent_turn_id: z.string(), agent_id: z.string(), outcome: z.enum(outcomes) }) },
  },
} as const satisfies Record<string, Route>
