/** Views: tree, search, stats, changes, barriers and evidence. */
import { z } from '../deferred.js'
import { pipeRoles } from '../pipe-vocabulary.js'
import { bodyBytes, eventStream, flag, integer, list, secondsUpTo, type Route } from './shapes.js'

const waitMax = 25 // seconds; below the silence after which connections are closed
const inView = z.object({ view: z.string() })
const path = z.string().min(1).max(4_096)
/** Which sources of a view a question is about. */
const choice = z.strictObject({ source: z.string().max(1_024).optional(), best: z.string().max(40).optional() })
export type SourceChoice = z.output<typeof choice>

const job = z.object({
  job_id: z.string(),
  job_pending: z.boolean(),
  job_state: z.enum(['pending', 'done', 'failed', 'timed_out']),
  path: z.string(),
  source_id: z.string(),
  rows: z.number(),
  deleted: z.number(),
  direct: z.boolean().describe('the pipe of the source failed, so that the result is not part of the view'),
  error: z.string().nullable(),
})

/** Whether a scan that the request asked for still runs. */
const scanState = {
  job_id: z.string().nullable(),
  job_pending: z.boolean(),
  direct: z
    .literal(true)
    .optional()
    .describe(
      'the pipe of the source failed: this is what the sensor reported just now, and it is not part of the view',
    ),
}

const entryFields = z.object({
  name: z.string(),
  content_type: z.enum(['file', 'directory', 'symlink']),
  path: z.string(),
  size: z.number(),
  modified_time: z.number(),
  created_time: z.number().nullable(),
  integrity_suspect: z.boolean(),
  audit_skipped: z.boolean().optional(),
  unreadable: z.literal(true).optional().describe('the last scan could not read this directory or some of its entries'),
  agent_missing: z.boolean(),
  last_agent_id: z.string().nullable(),
  source_uri: z.string().nullable(),
})
/** The fields that `fields` may name. Path and type are always there. */
export const entryFieldNames = [
  'name',
  'size',
  'modified_time',
  'created_time',
  'integrity_suspect',
  'audit_skipped',
  'unreadable',
  'agent_missing',
  'last_agent_id',
  'source_uri',
] as const
export type EntryField = (typeof entryFieldNames)[number]

/** A file or directory. `fields` and `only_path=1` leave out everything else but path and type. */
const node = entryFields.partial().required({ path: true, content_type: true })
export interface Entry extends z.output<typeof node> {
  readonly children?: readonly Entry[] | undefined
}
const entry: z.ZodType<Entry> = node
  .extend({ children: z.lazy(() => list(entry)).optional() })
  .meta({ id: 'Entry' }) as unknown as z.ZodType<Entry>

const sourceStats = z.object({
  item_count: z.number(),
  total_files: z.number(),
  total_directories: z.number(),
  total_size: z.number(),
  latest_mtime: z.number(),
  staleness_seconds: z.number().nullable(),
  has_blind_spot: z.boolean(),
  suspect_file_count: z.number(),
  tombstone_count: z.number(),
  logical_now: z.number(),
  last_audit_start: z.number().nullable(),
  last_audit_finished_at: z.number().nullable(),
  audit_cycle_count: z.number(),
  is_auditing: z.boolean(),
  ready: z.boolean(),
  full: z.boolean(),
})

const directoryStats = sourceStats
  .pick({ item_count: true, total_files: true, total_directories: true, total_size: true })
  .extend({ path: z.string() })

const session = z.object({
  session_id: z.string(),
  task_id: z.string(),
  agent_id: z.string(),
  source_id: z.string(),
  source_uri: z.string().optional(),
  client_ip: z.string(),
  role: z.enum(pipeRoles),
  can_realtime: z.boolean(),
  session_timeout_seconds: z.number(),
  created_at: z.number(),
  silent_seconds: z.number(),
  commands_waiting: z.number(),
  agent_status: z.unknown(),
})

