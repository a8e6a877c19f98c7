/**
 * Defines every setting: its section, type, bounds, default and description. A key names its unit, every number has bounds, and every
 * key is optional. The reference page is generated from settingRows(). load.ts reads the file and the environment. The rows are plain
 * values and not zod schemas, because every command loads them and zod doubles the start of a short one.
 */
import { defined } from '@bellwether/base'
import { spendingActions, type SpendingAction } from '@bellwether/protocol'
import {
  count,
  daySeconds,
  flag,
  longestSeconds,
  names,
  optional,
  optionalText,
  seconds,
  text,
  type Setting,
} from './setting.js'

/** Where the code of a function agent may run. */
export const isolations = ['none', 'thread', 'process'] as const
/** What the command of an agent may reach: its workspace, or what its account may. */
export const sandboxes = ['workspace', 'none'] as const
// Node itself needs about 10 MiB of heap.
export const memoryMb = { min: 16, max: 1_048_576 } as const

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
  trend_retention_days: count(
    100,
    'How many days the daily counts of the Trends page are kept. They outlive the turns; the page shows 90 days.',
    { max: 3_650 },
  ),
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
  park_after_seconds: seconds(
    15,
    'If a provider asks for a longer pause, the account is held and the turn is suspended. The worker waits for a shorter one.',
    { max: 3_600 },
  ),
  max_hold_seconds: seconds(
    21_600,
    'The maximum duration of a hold. After it, one turn probes the account, even if the provider named a later reset.',
    { min: 1, max: 31 * daySeconds },
  ),
  max_deaths: count(3, 'How many workers may die while a turn is alone in them, before the turn fails.', { max: 100 }),
  agents: optionalText(
    'The agents file of `up`: a module whose default export has the functions of agents with executor: function. A path in the project folder. Default: none.',
  ),
  concurrency: count(
    16,
    'How many turns one worker runs at the same time. Turns whose program waits for an approval do not count, up to this number.',
    { max: 10_000 },
  ),
  blocked_max_seconds: seconds(
    300,
    'If agent code blocks the event loop of a worker process for longer than this, the process exits, and other workers take over its turns.',
  ),
  isolation: {
    ...text<(typeof isolations)[number]>(
      'none',
      'Where a function of an agents file runs if it states no isolation: in the worker (none), or in a thread or process per turn.',
    ),
    choices: isolations,
  },
  memory_max_mb: count(
    1_024,
    'The memory limit, in MiB, of a function agent in a thread or process if it states none.',
    { ...memoryMb },
  ),
  run_as: optionalText(
    'The account that runs the commands of agents and the MCP servers. Needs root. Default: the account of the worker.',
  ),
  sandbox: {
    ...text<(typeof sandboxes)[number]>(
      'workspace',
      'Where commands run if the agent file does not say it: in a sandbox (workspace), or with all rights of their account (none).',
    ),
    choices: sandboxes,
  },
  sandbox_missing: {
    ...text<'warn' | 'refuse'>(
      'warn',
      'What happens if no sandbox works on this machine: the command runs without one and the transcript says so (warn), or the turn fails (refuse). If the agent file has `sandbox: workspace`, the turn always fails.',
    ),
    choices: ['warn', 'refuse'],
  },
  // Four of the largest cards, and more than any prompt holds; 16 turns with two full boxes each stay below 256 MB.
  hydrate_max_bytes: count(
    4_194_304,
    'How many bytes a turn reads of its context and of its memory, newest cards first. Older cards are left out, and the prompt says so.',
    { min: 4_096, max: 1_073_741_824 },
  ),
  // A coding agent that works for 20 minutes writes 1 to 2 MB.
  transcript_max_bytes: count(
    4_194_304,
    'How many bytes of the transcript of a turn are stored: its first half and its end. What is between them is left out, and the transcript says so.',
    { min: 65_536, max: 1_073_741_824 },
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
  max_concurrent_spawns: count(
    4,
    'How many turns of the board run at the same time. A change that waits for its merge counts as one.',
    { max: 10_000 },
  ),
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
} as const

const urgentKinds = 'escalated, person_gave_up, question_expired, no_worker, replay_mismatch'

const notify = {
  webhook_url: optionalText(
    'The URL that receives a JSON message for everything that needs a person (questions, approvals, tasks, missed deadlines) and for alerts. Default: none; alerts are logged and counted.',
  ),
  slack_webhook_url: optionalText(
    'The URL of an incoming webhook of Slack, Mattermost or another chat with the same format, for the same messages. Default: none.',
  ),
  failures: flag(true, 'Whether failed turns and endings by watchdogs are announced: once per agent, kind and hour.'),
  smtp_url: optionalText(
    'The mail server, such as smtps://USER:PASSWORD@host:465 or smtp://host:587. Default: no e-mail.',
  ),
  smtp_ca: optionalText(
    'The authority of the mail server’s certificate, a file in PEM. Default: the authorities of Node.',
  ),
  email_from: optionalText('The address that e-mails come from.'),
  email_to: names('Comma-separated addresses that get the e-mails.'),
  quiet_hours: optionalText(
    'When only urgent messages are sent, such as 22:00-07:00; the others follow. Default: never.',
  ),
  quiet_time_zone: text<string>('UTC', 'The IANA time zone of quiet_hours.', { max: 64 }),
  urgent_kinds: text<string>(urgentKinds, 'Comma-separated kinds that quiet hours do not hold back.', { min: 0 }),
} as const

