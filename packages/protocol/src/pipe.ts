/**
 * The pipe: what sensors and the workspace view say to each other over HTTP (`/api/v1/pipe/…`). Always: names are
 * snake_case, times are seconds since the epoch as numbers, paths start at the source's root with `/`, and unknown fields
 * are ignored, so that older and newer ends understand each other. Envelopes have zod schemas; rows are checked one by
 * one by the receiver, because there are a million of them. The view's arbitration decides what a row may change.
 *
 * A name that is not UTF-8 travels without loss: each byte that does not decode is a lone surrogate U+DC80–U+DCFF
 * (Python's `surrogateescape`), which JSON writes as `\udcXX`.
 */
import { z } from 'zod'
import { healthStates } from './vocabulary.js'

/** What one request may hold, on both ends. A sensor that stays below them is never refused for size. */
export const pipeLimits = {
  /** Rows of one ingest request, all its events together. 1,000 to 5,000 is the sweet spot. */
  rowsMax: 20_000,
  /** Bytes of a body as sent, and of the same body once it is unzipped. */
  bodyBytesMax: 8 * 1_024 * 1_024,
  inflatedBytesMax: 8 * 1_024 * 1_024,
  /** UTF-16 units; Linux allows 255 bytes for a name, and 4,096 for a path that a program may say. */
  nameLengthMax: 255,
  pathLengthMax: 4_096,
  /** Longest that a heartbeat may wait for commands. Keep it below a third of the session's timeout. */
  waitSecondsMax: 25,
  commandsMax: 256,
} as const

export const pipeRoles = ['leader', 'follower'] as const
export type PipeRole = (typeof pipeRoles)[number]

export const messageSources = ['realtime', 'snapshot', 'audit', 'on_demand_job'] as const
export type MessageSource = (typeof messageSources)[number]

export const sourceTypes = ['message', 'snapshot', 'audit', 'on_demand_job', 'job_complete'] as const
export type SourceType = (typeof sourceTypes)[number]

export const fileEventTypes = ['insert', 'update', 'delete'] as const
export type FileEventType = (typeof fileEventTypes)[number]

const word = z.string().min(1).max(256)
const path = z.string().min(1).max(pipeLimits.pathLengthMax)
const loose = z.record(z.string(), z.unknown())

/**
 * One file or directory. A delete needs `path` only. In an audit or on-demand scan a directory has two rows: the first,
 * before its children, says that it exists; the second, after the last child, carries `scan_complete: true` and says that
 * whatever was not reported in between is not there (hazard 22). A directory that was skipped as silent has one row, with
 * `audit_skipped: true`, and nothing is concluded about its children.
 */
export interface FileRow {
  readonly path: string
  readonly file_name?: string
  readonly size?: number
  readonly modified_time?: number
  readonly created_time?: number | null
  readonly is_directory?: boolean
  readonly parent_path?: string
  readonly parent_mtime?: number
  readonly audit_skipped?: boolean
  readonly scan_complete?: boolean
  /** Realtime: closed after writing, created, or moved here whole. Absent means true. False: still being written. */
  readonly is_atomic_write?: boolean
}

/** `index`: when the sensor saw it, in milliseconds of its clock (corrected for drift, where it knows the drift). */
export interface FileEvent {
  readonly event_type: FileEventType
  readonly event_schema: 'fs'
  readonly table?: string
  readonly fields?: readonly string[]
  readonly rows: readonly FileRow[]
  readonly index: number
  readonly message_source: MessageSource
  readonly metadata?: Readonly<Record<string, unknown>> | null
}

/**
 * What an ingest request says about itself.
 *   seq        realtime requests of a session, numbered upwards from 1: one that comes late or twice changes nothing
 *   barriers   ids of `barrier` commands that this request's end has passed (the request may be empty)
 *   audit_id   of the audit that these rows belong to, as given at its start
 *   complete   with `is_end` of an audit: everything readable was scanned. Absent or false: nothing is deleted
 *   job_id     of the scan command that these rows answer; with `source_type: job_complete` the job has ended
 *   error      why a job or an audit did not complete
 */
export const ingestMetadata = z.looseObject({
  seq: z.number().int().positive().optional(),
  barriers: z.array(word).max(pipeLimits.commandsMax).optional(),
  audit_id: word.optional(),
  complete: z.boolean().optional(),
  job_id: word.optional(),
  error: z.string().max(4_096).optional(),
})
export type IngestMetadata = z.infer<typeof ingestMetadata>

/** The envelope; `events` are checked by hand-written code with the strictness of `FileEvent` and `FileRow`. */
export const ingestRequest = z.looseObject({
  events: z.array(z.unknown()).max(pipeLimits.rowsMax),
  source_type: z.enum(sourceTypes),
  is_end: z.boolean().nullish(),
  is_final: z.boolean().nullish(),
  metadata: ingestMetadata.nullish(),
})