const viewLine = z.object({
  view_id: z.string(),
  ready: z.boolean(),
  live: z.boolean().describe('the type of the view: live, or persistent'),
  available: z.boolean().describe('false while a live view cannot answer because a pipe failed'),
  sessions: z.number(),
  item_count: z.number(),
  total_files: z.number(),
  total_directories: z.number(),
  total_size: z.number(),
  suspect_file_count: z.number(),
  has_blind_spot: z.boolean(),
  is_auditing: z.boolean(),
  sources: list(
    z.object({
      source_id: z.string(),
      ready: z.boolean(),
      full: z.boolean(),
      leader: z.object({ session_id: z.string(), agent_id: z.string(), source_uri: z.string().nullable() }).nullable(),
      sessions: z.number(),
      item_count: z.number(),
      total_size: z.number(),
      suspect_file_count: z.number(),
      staleness_seconds: z.number().nullable(),
      is_auditing: z.boolean(),
    }),
  ),
})

const viewChange = z.object({
  seq: z.number(),
  path: z.string(),
  kind: z.enum(['put', 'removed']),
  is_directory: z.boolean(),
  is_symlink: z.boolean(),
  source_id: z.string(),
})
export type ViewChange = z.infer<typeof viewChange>
const changes = z.object({
  fresh_instance: z.boolean().describe('the token is too old: read the tree again'),
  changes: list(viewChange),
  token: z.string(),
  more: z.boolean(),
})
const position = z.object({ token: z.string() })

const syncQuery = choice.extend({ wait: secondsUpTo(waitMax), scope: z.enum(['all', 'leader']).optional() })
const barrier = z.object({
  synced: z.boolean(),
  sensors: z.number().describe('how many sensors had to confirm'),
  passed: z.number(),
  missing: list(z.string()).describe('the sessions that did not confirm'),
  token: z.string(),
})
export type SyncReport = z.input<typeof barrier>

const source = z.string().max(1_024).optional()
const fileEvidence = z.object({
  path: z.string(),
  found: z
    .enum(['present', 'missing', 'not_ready', 'excluded'])
    .describe('`not_ready`: no sensor could check it in time; `excluded`: the sensor does not report this path'),
  kind: z.enum(['file', 'directory', 'symlink']).optional(),
  size: z.number().optional(),
  sha256: z.string().optional(),
  changed_since: z.boolean().optional().describe('absent if the token is too old or from another run of the view'),
})

export const suspectUpdate = z.object({
  status: z.string(),
  reason: z.string().optional(),
  count: z.number().optional(),
  cleared: z.number().optional(),
  renewed: z.number().optional(),
})

