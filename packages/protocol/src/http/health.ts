/** Health of the server and its components, metrics, sign-in, and the description of the API. */
import { z } from '../deferred.js'
import { healthStates } from '../vocabulary.js'
import { list, record, time, type Route } from './shapes.js'

const state = z.enum(healthStates)

const healthSummary = z.object({
  status: state,
  units: z.number(),
  restarts: z.number(),
  changes: z.number(),
  troubled: z.record(z.string(), state),
})
export type HealthSummary = z.infer<typeof healthSummary>

const component = z.object({
  kind: z
    .string()
    .describe('`part`: a supervised process; `target`: a worker target without workers; otherwise a unit of a view'),
  name: z.string(),
  state,
  own_state: state,
  because: z.string().nullable(),
  restarts: z.number(),
  error: z.string().nullable(),
  depends_on: list(z.string()),
  status: z.enum(['starting', 'ready', 'waiting', 'quarantined', 'stopped']).optional(),
  pid: z.number().nullable().optional(),
  last_end: z.string().nullable().optional(),
  since: time.nullable().optional(),
  next_start_at: time.nullable().optional(),
})

export type Component = z.output<typeof component>

const readiness = {
  database: z.boolean().optional(),
  draining: z.boolean().optional(),
  receiver: z.boolean().describe('whether the server accepts connections'),
  targets_without_workers: z.array(z.string()).optional().describe('worker targets whose turns wait for a worker'),
  views: z.record(z.string(), z.boolean()),
}

export const healthRoutes = {
  'GET /health/components': {
    summary: 'List supervised processes and units of views with their health',
    responses: { 200: z.object({ summary: healthSummary, components: list(component) }) },
  },
  'GET /healthz': {
    summary: 'Check that the process is alive',
    outside: true,
    responses: { 200: z.object({ status: z.literal('ok') }) },
  },
  'GET /readyz': {
    summary: 'Check that the server can work',
    outside: true,
    responses: {
      200: z.object({ status: z.literal('ready'), ...readiness }),
      503: z.object({ status: z.literal('not_ready'), ...readiness }),
    },
  },
  'GET /metrics': {
    summary: 'Read metrics in the Prometheus format; a public address requires a key',
    outside: true,
    responses: { 200: 'text/plain' },
  },
  'GET /openapi.json': { summary: 'Read this description', outside: true, responses: { 200: record } },
} as const satisfies Record<string, Route>