const spending = {
  limits: names(
    'Comma-separated limits per calendar day or month, in the form SCOPE [NAME] PERIOD AMOUNT: project day 50 usd, agent coder month 20000000 tokens, model anthropic/claude-opus-4 day 20 usd. A limit of `project` without a name applies to each project separately.',
  ),
  on_exceeded: {
    ...text<SpendingAction>(
      'hold',
      'What happens to a call that a limit does not cover: the turn waits for the next period (hold), or a degrade action.',
    ),
    choices: spendingActions,
  },
  time_zone: text<string>('UTC', 'The time zone in which days and months begin, such as Europe/Berlin.', { max: 100 }),
} as const

const server = {
  host: text<string>('127.0.0.1', 'The address to listen on.', { max: 255 }),
  port: count(7717, 'The port to listen on; 0 picks a free one.', { min: 0, max: 65_535 }),
  tls_certificate: optionalText(
    'The file of the certificate chain, in PEM. With tls_key the server speaks HTTPS. Default: plain HTTP.',
  ),
  tls_key: optionalText('The file of the private key of tls_certificate, in PEM.'),
  trusted_proxies: names(
    'Comma-separated addresses or networks of proxies in front of the server. Their X-Forwarded-For and X-Forwarded-Proto count.',
  ),
  hosts: names(
    'Comma-separated host names under which browsers may use the server, besides IP addresses and localhost. Default: none on a loopback address, every name on another.',
  ),
  public_url: optionalText(
    'The address of the dashboard in browsers, such as https://bellwether.example.com: for links in messages to people, and for sign-ins with [oidc], whose provider must allow its /login/callback. Default: the address of the server; no sign-ins.',
  ),
  requests_per_second: count(
    1_000,
    'The request rate per API key; bursts may be twice as high, and workers and sensors may send ten times as many.',
  ),
  admin_commands: flag(
    false,
    'Whether an unlimited admin key may set verify commands of tasks over HTTP. Other keys select checks that config/acceptance-policy.json defines.',
  ),
  audit_retention_days: count(90, 'How many days the audit log is kept.', { max: 3_650 }),
} as const

const oidc = {
  issuer: optionalText(
    'The OpenID Connect provider with which people sign in to the dashboard, such as https://login.example.com. Default: none; people sign in with links and keys.',
  ),
  name: text<string>('single sign-on', 'The name of the provider on the sign-in page.', { max: 60 }),
  client_id: optionalText('The id of this server at the provider.'),
  client_secret: optionalText('The secret of this server at the provider. Better in the environment, or in a file.'),
  client_secret_file: optionalText('The file that contains client_secret.'),
  scopes: text<string>('openid profile email', 'The scopes that are requested, separated by spaces.'),
  groups_claim: text<string>('groups', 'The claim that has the groups of a person.', { max: 255 }),
  admins: names(
    'Comma-separated groups and e-mail addresses of people who sign in as admins; GROUP=PROJECT limits them to a project. E-mail addresses must be verified by the provider.',
  ),
  operators: names('The same for operators. The first list that names a person decides.'),
  readers: names('The same for readers. People whom no list names are refused.'),
} as const

const database = {
  url: optionalText(
    'The PostgreSQL database, such as postgres://user:password@host/name. Default: the embedded PostgreSQL.',
  ),
  worker_url: optionalText(
    'The URL with which the workers of `up` open the same database: with a role that can run turns and nothing else. Default: url; the embedded PostgreSQL has such a role.',
  ),
  direct_url: optionalText('The same database without a connection pooler, for LISTEN. Default: url.'),
  pool_size: count(10, 'The maximum number of connections per process.', { max: 1_000 }),
  statement_timeout_seconds: seconds(30, 'The maximum duration of one statement.', { max: 3_600 }),
} as const

const nats = {
  url: optionalText(
    'Comma-separated NATS servers, such as nats://host:port, or tls://host:port to refuse a server without TLS. Default: PostgreSQL notify is the bell.',
  ),
  tls_ca: optionalText(
    'The file of the authority that signed the certificates of the servers, in PEM. Servers without TLS are then refused. Default: the authorities of Node.',
  ),
  tls_certificate: optionalText('The file of the certificate of this client, in PEM, for servers that verify clients.'),
  tls_key: optionalText('The file of the private key of tls_certificate, in PEM.'),
} as const

const telemetry = {
  otlp_endpoint: optionalText(
    'The OpenTelemetry collector for traces, such as http://host:4318. Default: OTEL_EXPORTER_OTLP_ENDPOINT, else no traces.',
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
const sections = {
  pmo,
  worker,
  view,
  sensor,
  board,
  notify,
  spending,
  server,
  oidc,
  database,
  nats,
  telemetry,
} as const

type Sections = typeof sections
type SectionName = keyof Sections
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
