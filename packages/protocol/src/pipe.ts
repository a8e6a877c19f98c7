/**
 * The messages of the pipe, by which sensors feed the workspace view over HTTP (`/api/v1/pipe/…`). Names are snake_case, times are
 * seconds since 1970, paths start at the source's root with `/`, and unknown fields are ignored, so that older and newer versions
 * understand each other. The receiver checks rows by hand, because there are millions; a test compares its check with the schemas.
 *
 * A name that is not UTF-8 travels without loss: see file-names.ts.
 */
import { z } from 'zod'
import { fileEventTypes, messageSources, pipeLimits, pipeRoles, sourceTypes } from './pipe-vocabulary.js'
import { healthStates } from './vocabulary.js'

const word = z.string().min(1).max(256)
const path = z.string().min(1).max(pipeLimits.pathLengthMax)
const loose = z.record(z.string(), z.unknown())

const fileTime = z.number().min(-pipeLimits.fileTimeMax).max(pipeLimits.fileTimeMax)
const flag = z.boolean().nullish()

const rowFields = z.object({
  path: z.string(),
  file_name: z.unknown().optional().describe('ignored: `path` has it'),
  size: z.int().min(0).nullish().describe('bytes; required for a file'),
  modified_time: fileTime,
  created_time: fileTime.nullish(),
  is_directory: flag,
  is_symlink: flag.describe('the entry is a symbolic link; sensors do not follow links'),
  parent_path: z.string().nullish(),
  parent_mtime: fileTime.nullish(),
  audit_skipped: flag.describe(
    'the directory did not change, and its children were not scanned: nothing is concluded about them',
  ),
  unreadable: flag.describe(
    'a later row of a directory: the sensor could not list it, or could not read some of its entries',
  ),
  scan_complete: flag.describe('the second row of a directory: all its children were reported before it'),
  is_atomic_write: flag.describe(
    'false: the file is still being written. Otherwise it was closed after writing, created, or moved here complete',
  ),
})
/**
 * One file or directory, of an insert or update. In an audit or an on-demand scan a directory has two rows: the first, before its
 * children, reports that it exists; the second, after the last child, has `scan_complete: true` and reports that there are no other
 * children (hazard 22). A directory that was skipped because it did not change has one row, with `audit_skipped: true`. A row
 * with `unreadable: true` or `scan_complete: true` sets or clears the mark `unreadable` of a known directory, and changes nothing else.
 */
export const fileRow = rowFields.refine(({ size, is_directory }) => typeof size === 'number' || is_directory === true, {
  error: 'a file needs "size"',
})
/** One file or directory of a delete. */
export const deletedRow = rowFields.pick({ path: true })
export type FileRow = Readonly<Partial<z.output<typeof rowFields>> & z.output<typeof deletedRow>>

/** A malformed row is rejected alone, and the other rows of its event are applied. */
export const fileEvent = z.object({
  event_type: z.string().toLowerCase().pipe(z.enum(fileEventTypes)).describe('`insert`, `update` or `delete`'),
  event_schema: z.literal('fs').optional(),
  table: z.unknown().optional().describe('ignored'),
  fields: z.unknown().optional().describe('ignored'),
  rows: z.array(z.union([fileRow, deletedRow])).readonly(),
  index: z
    .number()
    .positive()
    .optional()
    .catch(undefined)
    .describe('when the sensor saw it: milliseconds of its clock, corrected for known drift'),
  message_source: z.enum(messageSources).nullish().describe('absent: realtime'),
  metadata: z.unknown().optional().describe('ignored'),
})
export type FileEvent = Readonly<Omit<z.output<typeof fileEvent>, 'rows'>> & { readonly rows: readonly FileRow[] }

const ingestMetadata = z.looseObject({
  seq: z
    .number()
    .int()
    .positive()
    .optional()
    .describe('numbers the realtime requests of a session from 1: a late or repeated request changes nothing'),
  barriers: z
    .array(word)
    .max(pipeLimits.commandsMax)
    .optional()
    .describe('the `barrier` commands that are passed with the end of this request, which may be empty'),
  audit_id: word.optional().describe('the audit of these rows'),
  complete: z
    .boolean()
    .optional()
    .describe('with `is_end` of an audit: everything readable was scanned. Otherwise nothing is deleted'),
  job_id: word
    .optional()
    .describe('the scan command of these rows; with `source_type: job_complete` the job has ended'),
  error: z.string().max(4_096).optional().describe('why a job or an audit is incomplete'),
  excluded: z.boolean().optional().describe('the sensor does not report the path of this job'),
})
export type IngestMetadata = z.infer<typeof ingestMetadata>

/** The view checks each event and row by hand, as strictly as `fileEvent` and `fileRow`. */
export const ingestRequest = z.looseObject({
  events: z.array(z.unknown()).max(pipeLimits.rowsMax) as unknown as z.ZodType<unknown[], readonly FileEvent[]>,
  source_type: z.enum(sourceTypes),
  is_end: z.boolean().nullish(),
  is_final: z.boolean().nullish(),
  metadata: ingestMetadata.nullish(),
})
export type IngestRequest = Readonly<z.input<typeof ingestRequest>>

