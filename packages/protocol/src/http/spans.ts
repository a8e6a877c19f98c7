/** The spans of a turn: everything that took time, for a waterfall. Derived from the stored rows; nothing is written for them. */
import { z } from '../deferred.js'
import { count } from '../counts.js'
import { id, inProject, list, time, type Route, type Row } from './shapes.js'

/** The most spans of one response. */
export const spansMax = 10_000

const spanKinds = ['queue', 'lease', 'run', 'step', 'tool', 'person', 'account', 'child'] as const

const span = z.object({
  span_id: z.string(),
  parent_span_id: z.string().nullable(),
  kind: z
    .enum(spanKinds)
    .describe(
      '`queue`: it waited for its agent; `lease`: it was leased and waited for a worker; `run`: from its start to its end; `person`: a question or an approval; `account`: the account of its model was at a limit; `child`: a turn that it enqueued',
    ),
  name: z
    .string()
    .describe('the phase of a step, the tool, the agent of a child; of a later lease `takeover` or `resume`'),
  agent_turn_id: z.string().describe('the child, if the span is a child'),
  status: z.string().nullable(),
  started_at: time,
  ended_at: time.nullable().describe('null: it has not ended'),
  error: z.string().nullable(),
  model: z.string().nullable(),
  tokens: z.number().nullable(),
  cost_micros: z.number().nullable(),
  first_token_ms: z.number().nullable().describe('from the request of a model call to the first part of its answer'),
  tries: z.number().nullable().describe('how often the model was called for this step'),
  call_card_id: z.string().nullable().describe('the card with the arguments of a tool call'),
  result_card_id: z.string().nullable(),
  transcript_seq: z.number().nullable().describe('the entry of the transcript in which it begins'),
})
export type Span = z.output<typeof span>
export type SpanRow = Row<z.input<typeof span>>

/** What only some kinds of spans have. */
export const spanWithoutDetails = {
  status: null,
  ended_at: null,
  error: null,
  model: null,
  tokens: null,
  cost_micros: null,
  first_token_ms: null,
  tries: null,
  call_card_id: null,
  result_card_id: null,
  transcript_seq: null,
} as const satisfies Partial<Span>

export const spanRoutes = {
  'GET /projects/:project/turns/:turn/spans': {
    summary: 'Read everything in a turn that took time',
    description: `Queue, leases, run, steps, tool calls, waits for people and accounts, and children, by start. At most ${count(spansMax)}: of more, the first ones.`,
    params: inProject.extend({ turn: id }),
    responses: { 200: z.object({ spans: list(span), truncated: z.boolean() }) },
  },
} as const satisfies Record<string, Route>
