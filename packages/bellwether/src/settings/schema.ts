/**
 * Defines every setting: its section, type, bounds, default and description. A key names its unit, every number has bounds, and every
 * key is optional. The reference page is generated from settingRows(). load.ts reads the file and the environment.
 */
import { defined } from '@bellwether/base'
import { z } from 'zod'

const daySeconds = 86_400
const longestSeconds = 365 * daySeconds

/** Where the code of a function agent may run. */
export const isolations = ['none', 'thread', 'process'] as const
// Node itself needs about 10 MiB of heap.
export const memoryMb = { min: 16, max: 1_048_576 } as const

interface Bounds {
  readonly min?: number
  readonly max?: number
}

/** A duration. Fractions are allowed, because tests use short timings. */
function seconds(fallback: number, description: string, { min = 0.01, max = 7 * daySeconds }: Bounds = {}) {
  return z.number().min(min).max(max).default(fallback).describe(description)
}

function count(fallback: number, description: string, { min = 1, max = 1_000_000 }: Bounds = {}) {
  return z.number().int().min(min).max(max).default(fallback).describe(description)
}

function text(description: string) {
  return z.string().min(1).max(4_096).optional().describe(description)
}

/** Names of views, checked when the views are opened. */
function names(description: string) {
  return z.string().max(4_096).default('').describe(description)
}

const pmo = z.object({
  watchdog_interval_seconds: seconds(5, 'How often the guard checks all turns.'),
  dispatched_retry_seconds: seconds(
    10,
    'The guard rings the bell again for a leased turn that no worker started within this time.',
  ),
  dispatched_timeout_seconds: seconds(30, 'The guard ends a leased turn that no worker started within this time.'),
  pending_wakeup_seconds: seconds(5, 'The guard rings the bell again for a pending inbox row older than this.'),
  pending_wakeup_skip_seconds: seconds(
    60,
    'The guard skips a pending row older than this that names no channel or no agent.',
  ),
  active_reap_seconds: seconds(300, 'The guard ends a running turn after this time without a beat.'),
  suspended_reap_seconds: seconds(300, 'The guard ends a suspended turn this long after its resume deadline.'),
  max_queue_seconds: seconds(
    3_600,
    'How long a leased turn or a receipt may wait while its target has no free worker, or no worker at all.',
    { max: 30 * daySeconds },
  ),
  turn_deadline_seconds: seconds(3_600, 'The maximum duration of a turn, from lease to end.', { max: 30 * daySeconds }),
  relay_poll_seconds: seconds(
    0.1,
    'How often the relay reads the outbox when the bell does not ring: the longest delay of a tool command or event.',
    { max: 60 },
  ),
  max_recursion_depth: count(20, 'The maximum depth of turns that start other turns.', { max: 1_000 }),
  retention_days: count(30, 'How many days ended turns and their events are kept.', { max: 3_650 }),
})

const worker = z.object({
  inbox_processing_timeout_seconds: seconds(
    30,
    'After this time without a beat, another worker takes over a claimed turn.',
  ),
  watchdog_interval_seconds: seconds(5, 'How often a worker checks claims and waits of its target.'),
  suspend_timeout_seconds: seconds(30, 'How long a suspended turn waits for a tool call. A tool may override it.'),
  resume_lease_seconds: seconds(30, 'How long a worker may take to apply a tool result that it claimed.'),
  beat_seconds: seconds(5, 'How often a worker sends a beat for its running turns.'),
  poll_seconds: seconds(5, 'How often workers and tool hosts poll for work when the bell does not ring.', {
    max: 3_600,
  }),
  max_deaths: count(3, 'How many workers may die while a turn is alone in them, before the turn fails.', { max: 100 }),
  concurrency: count(16, 'How many turns one worker runs at the same time.', { max: 10_000 }),
  blocked_max_seconds: seconds(
    300,
    'A worker process whose event loop is blocked by agent code for longer ends itself, and other workers take over its turns.',
  ),
  isolation: z
    .enum(isolations)
    .default('none')
    .describe(
      'Where functions of an agents file run that state no isolation: in the worker (none), or one thread or process per turn.',
    ),
  memory_max_mb: count(1_024, 'The memory limit of a function agent in a thread or process that states none, in MiB.', {
    ...memoryMb,
  }),
  // Four of the largest cards, and more than any prompt holds; 16 turns with two full boxes each stay below 256 MB.
  hydrate_max_bytes: count(
    4_194_304,
    'How many bytes a turn reads of its context and of its memory, newest cards first. Older cards are left out, and the prompt says so.',
    { min: 4_096, max: 1_073_741_824 },
  ),
})

const view = z.object({
  session_timeout_seconds: seconds(30, 'A sensor loses its session after this time without a heartbeat.'),
  audit_interval_seconds: seconds(43_200, 'How often the leading sensor audits the whole tree.', {
    max: longestSeconds,
  }),
  sentinel_interval_seconds: seconds(300, 'How often the sentinel checks suspect files.', { max: longestSeconds }),
  hot_file_threshold_seconds: seconds(60, 'A file is a suspect if it changed more recently than this.'),
  tombstone_ttl_seconds: seconds(3_600, 'How long a tombstone protects a deletion against older reports.', {
    max: longestSeconds,
  }),
  live: z
    .boolean()
    .default(true)
    .describe(
      'Whether views are live: unavailable while a pipe is down, empty after their last sensor has left. False: all are persistent and stay readable.',
    ),
  persistent: names('Comma-separated names of views that are persistent although `live` is true.'),
  strict: names('Comma-separated names of views that accept one sensor each.'),
  exclude: z
    .string()
    .max(4_096)
    .default('.git,node_modules')
    .describe('Comma-separated globs that `up` excludes from the view of its folder.'),
})

