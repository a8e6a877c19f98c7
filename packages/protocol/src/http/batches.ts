/** Fork-join: batches of tasks that no turn waits for. */
import { z } from '../deferred.js'
import { outcomes, targetStrategies } from '../vocabulary.js'
import {
  bodyBytes,
  fieldSpec,
  id,
  inProject,
  limit,
  list,
  longText,
  page,
  text,
  time,
  token,
  type Route,
  type Row,
} from './shapes.js'

export const batchTasks = z.strictObject({
  tasks: z
    .array(
      z.strictObject({
        target_strategy: z.enum(targetStrategies),
        target_ref: token,
        instruction: longText.min(1).optional(),
        context_box_id: id.optional(),
        result_fields: z.array(fieldSpec).min(1).max(200).optional(),
      }),
    )
    .min(1)
    .max(2_000),
  fail_fast: z.boolean().optional(),
  deadline_seconds: z.number().positive().max(2_592_000).optional(),
})
export type BatchTasks = z.output<typeof batchTasks>

const batchLine = z.object({
  batch_id: z.string(),
  status: z.string(),
  task_count: z.number(),
  open_count: z.number(),
  done_count: z.number(),
  failed_count: z.number(),
  deadline: time.nullable(),
  created_at: time,
  ended_at: time.nullable(),
  parent_agent_turn_id: z.string().nullable(),
  tool_call_id: z.string().nullable(),
})

export type BatchLine = z.input<typeof batchLine>

const batchTask = z.object({
  position: z.number(),
  target_strategy: z.string(),
  target_ref: z.string(),
  agent_id: z.string().nullable(),
  agent_turn_id: z.string(),
  status: z.string(),
  tries: z.number(),
  outcome: z.enum(outcomes).nullable(),
  error: z.string().nullable(),
  deliverable_card_id: z.string().nullable(),
  content: z.unknown(),
  content_truncated: z
    .boolean()
    .describe('the content is left out because the response would be too large: read the card'),
})

const batch = batchLine.extend({
  project_id: z.string(),
  parent_agent_id: z.string().nullable(),
  parent_turn_epoch: z.number().nullable(),
  parent_step_id: z.string().nullable(),
  channel_id: z.string().nullable(),
  traceparent: z.string().nullable(),
  recursion_depth: z.number(),
  fail_fast: z.boolean(),
  settled_at: time.nullable(),
  tasks: list(batchTask),
})

export type BatchRow = Row<z.input<typeof batch>>

export const batchRoutes = {
  'POST /projects/:project/batches': {
    summary: 'Run several tasks and join their results',
    params: inProject,
    bodyBytesMax: bodyBytes.large,
    body: batchTasks.extend({ channel_id: token.optional(), traceparent: text(100).optional() }),
    responses: { 202: z.object({ batch_id: z.string(), status: z.literal('open') }) },
  },
  'GET /projects/:project/batches': {
    summary: 'List batches that are not settled',
    params: inProject,
    query: z.object({ cursor: text(100).default('0'), limit: limit(500, 100) }),
    responses: { 200: page('batches', batchLine, z.string()) },
  },
  'GET /projects/:project/batches/:batch': {
    summary: 'Read a batch with its tasks in order',
    params: inProject.extend({ batch: id }),
    responses: { 200: batch },
  },
} as const satisfies Record<string, Route>
