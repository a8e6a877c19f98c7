/**
 * Defines every setting: its section, type, bounds, default and description. A key names its unit, every number has bounds, and every
 * key is optional. The reference page is generated from settingRows(). load.ts reads the file and the environment. The rows are plain
 * values and not zod schemas, because every command loads them and zod doubles the start of a short one.
 */
import { defined } from '@bellwether/base'

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

/** One setting. `min` and `max` bound a number, or the length of a string. */
interface Setting<T> {
  readonly type: 'number' | 'integer' | 'boolean' | 'string'
  /** Undefined if the setting is optional. */
  readonly default: T
  readonly min?: number
  readonly max?: number
  readonly choices?: readonly string[]
  readonly description: string
}

/** A duration. Fractions are allowed, because tests use short timings. */
function seconds(fallback: number, description: string, { min = 0.01, max = 7 * daySeconds }: Bounds = {}) {
  return { type: 'number', default: fallback, min, max, description } satisfies Setting<number>
}

function count(fallback: number, description: string, { min = 1, max = 1_000_000 }: Bounds = {}) {
  return { type: 'integer', default: fallback, min, max, description } satisfies Setting<number>
}

function text<T extends string | undefined>(fallback: T, description: string, { min = 1, max = 4_096 }: Bounds = {}) {
  return { type: 'string', default: fallback, min, max, description } satisfies Setting<T>
}

const optionalText = (description: string) => text<string | undefined>(undefined, description)

/** Names of views, checked when the views are opened. */
const names = (description: string) => text<string>('', description, { min: 0 })

function flag(fallback: boolean, description: string) {
  return { type: 'boolean', default: fallback, description } satisfies Setting<boolean>
}

/** The same setting without a default. */
function optional<T>(setting: Setting<T>): Setting<T | undefined> {
  return { ...setting, default: undefined }
}

const pmo = {
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
  event_webhook_url: optionalText(
    'The URL that receives task, state and step events of all projects as JSON, in order. Default: none.',
  ),
  max_recursion_depth: count(20, 'The maximum depth of turns that start other turns.', { max: 1_000 }),
  retention_days: count(30, 'How many days ended turns and their events are kept.', { max: 3_650 }),
} as const

const worker = {
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
  isolation: {
    ...text<(typeof isolations)[number]>(
      'none',
      'Where functions of an agents file run that state no isolation: in the worker (none), or one thread or process per turn.',
    ),
    choices: isolations,
  },
  memory_max_mb: count(1_024, 'The memory limit of a function agent in a thread or process that states none, in MiB.', {
    ...memoryMb,
  }),
  // Four of the largest cards, and more than any prompt holds; 16 turns with two full boxes each stay below 256 MB.
  hydrate_max_bytes: count(
    4_194_304,
    'How many bytes a turn reads of its context and of its memory, newest cards first. Older cards are left out, and the prompt says so.',
    { min: 4_096, max: 1_073_741_824 },
  ),
} as const

const view = {
  session_timeout_seconds: seconds(30, 'A sensor loses its session after this time without a heartbeat.'),
  audit_interval_seconds: seconds(43_200, 'How often the leading sensor audits the whole tree.', {
    max: longestSeconds,
  }),
  sentinel_interval_seconds: seconds(300, 'How often the sentinel checks suspect files.', { max: longestSeconds }),
  hot_file_threshold_seconds: seconds(60, 'A file is a suspect if it changed more recently than this.'),
  tombstone_ttl_seconds: seconds(3_600, 'How long a tombstone protects a deletion against older reports.', {
    max: longestSeconds,
  }),
  live: flag(
    true,
    'Whether views are live: unavailable while a pipe is down, empty after their last sensor has left. False: all are persistent and stay readable.',
  ),
  persistent: names('Comma-separated names of views that are persistent although `live` is true.'),
  strict: names('Comma-separated names of views that accept one sensor each.'),
  exclude: text<string>('.git,node_modules', 'Comma-separated globs that `up` excludes from the view of its folder.', {
    min: 0,
  }),
} as const

const sensor = {
  session_timeout_seconds: optional(
    seconds(
      0,
      'The session timeout that sensors request. The longer of this and view.session_timeout_seconds applies. Default: the server decides.',
      { min: 0.1 },
    ),
  ),
  poll_seconds: seconds(2, 'How often a sensor without inotify lists its directories.', { max: daySeconds }),
  stuck_seconds: seconds(60, 'A sensor restarts a task that makes no progress for this long.', { min: 1 }),
} as const

