/**
 * Writes rows of the pipe protocol as JSON text: worker threads produce the text and the main thread only sends it. A name
 * without characters to escape costs one regular expression test.
 */
import type { FileEventType, MessageSource } from '@bellwether/protocol'
import { nameOf, newDiskEntry, type DiskEntry } from './disk.js'

// oxlint-disable-next-line no-control-regex
const special = /["\\\u0000-\u001f\u007f-\uffff]/

const quoted = (text: string): string => (special.test(text) ? JSON.stringify(text) : `"${text}"`)

/** Optional fields of a row. */
export interface RowExtras {
  readonly parentMtime?: number
  readonly atomic?: boolean
  readonly skipped?: boolean
  readonly complete?: boolean
  readonly unreadable?: boolean
}

export function rowText(path: string, found: DiskEntry, extras: RowExtras = {}): string {
  let text = `{"path":${quoted(path)},"file_name":${quoted(found.name)},"size":${found.size},"modified_time":${found.mtime}`
  if (found.createdTime > 0) text += `,"created_time":${found.createdTime}`
  text += found.isDirectory ? ',"is_directory":true' : ',"is_directory":false'
  if (found.isSymlink) text += ',"is_symlink":true'
  if (extras.parentMtime !== undefined) text += `,"parent_mtime":${extras.parentMtime}`
  if (extras.atomic !== undefined) text += `,"is_atomic_write":${extras.atomic}`
  if (extras.skipped === true) text += ',"audit_skipped":true'
  if (extras.unreadable === true) text += ',"unreadable":true'
  if (extras.complete === true) text += ',"scan_complete":true'
  return `${text}}`
}

/** The row of a directory, from its listing. */
export function directoryRow(path: string, times: { mtime: number; createdTime: number }, extras: RowExtras): string {
  return rowText(path, { ...newDiskEntry(), ...times, name: nameOf(path), isDirectory: true }, extras)
}

export const deletedRow = (path: string): string => `{"path":${quoted(path)},"file_name":${quoted(nameOf(path))}}`

/** Wraps rows that are already JSON text in one event. */
export function eventText(type: FileEventType, source: MessageSource, indexMs: number, rows: string): string {
  return `{"event_type":"${type}","event_schema":"fs","table":"files","index":${Math.round(indexMs)},"message_source":"${source}","rows":[${rows}]}`
}
