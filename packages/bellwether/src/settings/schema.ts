/**
 * Every setting there is: its section, type, bounds, default and meaning. Always: a key says its unit, every number is
 * finite and positive, every key may be absent. The documentation's table is made from settingRows(). Reading files and
 * the environment is left to load.ts, and what a setting does to whoever is handed it.
 */
import { z } from 'zod'

const daySeconds = 86_400
const longestSeconds = 365 * daySeconds

interface Bounds {
  readonly min?: number
  readonly max?: number
}

/** A duration; parts of a second are allowed, because tests live on them. */
function seconds(fallback: number, description: string, { min = 0.01, max = 7 * daySeconds }: Bounds = {}) {
  return z.number().min(min).max(max).default(fallback).describe(description)
}

function count(fallback: number, description: string, { min = 1, max = 1_000_000 }: Bounds = {}) {
  return z.number().int().min(min).max(max).default(fallback).describe(description)
}

function text(description: string) {
  return z.string().min(1).max(4_096).optional().describe(description)
}

const pmo = z.object({
  watchdog_interval_seconds: seconds(5, 'How often the PMO looks for turns that need it.'),
  dispatched_retry_seconds: seconds(10, 'A leased turn that nobody started is announced again after this long.'),
  dispatched_timeout_seconds: seconds(30, 'A leased turn that nobody started is ended after this long.'),
  pending_wakeup_seconds: seconds(5, 'A pending inbox row older than this is announced again.'),
  pending_wakeup_skip_seconds: seconds(60, 'A pending row older than this with no channel, or no agent, is put aside.'),
  active_reap_seconds: seconds(300, 'A running turn without a beat is ended after this long.'),
  suspended_reap_seconds: seconds(300, 'A suspended turn past its resume deadline is ended after this long.'),
  max_queue_seconds: seconds(3_600, 'The longest that a busy fleet may leave a leased turn or a receipt unclaimed.', {
    max: 30 * daySeconds,
  }),
  turn_deadline_seconds: seconds(3_600, 'The longest a turn may take, from lease to end.', { max: 30 * daySeconds }),
  max_recursion_depth: count(20, 'How deep turns may start other turns.', { max: 1_000 }),
  retention_days: count(30, 'How long finished turns and their trail are kept.', { max: 3_650 }),
})

const worker = z.object({
  inbox_processing_timeout_seconds: seconds(30, 'A claimed inbox row without a beat is given to another worker.'),
  watchdog_interval_seconds: seconds(5, 'How often a worker looks after its own claims and waits.'),
  suspend_timeout_seconds: seconds(30, 'How long a suspended turn waits for a tool; tools may override it.'),
  resume_lease_seconds: seconds(30, 'How long a worker may take to apply a tool result it has claimed.'),
  beat_seconds: seconds(5, 'How often a running turn shows that it is alive.'),
  poll_seconds: seconds(5, 'How often workers and relays look for work when no bell rings.', { max: 3_600 }),
  max_attempts: count(3, 'How many workers may try one turn before it fails.', { max: 100 }),
  concurrency: count(16, 'How many turns one worker runs at the same time.', { max: 10_000 }),
})

const view = z.object({
  session_timeout_seconds: seconds(30, 'A sensor that is silent for longer loses its session.'),
  audit_interval_seconds: seconds(43_200, 'How often the leading sensor scans everything.', { max: longestSeconds }),
  sentinel_interval_seconds: seconds(300, 'How often suspect files are looked at again.', { max: longestSeconds }),
  hot_file_threshold_seconds: seconds(60, 'A file changed more recently than this is a suspect.'),
  tombstone_ttl_seconds: seconds(3_600, 'How long a deletion is remembered against late reports.', {
    max: longestSeconds,
  }),
  live: z.boolean().default(true).describe('Whether changes are reported as they happen, not only by scans.'),
  exclude: z
    .string()
    .max(4_096)
    .default('.git,node_modules')
    .describe('Globs, separated by commas, of what `up` keeps out of the view of its folder.'),
})