const sensor = z.object({
  session_timeout_seconds: z
    .number()
    .min(0.1)
    .max(7 * daySeconds)
    .optional()
    .describe(
      'The session timeout that sensors request. The longer of this and view.session_timeout_seconds applies. Default: the server decides.',
    ),
  poll_seconds: seconds(2, 'How often a sensor without inotify lists its directories.', { max: daySeconds }),
  stuck_seconds: seconds(60, 'A sensor restarts a task that makes no progress for this long.', { min: 1 }),
})

const board = z.object({
  root: text('The task root. Default: the project folder.'),
  first_agent: z
    .string()
    .min(1)
    .max(255)
    .default('coder')
    .describe('The agent of a task that names no agent and no role.'),
  max_concurrent_spawns: count(4, 'How many turns of the board run at the same time.', { max: 10_000 }),
  autopilot_interval_seconds: seconds(
    5,
    'How often the autopilot checks the board. A change of the board or the end of a turn wakes it earlier.',
  ),
  claim_lease_seconds: seconds(60, 'How long a dispatcher may take to start a task that it claimed.'),
  spawn_grace_seconds: seconds(60, 'The board gives up a started run that the kernel does not know after this time.'),
  lock_check_seconds: seconds(900, 'How often maintenance checks for stale locks, without changing anything.'),
  snapshot_check_seconds: seconds(
    86_400,
    'How often maintenance compares the snapshot with the log, without changing anything.',
  ),
  runs_retention_days: count(30, 'How many days the files of ended runs are kept.', { max: 3_650 }),
  view_url: text('The URL of the server whose view checks evidence files. Default: the local disk.'),
  view: text('The name of the view at view_url.'),
  view_key: text('The API key of the view at view_url.'),
  view_source: text('The source of the view at view_url, if the view has several.'),
  view_path: z.string().min(1).max(4_096).default('/').describe('The path of the task root in the view at view_url.'),
  alert_webhook_url: text(
    'The URL that receives alerts of the board and the PMO as JSON. Default: alerts are only logged and counted.',
  ),
})

const server = z.object({
  host: z.string().min(1).max(255).default('127.0.0.1').describe('The address to listen on.'),
  port: count(7717, 'The port to listen on; 0 picks a free one.', { min: 0, max: 65_535 }),
  requests_per_second: count(1_000, 'The request rate per API key; bursts may be twice as high.'),
  audit_retention_days: count(90, 'How many days the audit log is kept.', { max: 3_650 }),
})

const database = z.object({
  url: text('The PostgreSQL database, as postgres://user:password@host/name. Default: the embedded PostgreSQL.'),
  direct_url: text('The same database without a connection pooler, for LISTEN. Default: url.'),
  pool_size: count(10, 'The maximum number of connections per process.', { max: 1_000 }),
  statement_timeout_seconds: seconds(30, 'The maximum duration of one statement.', { max: 3_600 }),
})

const nats = z.object({
  url: text('Comma-separated NATS servers, as nats://host:port. Default: PostgreSQL notify is the bell.'),
})

const telemetry = z.object({
  otlp_endpoint: text(
    'The OpenTelemetry collector for traces, as http://host:4318. Default: OTEL_EXPORTER_OTLP_ENDPOINT, else no traces.',
  ),
  trace_percent: count(100, 'The percentage of traces that are exported.', { max: 100 }),
  metrics_port: z
    .number()
    .int()
    .min(0)
    .max(65_535)
    .optional()
    .describe(
      'The loopback port on which a worker, PMO or autopilot serves /metrics; 0 picks a free one. Default: none.',
    ),
})

/** One zod object per section. */
export const sections = { pmo, worker, view, sensor, board, server, database, nats, telemetry } as const

export type SectionName = keyof typeof sections
export type Settings = { readonly [S in SectionName]: Readonly<z.output<(typeof sections)[S]>> }

export interface SettingRow {
  readonly section: SectionName
  readonly key: string
  readonly type: 'number' | 'integer' | 'boolean' | 'string'
  /** Absent if the setting is optional. */
  readonly default?: number | boolean | string
  readonly min?: number
  readonly max?: number
  readonly description: string
}

const rowShape = z.object({
  type: z.enum(['number', 'integer', 'boolean', 'string']),
  default: z.union([z.number(), z.boolean(), z.string()]).optional(),
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  description: z.string(),
})

function row(section: SectionName, key: string, property: unknown): SettingRow {
  const { minimum, maximum, default: fallback, ...rest } = rowShape.parse(property)
  return {
    section,
    key,
    type: rest.type,
    description: rest.description,
    ...defined({ default: fallback, min: minimum, max: maximum }),
  }
}

/** Every setting as a row, in the order of this file. */
export function settingRows(): SettingRow[] {
  return Object.entries(sections).flatMap(([section, schema]) => {
    const { properties = {} } = z.toJSONSchema(schema, { io: 'input' })
    return Object.entries(properties).map(([key, property]) => row(section as SectionName, key, property))
  })
}