/** The same, as a sensor writes it. */
export interface IngestRequest {
  readonly events: readonly FileEvent[]
  readonly source_type: SourceType
  readonly is_end?: boolean
  readonly metadata?: IngestMetadata
}

/** `rejected` rows were malformed and are not in the view; `stale`: a late or repeated request, nothing was applied. */
export const ingestAnswer = z.looseObject({
  status: z.string(),
  count: z.number(),
  rejected: z.number().optional(),
  stale: z.boolean().optional(),
  message: z.string().optional(),
})
export type IngestAnswer = z.infer<typeof ingestAnswer>

/**
 * `client_info.source_id` names the source (one filesystem, however many hosts mount it); absent: the view's only source.
 * `client_info.agent_id` names the sensor in the tree's `last_agent_id`; absent: the task id. `source_uri`: where it
 * mounts the source, for people.
 */
export const sessionRequest = z.looseObject({
  task_id: word,
  client_info: loose.nullish(),
  session_timeout_seconds: z
    .number()
    .positive()
    .max(7 * 86_400)
    .nullish(),
})
export interface SessionRequest {
  readonly task_id: string
  readonly client_info?: Readonly<Record<string, unknown>>
  readonly session_timeout_seconds?: number
}

export const sessionAnswer = z.looseObject({
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
export type SessionAnswer = z.infer<typeof sessionAnswer>

/**
 * A command, carried by the heartbeat's answer and run at once, in whatever state the sensor is.
 *   scan     walk `path`, send its rows as `on_demand_job` with `metadata.job_id`, then `source_type: job_complete`
 *   barrier  once everything that was seen before now has been sent, say the id in `metadata.barriers`
 *   snapshot send the whole source again as a snapshot (the view lost its tree)
 *   audit    start an audit now
 * A sensor skips a type that it does not know.
 */
export const pipeCommand = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('scan'), path, recursive: z.boolean(), job_id: word }),
  z.looseObject({ type: z.literal('barrier'), barrier_id: word }),
  z.looseObject({ type: z.literal('snapshot') }),
  z.looseObject({ type: z.literal('audit') }),
])
export type PipeCommand = z.infer<typeof pipeCommand>

/** One health unit of either end. `depends_on` are keys `kind:name`. */
export const healthUnit = z.looseObject({
  kind: z.enum(['source', 'sensor_pipe', 'sender', 'receiver', 'fusion_pipe', 'view']),
  name: word,
  state: z.enum(healthStates),
  restarts: z.number().int().nonnegative().optional(),
  error: z.string().max(4_096).nullish(),
})
export type HealthUnit = z.infer<typeof healthUnit>

/** What a sensor says of itself. Everything else in it is kept and shown as it is. */
export const agentStatus = z.looseObject({ units: z.array(healthUnit).max(64).optional() })
export type AgentStatus = z.infer<typeof agentStatus>

/**
 * `wait_seconds`: the answer may wait that long for a command or a change of role, so that commands arrive at once; the
 * session is alive while it waits. A sensor that waits sends its next heartbeat as soon as the answer is there.
 */
export const heartbeatRequest = z.looseObject({
  can_realtime: z.boolean().optional(),
  agent_status: agentStatus.nullish(),
  wait_seconds: z.number().nonnegative().max(600).nullish(),
})
export interface HeartbeatRequest {
  readonly can_realtime: boolean
  readonly agent_status?: AgentStatus
  readonly wait_seconds?: number
}

/** `commands` keeps what it does not understand, for the receiver to skip: read each through `pipeCommand`. */
export const heartbeatAnswer = z.looseObject({
  status: z.string(),
  role: z.enum(pipeRoles),
  message: z.string().optional(),
  commands: z.array(z.unknown()).optional(),
  health: loose.optional(),
})
export type HeartbeatAnswer = z.infer<typeof heartbeatAnswer>

/**
 * Start and end of an audit. With an `audit_id` the view expects closing markers and a `complete` at the end; the same
 * end may come as an empty ingest request with `is_end`, the same metadata and `source_type: audit`. Without a body it is
 * the leader's audit of the older protocol: the view mints an id, every reported directory counts as scanned, and the end
 * counts as complete.
 */
export const auditStartRequest = z.looseObject({ session_id: word.optional(), audit_id: word.optional() })
export const auditEndRequest = z.looseObject({
  session_id: word.optional(),
  audit_id: word.optional(),
  complete: z.boolean().optional(),
})
export const auditAnswer = z.looseObject({ status: z.string(), audit_id: z.string().optional() })
export type AuditAnswer = z.infer<typeof auditAnswer>

/** Empty (`{}`) when there is nothing to look at. */
export const sentinelTasks = z.looseObject({
  type: z.literal('suspect_check').optional(),
  paths: z.array(z.string()).optional(),
  source_id: z.string().optional(),
})
export type SentinelTasks = z.infer<typeof sentinelTasks>

/** `status`: `exists`, `missing`; anything else means that the sensor could not look. */
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

/** The status that says: this session is over, make a new one. */
export const sessionObsolete = 419