const board = {
  root: optionalText('The task root. Default: the project folder.'),
  first_agent: text<string>('coder', 'The agent of a task that names no agent and no role.', { max: 255 }),
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
  view_url: optionalText('The URL of the server whose view checks evidence files. Default: the local disk.'),
  view: optionalText('The name of the view at view_url.'),
  view_key: optionalText('The API key of the view at view_url.'),
  view_source: optionalText('The source of the view at view_url, if the view has several.'),
  view_path: text<string>('/', 'The path of the task root in the view at view_url.'),
  alert_webhook_url: optionalText(
    'The URL that receives alerts of the board and the PMO as JSON. Default: alerts are only logged and counted.',
  ),
} as const

const server = {
  host: text<string>('127.0.0.1', 'The address to listen on.', { max: 255 }),
  port: count(7717, 'The port to listen on; 0 picks a free one.', { min: 0, max: 65_535 }),
  requests_per_second: count(1_000, 'The request rate per API key; bursts may be twice as high.'),
  audit_retention_days: count(90, 'How many days the audit log is kept.', { max: 3_650 }),
} as const

const database = {
  url: optionalText(
    'The PostgreSQL database, as postgres://user:password@host/name. Default: the embedded PostgreSQL.',
  ),
  direct_url: optionalText('The same database without a connection pooler, for LISTEN. Default: url.'),
  pool_size: count(10, 'The maximum number of connections per process.', { max: 1_000 }),
  statement_timeout_seconds: seconds(30, 'The maximum duration of one statement.', { max: 3_600 }),
} as const

const nats = {
  url: optionalText('Comma-separated NATS servers, as nats://host:port. Default: PostgreSQL notify is the bell.'),
} as const

const telemetry = {
  otlp_endpoint: optionalText(
    'The OpenTelemetry collector for traces, as http://host:4318. Default: OTEL_EXPORTER_OTLP_ENDPOINT, else no traces.',
  ),
  trace_percent: count(100, 'The percentage of traces that are exported.', { max: 100 }),
  metrics_port: optional(
    count(
      0,
      'The loopback port on which a worker, PMO or autopilot serves /metrics; 0 picks a free one. Default: none.',
      { min: 0, max: 65_535 },
    ),
  ),
} as const

/** The settings by section and key. */
const sections = { pmo, worker, view, sensor, board, server, database, nats, telemetry } as const

type Sections = typeof sections
export type SectionName = keyof Sections
type Default<S> = S extends Setting<infer T> ? T : never
type OptionalKeys<S> = { [K in keyof S]: undefined extends Default<S[K]> ? K : never }[keyof S]
type Values<S> = { readonly [K in Exclude<keyof S, OptionalKeys<S>>]: Default<S[K]> } & {
  readonly [K in OptionalKeys<S>]?: Default<S[K]>
}
export type Settings = { readonly [S in SectionName]: Values<Sections[S]> }

export interface SettingRow extends Setting<number | boolean | string | undefined> {
  readonly section: SectionName
  readonly key: string
}

/** Every setting as a row, in the order of this file. */
export function settingRows(): SettingRow[] {
  return Object.entries(sections).flatMap(([section, settings]) =>
    Object.entries<Setting<number | boolean | string | undefined>>(settings).map(([key, setting]) => ({
      section: section as SectionName,
      key,
      ...setting,
    })),
  )
}

/** Whether `value` has the type of the setting and is within its bounds. */
export function accepts({ type, min = -Infinity, max = Infinity, choices }: SettingRow, value: unknown): boolean {
  if (type === 'boolean') return typeof value === 'boolean'
  if (type === 'string')
    return (
      typeof value === 'string' &&
      value.length >= min &&
      value.length <= max &&
      (choices === undefined || choices.includes(value))
    )
  const isNumber = type === 'integer' ? Number.isSafeInteger(value) : Number.isFinite(value)
  return isNumber && (value as number) >= min && (value as number) <= max
}

/** All settings: `values` where there are some, which the caller has checked, else the defaults. */
export function withDefaults(values: Readonly<Partial<Record<string, Readonly<Record<string, unknown>>>>>): Settings {
  return Object.fromEntries(
    Object.entries(sections).map(([section, settings]) => {
      const defaults = Object.entries<{ default: unknown }>(settings).map(([key, setting]) => [key, setting.default])
      return [section, defined({ ...Object.fromEntries(defaults), ...values[section] })]
    }),
  ) as Settings
}