export const ingestResponse = z.looseObject({
  status: z.string(),
  count: z.number(),
  rejected: z.number().optional().describe('malformed rows, which are not in the view'),
  stale: z.boolean().optional().describe('a late or repeated request: nothing was applied'),
  message: z.string().optional(),
})
export type IngestResponse = z.infer<typeof ingestResponse>

export const sessionRequest = z.looseObject({
  task_id: word,
  client_info: loose
    .nullish()
    .describe(
      '`source_id` names the source (absent: the only source of the view), `agent_id` the sensor (absent: the task id), `source_uri` its mount point, for people',
    ),
  session_timeout_seconds: z
    .number()
    .positive()
    .max(7 * 86_400)
    .nullish(),
})
export type SessionRequest = Readonly<z.input<typeof sessionRequest>>

export const sessionResponse = z.looseObject({
  session_id: z.string(),
  role: z.enum(pipeRoles),
  session_timeout_seconds: z.number().positive(),
  audit_interval_sec: z.number().positive(),
  sentinel_interval_sec: z.number().positive(),
  message: z.string().optional(),
  view_id: z.string().optional(),
  source_id: z.string().optional(),
  hot_file_threshold_sec: z.number().optional(),
})

/**
 * A command in the response to a heartbeat. The sensor runs it at once, in any state, and skips unknown types.
 *   scan     walk `path`, send its rows as `on_demand_job` with `metadata.job_id`, then `source_type: job_complete`
 *   barrier  after everything seen before this command was sent, send its id in `metadata.barriers`
 *   watch    watch these directories too: other hosts created them, so inotify did not report them here
 *   snapshot send the whole source again as a snapshot, because the view lost its tree
 *   audit    start an audit now
 */
export const pipeCommand = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('scan'), path, recursive: z.boolean(), job_id: word }),
  z.looseObject({ type: z.literal('barrier'), barrier_id: word }),
  z.looseObject({
    type: z.literal('watch'),
    directories: z.array(z.looseObject({ path, modified_time: z.number().finite() })).max(1_000),
  }),
  z.looseObject({ type: z.literal('snapshot') }),
  z.looseObject({ type: z.literal('audit') }),
])
export type PipeCommand = z.infer<typeof pipeCommand>

/** One health unit of either end. `depends_on` are keys `kind:name`. */
const healthUnit = z.looseObject({
  kind: z.enum(['source', 'sensor_pipe', 'sender', 'receiver', 'fusion_pipe', 'view']),
  name: word,
  state: z.enum(healthStates),
  restarts: z.number().int().nonnegative().optional(),
  error: z.string().max(4_096).nullish(),
})
export type HealthUnit = z.infer<typeof healthUnit>

/** The status of a sensor. Other fields are stored and shown as they are. */
export const agentStatus = z.looseObject({ units: z.array(healthUnit).max(64).optional() })
export type AgentStatus = z.infer<typeof agentStatus>

export const heartbeatRequest = z.looseObject({
  can_realtime: z.boolean().optional(),
  agent_status: agentStatus.nullish(),
  wait_seconds: z
    .number()
    .nonnegative()
    .max(600)
    .nullish()
    .describe('how long the response may wait for a command or a change of role; the session is alive in that time'),
})

/** A sensor parses each command with `pipeCommand` and skips those that fail. */
export const heartbeatResponse = z.looseObject({
  status: z.string(),
  role: z.enum(pipeRoles),
  message: z.string().optional(),
  commands: z.array(z.unknown()).optional(),
  health: loose.optional(),
})

/**
 * Start and end of an audit. With an `audit_id` the view expects `scan_complete` rows, and `complete` at the end; an empty ingest
 * request with `is_end`, the same metadata and `source_type: audit` has the same effect. Without a body it is an audit of the older
 * protocol: the view creates an id, every reported directory counts as scanned, and the end counts as complete.
 */
export const auditStartRequest = z.looseObject({ session_id: word.optional(), audit_id: word.optional() })
export const auditEndRequest = z.looseObject({
  session_id: word.optional(),
  audit_id: word.optional(),
  complete: z.boolean().optional(),
})
export const auditResponse = z.looseObject({ status: z.string(), audit_id: z.string().optional() })

/** Empty (`{}`) if there are no suspects. */
export const sentinelTasks = z.looseObject({
  type: z.literal('suspect_check').optional(),
  paths: z.array(z.string()).optional(),
  source_id: z.string().optional(),
})

/** `status`: `exists` or `missing`; any other means that the sensor could not check the file. */
export const sentinelFeedback = z.looseObject({
  type: z.string(),
  session_id: word.optional(),
  source_id: word.optional(),
  updates: z
    .array(
      z.looseObject({
        path,
        mtime: z.number().finite().nullish(),
        size: z.number().int().nonnegative().nullish(),
        status: z.string().max(64).nullish(),
      }),
    )
    .max(pipeLimits.rowsMax),
})
export type SentinelFeedback = z.infer<typeof sentinelFeedback>
