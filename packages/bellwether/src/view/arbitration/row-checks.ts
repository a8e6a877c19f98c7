/**
 * Validates events and rows by hand, because a schema library is too slow for a million rows per second; a test compares it with the
 * schemas. An invalid event or row is rejected with a reason and changes nothing; the rest of its batch is applied. The tree
 * validates paths.
 */
import { isObject } from '@bellwether/base'
import {
  fileEventTypes,
  messageSources,
  pipeLimits,
  type FileEvent,
  type FileEventType,
  type FileRow,
  type MessageSource,
} from '@bellwether/protocol'

export interface CheckedEvent {
  readonly type: FileEventType
  readonly origin: MessageSource
  /** Ms on the sensor's clock; undefined if the sensor sent no usable number. */
  readonly index: number | undefined
  readonly rows: readonly unknown[]
}

const types = new Set<unknown>(fileEventTypes)
const origins = new Set<unknown>(messageSources)

/** Returns the event, or why it is invalid. */
export function checkEvent(value: unknown): CheckedEvent | string {
  if (!isObject(value)) return 'an event must be an object'
  const event = value as Partial<Record<keyof FileEvent, unknown>>
  const type = typeof event.event_type === 'string' ? event.event_type.toLowerCase() : event.event_type
  if (!types.has(type)) return '"event_type" must be insert, update or delete'
  if (event.event_schema !== undefined && event.event_schema !== 'fs') return '"event_schema" must be fs'
  const origin = event.message_source ?? 'realtime'
  if (!origins.has(origin)) return '"message_source" must be realtime, snapshot, audit or on_demand_job'
  if (!Array.isArray(event.rows)) return '"rows" must be a list'
  const { index } = event
  const usable = typeof index === 'number' && Number.isFinite(index) && index > 0
  return {
    type: type as FileEventType,
    origin: origin as MessageSource,
    index: usable ? index : undefined,
    rows: event.rows as unknown[],
  }
}

const isSeconds = (value: unknown): value is number =>
  typeof value === 'number' && Math.abs(value) <= pipeLimits.fileTimeMax
const isOptionalFlag = (value: unknown) => value === undefined || value === null || typeof value === 'boolean'

/** Why a row of an insert or update is invalid; undefined if it is valid. NaN and infinite numbers fail every test. */
export function rowProblem(value: unknown): string | undefined {
  if (!isObject(value)) return 'a row must be an object'
  const row = value as Partial<Record<keyof FileRow, unknown>>
  if (typeof row.path !== 'string') return '"path" must be a string'
  if (!isSeconds(row.modified_time)) return '"modified_time" must be a number of seconds since 1970'
  if (row.size !== undefined && row.size !== null) {
    if (!(Number.isSafeInteger(row.size) && (row.size as number) >= 0))
      return '"size" must be a whole number of bytes, 0 or more'
  } else if (row.is_directory !== true) return 'a file needs "size"'
  if (row.created_time !== undefined && row.created_time !== null && !isSeconds(row.created_time))
    return '"created_time" must be a number of seconds since 1970'
  if (row.parent_mtime !== undefined && row.parent_mtime !== null && !isSeconds(row.parent_mtime))
    return '"parent_mtime" must be a number of seconds since 1970'
  if (row.parent_path !== undefined && row.parent_path !== null && typeof row.parent_path !== 'string')
    return '"parent_path" must be a string'
  if (
    !isOptionalFlag(row.is_directory) ||
    !isOptionalFlag(row.is_symlink) ||
    !isOptionalFlag(row.unreadable) ||
    !isOptionalFlag(row.audit_skipped) ||
    !isOptionalFlag(row.scan_complete) ||
    !isOptionalFlag(row.is_atomic_write)
  )
    return '"is_directory", "is_symlink", "unreadable", "audit_skipped", "scan_complete" and "is_atomic_write" must be true or false'
  return undefined
}

/** Why a row of a delete is invalid; it needs a path only. */
export function deletionProblem(value: unknown): string | undefined {
  if (!isObject(value)) return 'a row must be an object'
  return typeof value['path'] === 'string' ? undefined : '"path" must be a string'
}

/** The parent directory; '/' is its own parent. */
export function parentPath(path: string): string {
  const slash = path.lastIndexOf('/')
  return slash <= 0 ? '/' : path.slice(0, slash)
}
