/** The transcript of a turn: what its agent wrote and did, in order. Workers append; people and programs read it live and afterwards. */
import { z } from '../deferred.js'
import { outcomes, transcriptKinds } from '../vocabulary.js'
import {
  bodyBytes,
  eventStream,
  fenced,
  id,
  inProject,
  limit,
  numberCursor,
  page,
  text,
  time,
  type Route,
  type Row,
} from './shapes.js'

const entry = z.object({
  seq: z.number().describe('numbers the entries of the turn, also across takeovers'),
  turn_epoch: z.number().describe('the epoch of the worker that wrote it: higher after a takeover'),
  created_at: time,
  kind: z
    .enum([...transcriptKinds, 'truncated'])
    .describe('`truncated`: entries were left out here; `left_out` says how much'),
  continued: z.boolean().describe('the content continues the entry before it without a break'),
  call_id: z.string().nullable().describe('the tool call that the entry belongs to'),
  name: z.string().nullable().describe('the tool, program or person'),
  content: z.string().describe('at most 16 KiB: longer content has several entries'),
  left_out: z.object({ entries: z.number(), bytes: z.number() }).nullable(),
})
export type TranscriptEntry = z.output<typeof entry>
export type TranscriptEntryRow = Row<z.input<typeof entry>>

const oneTurn = inProject.extend({ turn: id })
/** The server lets a request body of 2 MiB pass through one statement without delaying others. */
const entriesMax = 200

export const transcriptRoutes = {
  'GET /projects/:project/turns/:turn/transcript': {
    summary: 'Read the transcript of a turn',
    description:
      'What the agent wrote and did, oldest first: text, thoughts, tool calls with arguments and results, output of programs. A running turn may add entries: read on after the last `seq`. With `before`, the page has the newest entries before it, and its cursor is the `before` of the page that precedes it.',
    params: oneTurn,
    query: z.object({
      after: numberCursor,
      before: numberCursor.describe('instead of `after`: read backwards from this `seq`; 2147483647 is the end'),
      limit: limit(500, 200),
    }),
    responses: { 200: page('entries', entry, z.number()) },
  },
  'GET /projects/:project/turns/:turn/transcript/events': {
    summary: 'Follow the transcript of a turn',
    description:
      'Sends all entries, then each new one, and ends after `end`. The id of an event is the `seq` of its entry: `Last-Event-ID`, or `?after=`, continues after it.',
    params: oneTurn,
    query: z.object({ after: numberCursor }),
    responses: { 200: eventStream },
    events: {
      entry,
      end: z.object({ agent_turn_id: z.string(), outcome: z.enum(outcomes).nullable(), ended_at: time.nullable() }),
    },
  },
  'GET /projects/:project/turns/:turn/transcript/text': {
    summary: 'Download the transcript of a turn as text',
    params: oneTurn,
    responses: { 200: 'text/plain' },
  },
  'POST /turns/:turn/transcript': {
    summary: 'Append to the transcript of the turn',
    description:
      'With `session` (a random number per run of the turn) and `first` (the number of the first entry in that session, from 1), the request can be repeated safely. Longer content is split into several entries.',
    params: z.object({ turn: id }),
    bodyBytesMax: bodyBytes.large,
    body: z.strictObject({
      ...fenced,
      session: z.number().int().min(0).max(2_147_483_647).optional(),
      first: z.number().int().min(1).max(500_000_000).default(1),
      entries: z
        .array(
          z.strictObject({
            kind: z.enum(transcriptKinds),
            content: z.string().max(16_384).describe('at most 16,384 characters'),
            continued: z.boolean().optional(),
            call_id: text(200).optional(),
            name: text(200).optional(),
          }),
        )
        .min(1)
        .max(entriesMax),
    }),
    responses: { 200: z.object({ status: z.literal('appended'), seq: z.number().describe('the last entry') }) },
  },
} as const satisfies Record<string, Route>
