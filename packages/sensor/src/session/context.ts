/** The dependencies that the tasks of one pipe share, the session type, and the bodies of ingest requests. */
import type { Clock, Log } from '@bellwether/base'
import type { MessageSource, PipeRole, SourceType } from '@bellwether/protocol'
import type { Ids } from '../ports/ids.js'
import type { Scanner } from '../scan/scanner.js'
import type { RootWatcher } from '../watch/root-watcher.js'
import type { Sender } from './sender.js'

/** Rows that were skipped since the last audit that skipped none. */
export interface SkippedRows {
  count: number
  /** The path of the latest one, shortened. */
  path: string | undefined
}

export interface PipeContext {
  /** The id of the sensor; the server shows it as the agent. */
  readonly id: string
  /** Distinguishes the pipes of one sensor in logs and health units. */
  readonly name: string
  readonly key: string
  readonly root: string
  readonly sourceId?: string
  readonly sender: Sender
  readonly watcher: RootWatcher
  readonly scanner: Scanner
  readonly clock: Clock
  readonly log: Log
  readonly ids: Ids
  readonly batchRows: number
  readonly skipped: SkippedRows
  /** Whether the sensor does not report this path. */
  readonly isExcluded: (path: string) => boolean
  readonly stuckMs: number
  readonly sessionTimeoutSeconds?: number
}

export interface Session {
  readonly id: string
  role: PipeRole
  readonly timeoutMs: number
  readonly auditMs: number
  readonly sentinelMs: number
}

/**
 * The maximum length of the rows of one request, in characters: a quarter of what a server accepts. 1,000 ordinary rows take
 * about 200,000; a path in which no byte is UTF-8 takes up to 25,000.
 */
export const batchLength = 2_000_000

const requestHead = (source: MessageSource, type: string, indexMs: number) =>
  `{"events":[{"event_type":"${type}","event_schema":"fs","table":"files","index":${Math.round(indexMs)},"message_source":"${source}","rows":[`

/** An ingest request with rows that are already JSON text. */
export function rowsBody(
  source: Exclude<MessageSource, 'realtime'>,
  rows: Buffer,
  indexMs: number,
  metadata: Readonly<Record<string, unknown>>,
): Buffer {
  const type = source === 'snapshot' ? 'insert' : 'update'
  const tail = `]}],"source_type":"${source}","is_end":false,"metadata":${JSON.stringify(metadata)}}`
  return Buffer.concat([Buffer.from(requestHead(source, type, indexMs)), rows, Buffer.from(tail)])
}

/** An ingest request without rows that ends a snapshot, audit or job. */
export const endBody = (type: SourceType, metadata: Readonly<Record<string, unknown>>) => ({
  events: [],
  source_type: type,
  is_end: true,
  metadata,
})
