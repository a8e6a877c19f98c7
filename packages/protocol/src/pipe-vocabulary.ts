/** The limits and words of the pipe, without schemas: pipe.ts has those. */

/** The limits of one request. A sensor that stays below them is never rejected for size. */
export const pipeLimits = {
  /** Rows per ingest request, in all its events. 1,000 to 5,000 are the fastest. */
  rowsMax: 20_000,
  /** Bytes of a body, compressed and decompressed. */
  bodyBytesMax: 8 * 1_024 * 1_024,
  inflatedBytesMax: 8 * 1_024 * 1_024,
  /** UTF-16 units; Linux allows 255 bytes per name, and 4,096 per path of a system call. */
  nameLengthMax: 255,
  pathLengthMax: 4_096,
  /** The longest wait of a heartbeat for commands. Keep it below a third of the session's timeout. */
  waitSecondsMax: 25,
  commandsMax: 256,
  /** The year 5138. A larger file time is in the wrong unit: milliseconds or nanoseconds. */
  fileTimeMax: 1e11,
} as const

export const pipeRoles = ['leader', 'follower'] as const
export type PipeRole = (typeof pipeRoles)[number]

export const messageSources = ['realtime', 'snapshot', 'audit', 'on_demand_job'] as const
export type MessageSource = (typeof messageSources)[number]

export const sourceTypes = ['message', 'snapshot', 'audit', 'on_demand_job', 'job_complete'] as const
export type SourceType = (typeof sourceTypes)[number]

export const fileEventTypes = ['insert', 'update', 'delete'] as const
export type FileEventType = (typeof fileEventTypes)[number]

/** The HTTP status of a request whose session has ended: open a new one. */
export const sessionObsolete = 419