export const viewRoutes = {
  'GET /views': {
    summary: 'List the views that the key can reach, with their sources and leaders',
    responses: { 200: z.object({ views: list(viewLine) }) },
  },
  'GET /views/:view/tree': {
    summary: 'Read a directory and its entries',
    description:
      'A view with several sources responds with `members`, one tree per source. `force-real-time` asks the sensors to scan the path; `wait` waits for that scan.',
    params: inView,
    query: choice.extend({
      path: path.default('/'),
      recursive: flag,
      max_depth: integer(0, 10_000),
      only_path: flag,
      fields: z
        .string()
        .max(400)
        .transform((names) => names.split(','))
        .pipe(z.array(z.enum(entryFieldNames)))
        .optional()
        .describe(
          `the fields of an entry besides path and content_type, separated by commas (default: all): ${entryFieldNames.join(', ')}`,
        ),
      'force-real-time': flag,
      on_demand_scan: flag,
      wait: secondsUpTo(waitMax),
    }),
    responses: {
      200: z.union([
        node.extend({ children: list(entry).optional(), source_id: z.string(), ...scanState }),
        z.object({ path: z.string(), members: z.record(z.string(), entry.nullable()), ...scanState }),
      ]),
      202: job.describe('A scan is looking for the path: it is unknown so far, or the view is unavailable'),
    },
  },
  'GET /views/:view/jobs/:job': {
    summary: 'Read the state of an on-demand scan',
    params: inView.extend({ job: z.string() }),
    responses: { 200: job },
  },
  'GET /views/:view/search': {
    summary: 'Find entries by a pattern of their name',
    params: inView,
    query: choice.extend({
      pattern: z.string().min(1).max(1_024),
      path: path.optional(),
      limit: integer(1, 1_000_000),
    }),
    responses: {
      200: z.object({
        pattern: z.string(),
        results: list(entryFields.extend({ source_id: z.string() })),
        count: z.number(),
        truncated: z.boolean(),
      }),
    },
  },
  'GET /views/:view/stats': {
    summary: 'Count the entries of a view, or of one directory (`?path=`)',
    params: inView,
    query: choice.extend({ path: path.optional() }),
    responses: {
      200: z.union([
        sourceStats.extend({
          sources: z.record(z.string(), sourceStats),
          best: z.record(z.string(), z.string().nullable()),
          sessions: z.number(),
        }),
        directoryStats,
      ]),
    },
  },
  'GET /views/:view/blind-spots': {
    summary: 'List changes that no sensor saw happen',
    params: inView,
    query: choice,
    responses: {
      200: z.object({
        additions_count: z.number(),
        additions: list(z.string()),
        deletion_count: z.number(),
        deletions: list(z.string()),
      }),
    },
  },
  'GET /views/:view/suspect-list': {
    summary: 'List files that may be incomplete',
    params: inView,
    query: choice,
    responses: {
      200: z.object({
        count: z.number(),
        suspects: list(
          z.object({ path: z.string(), mtime: z.number(), expires_in_seconds: z.number(), source_id: z.string() }),
        ),
      }),
    },
  },
  'PUT /views/:view/suspect-list': {
    summary: 'Report modification times and sizes of suspects',
    params: inView,
    bodyBytesMax: bodyBytes.large,
    body: z.looseObject({
      updates: z
        .array(
          z.looseObject({
            path,
            mtime: z.number().finite().nullish(),
            current_mtime: z.number().finite().nullish(),
            size: z.number().int().nonnegative().nullish(),
          }),
        )
        .max(20_000),
    }),
    responses: { 200: suspectUpdate },
  },
  'GET /views/:view/sessions': {
    summary: 'List connected sensors',
    params: inView,
    responses: { 200: z.object({ count: z.number(), sessions: list(session) }) },
  },
  'DELETE /views/:view/sessions/:id': {
    summary: 'End a sensor’s session',
    params: inView.extend({ id: z.string() }),
    responses: { 200: z.object({ status: z.literal('ok') }) },
  },
  'GET /views/:view/changes': {
    summary: 'List changes since a token; without a token, get the current one',
    params: inView,
    query: choice.extend({ since: z.string().max(32_768).optional(), limit: integer(1, 10_000) }),
    responses: { 200: changes },
  },
  'GET /views/:view/diff': {
    summary: 'Compare two sources',
    params: inView,
    query: z.strictObject({ left: z.string(), right: z.string(), limit: integer(1, 100_000) }),
    responses: {
      200: z.object({
        left: z.string(),
        right: z.string(),
        differences: list(z.object({ path: z.string(), kind: z.string() })),
        truncated: z.boolean(),
      }),
    },
  },
  'GET /views/:view/sync': {
    summary: 'Wait until the view has applied everything that its sensors saw before this request',
    params: inView,
    query: syncQuery,
    responses: { 200: barrier },
  },
  'POST /views/:view/sync': {
    summary: 'The same as GET',
    params: inView,
    query: syncQuery,
    responses: { 200: barrier },
  },
  'GET /views/:view/evidence': {
    summary: 'Get a change token for now',
    params: inView,
    query: z.strictObject({ source }),
    responses: { 200: z.object({ token: z.string() }) },
  },
  'POST /views/:view/evidence': {
    summary: 'Check that files exist and changed since a token',
    params: inView,
    bodyBytesMax: bodyBytes.large,
    body: z.strictObject({
      // The board accepts at most this many claimed files; each needs a scan by a sensor.
      paths: z.array(z.string().min(1).max(4_096)).max(500),
      since: z.string().max(32_768).nullable(),
      source,
      wait: z.number().min(0.1).max(25).optional().describe('seconds'),
    }),
    responses: { 200: z.object({ files: list(fileEvidence) }) },
  },
  'GET /views/:view/events': {
    summary: 'Follow the changes of a view',
    description: '`Last-Event-ID` is a change token. `reset`: the token is too old, so read the tree again.',
    params: inView,
    query: choice,
    responses: { 200: eventStream },
    events: { hello: position, reset: position, changes: z.object({ changes: list(viewChange), token: z.string() }) },
  },
} as const satisfies Record<string, Route>
