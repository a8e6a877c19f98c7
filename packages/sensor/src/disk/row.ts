/**
 * Rows as the wire wants them, written as JSON text at once: threads make the text, the main thread only sends it. Names
 * with nothing to escape, which is nearly all, cost one test.
 */
import type { FileEventType, MessageSource } from '@bellwether/protocol'
import { nameOf, type Found } from './disk.js'

// oxlint-disable-next-line no-control-regex
const special = /["\\\u0000-\u001f\u007f-\uffff]/

const quoted = (text: string): string => (special.test(text) ? JSON.stringify(text) : `"${text}"`)

/** What a row says besides its entry. */
export interface RowExtras {
  readonly parentMtime?: number
  readonly atomic?: boolean
  readonly skipped?: boolean
  readonly closed?: boolean
}

export function rowText(path: string, found: Found, extras: RowExtras = {}): string {
  let text = `{"path":${quoted(path)},"file_name":${quoted(found.name)},"size":${found.size},"modified_time":${found.mtime}`
  if (found.born > 0) text += `,"created_time":${found.born}`
  text += found.isDirectory ? ',"is_directory":true' : ',"is_directory":false'
  if (extras.parentMtime !== undefined) text += `,"parent_mtime":${extras.parentMtime}`
  if (extras.atomic !== undefined) text += `,"is_atomic_write":${extras.atomic}`
  if (extras.skipped === true) text += ',"audit_skipped":true'
  if (extras.closed === true) text += ',"scan_complete":true'
  return `${text}}`
}

/** A directory's own row, from its listing. */
export function directoryRow(path: string, times: { mtime: number; born: number }, extras: RowExtras): string {
  const { mtime, born } = times
  const found = { name: nameOf(path), isDirectory: true, isRegular: false, size: 0, links: 1, mtime, born }
  return rowText(path, found, extras)
}

export const goneRow = (path: string): string => `{"path":${quoted(path)},"file_name":${quoted(nameOf(path))}}`

/** One event around rows that are already text. */
export function eventText(type: FileEventType, source: MessageSource, indexMs: number, rows: string): string {
  return `{"event_type":"${type}","event_schema":"fs","table":"files","index":${Math.round(indexMs)},"message_source":"${source}","rows":[${rows}]}`
}