const board = z.object({
  root: text('The folder with the tasks; absent: the project folder.'),
  first_agent: z
    .string()
    .min(1)
    .max(255)
    .default('coder')
    .describe('Who tries a task that names no agent and no role.'),
  max_concurrent_spawns: count(4, 'How many turns the board has going at the same time.', { max: 10_000 }),
  autopilot_interval_seconds: seconds(5, 'How often the autopilot looks at the board when nothing wakes it.'),
  claim_lease_seconds: seconds(60, 'A dispatcher that claimed a task and did not start it loses it after this long.'),
  spawn_grace_seconds: seconds(60, 'A started run that the kernel does not know is given up after this long.'),
  lock_check_seconds: seconds(900, 'How often locks are checked in a dry run.'),
  snapshot_check_seconds: seconds(86_400, 'How often the snapshot is rebuilt in a dry run and compared.'),
  runs_retention_days: count(30, 'How long the files of ended runs are kept.', { max: 3_650 }),
  view_url: text('The server of the view that claimed files are looked up in; absent: the disk of this machine.'),
  view: text('The name of that view.'),
  view_key: text('The key of that view.'),
  view_source: text('Which of its sources, where it has several.'),
  view_path: z.string().min(1).max(4_096).default('/').describe('Where the task root lies in that view.'),
  alert_webhook_url: text('Where alerts are posted as JSON; absent: they are only logged and counted.'),
})

const server = z.object({
  host: z.string().min(1).max(255).default('127.0.0.1').describe('The address to listen on.'),
  port: count(7717, 'The port to listen on; 0 picks a free one.', { min: 0, max: 65_535 }),
  requests_per_second: count(1_000, 'How many requests a key may make a second, and twice as many at once.'),
  audit_retention_days: count(90, 'How long the audit log is kept.', { max: 3_650 }),
})

const database = z.object({
  url: text('PostgreSQL to use, as postgres://user:password@host/name; absent: the embedded one.'),
  direct_url: text('The same database without a pooler in between, for LISTEN; absent: the same as url.'),
  pool_size: count(10, 'The most connections one process opens.', { max: 1_000 }),
  statement_timeout_seconds: seconds(30, 'The longest one statement may take.', { max: 3_600 }),
})

const nats = z.object({
  url: text('NATS servers, as nats://host:port, several separated by commas; absent: PostgreSQL notify is the bell.'),
})

const telemetry = z.object({
  otlp_endpoint: text(
    'A collector for traces, as http://host:4318; absent: OTEL_EXPORTER_OTLP_ENDPOINT, and without that none.',
  ),
  trace_percent: count(100, 'How many of a hundred traces are told to it.', { max: 100 }),
  metrics_port: z
    .number()
    .int()
    .min(0)
    .max(65_535)
    .optional()
    .describe('Where a worker or PMO serves /metrics, on loopback; 0 picks a free port; absent: nowhere.'),
})

/** One zod object a section, by the section's name. */
export const sections = { pmo, worker, view, board, server, database, nats, telemetry } as const

export type SectionName = keyof typeof sections
export type Settings = { readonly [S in SectionName]: Readonly<z.output<(typeof sections)[S]>> }

export interface SettingRow {
  readonly section: SectionName
  readonly key: string
  readonly type: 'number' | 'integer' | 'boolean' | 'string'
  /** Absent: the setting has no value unless given one. */
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
    ...(fallback === undefined ? {} : { default: fallback }),
    ...(minimum === undefined ? {} : { min: minimum }),
    ...(maximum === undefined ? {} : { max: maximum }),
  }
}

/** Every setting as a row, in the order of the file: for documentation, and for telling people what is possible. */
export function settingRows(): SettingRow[] {
  return Object.entries(sections).flatMap(([section, schema]) => {
    const { properties = {} } = z.toJSONSchema(schema, { io: 'input' })
    return Object.entries(properties).map(([key, property]) => row(section as SectionName, key, property))
  })
}
