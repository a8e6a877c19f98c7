/** The event stream of a project, and the actions of watchdogs. */
import { z } from '../deferred.js'
import { eventKinds } from '../vocabulary.js'
import {
  eventStream,
  inProject,
  limit,
  list,
  numberCursor,
  page,
  record,
  text,
  time,
  token,
  type Route,
  type Row,
} from './shapes.js'
import { intervention } from './turns.js'

const projectEvent = z.object({
  event_id: z.number(),
  subject: z.string().describe('the subject under which the relay publishes it'),
  kind: z.enum(eventKinds),
  payload: record.describe(
    '`agent_turn_id`, `agent_id`, and by kind: task `status`, `output_box_id`, `deliverable_card_id`, `error`, with `budget_exceeded` the `exceeded_keys`; state `status` (one event per transition: dispatched, running, suspended, idle), `turn_epoch`, `metadata` (activity, tool, waits, `reclaimed`); step `step_id`, `phase`; command `tool_call_id`, `tool_name`',
  ),
  agent_turn_id: z.string().nullable(),
  created_at: time,
})
export type ProjectEvent = z.output<typeof projectEvent>
export type EventRow = Row<z.input<typeof projectEvent>>

/** What the event webhook posts (`pmo.event_webhook_url`): events of all projects, in order. */
export const eventWebhookBody = z.object({
  events: list(
    projectEvent.extend({
      cursor: z.string().describe('the position of the event; a repeated event has the same'),
      project_id: z.string(),
    }),
  ).describe('task, state and step events, 1 to 100'),
})
export type EventWebhookBody = z.input<typeof eventWebhookBody>

/** What the channels of `[notify]` send: one message about something that needs a person, or an alert. */
export const noticeBody = z.object({
  id: z.string().describe('the same if the message is repeated'),
  kind: z.string(),
  text: z.string(),
  link: z.string().optional().describe('opens the item in the dashboard'),
  at: z.string(),
  project: z.string().optional(),
  deadline: z.string().optional().describe('of a question'),
  agent: z.string().optional(),
  turn: z.string().optional(),
  question: z.string().optional().describe('the id of the tool call that waits for the answer'),
  approval: z.string().optional().describe('the id of the approval that waits for a decision'),
  taskId: z.string().optional(),
  root: z.string().optional().describe('the task root'),
  details: z.record(z.string(), z.unknown()).optional(),
})
export type NoticeBody = z.input<typeof noticeBody>

const position = z.object({ cursor: z.string().describe('the position from which the stream continues') })

const projectIntervention = intervention.extend({ project_id: z.string().nullable(), agent_id: z.string().nullable() })

export type Intervention = z.output<typeof projectIntervention>
export type InterventionRow = Row<z.input<typeof projectIntervention>>

export const eventRoutes = {
  'GET /projects/:project/events': {
    summary: 'Follow the events of a project',
    description:
      'Each event has an id. `Last-Event-ID`, or `?cursor=`, continues after that event; `0:0` is the beginning; without a cursor the stream starts now. `reset`: events after the cursor were deleted, and the stream continues from now.',
    params: inProject,
    query: z.object({
      cursor: text(60).optional(),
      kind: z
        .string()
        .transform((kinds) => kinds.split(','))
        .pipe(z.array(z.enum(eventKinds)))
        .optional(),
      agent: token.optional(),
    }),
    responses: { 200: eventStream },
    events: {
      hello: position,
      reset: position,
      task: projectEvent,
      state: projectEvent,
      step: projectEvent,
      command: projectEvent,
    },
  },
  'GET /watchdog/interventions': {
    summary: 'List what watchdogs did, newest first',
    query: z.object({
      project: token.optional(),
      kind: text(100).optional(),
      cursor: numberCursor,
      limit: limit(500, 100),
    }),
    responses: { 200: page('interventions', projectIntervention, z.number()) },
  },
} as const satisfies Record<string, Route>
