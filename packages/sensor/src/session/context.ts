/** What the tasks of one pipe share: where to send, what to read, whose session it is. */
import type { Clock, Log } from '@bellwether/base'
import type { MessageSource, PipeRole, SourceType } from '@bellwether/protocol'
import type { Ids } from '../ports/ids.js'
import type { Scanner } from '../scan/scanner.js'
import type { Source } from '../watch/root-watcher.js'
import type { Sender } from './sender.js'

export interface PipeContext {
  /** The sensor's name; the server shows it as the agent. */
  readonly id: string
  /** What tells the pipes of one sensor apart in logs and health. */
  readonly name: string
  readonly key: string
  readonly root: string
  readonly sourceId?: string
  readonly sender: Sender
  readonly source: Source
  readonly scanner: Scanner
  readonly clock: Clock
  readonly log: Log
  readonly ids: Ids
  readonly batchRows: number
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

const head = (source: MessageSource, type: string, indexMs: number) =>
  `{"events":[{"event_type":"${type}","event_schema":"fs","table":"files","index":${Math.round(indexMs)},"message_source":"${source}","rows":[`

/** An ingest request around rows that are already text. */
export function rowsBody(
  source: Exclude<MessageSource, 'realtime'>,
  rows: Buffer,
  indexMs: number,
  metadata: Readonly<Record<string, unknown>>,
): Buffer {
  const type = source === 'snapshot' ? 'insert' : 'update'
  const tail = `]}],"source_type":"${source}","is_end":false,"metadata":${JSON.stringify(metadata)}}`
  return Buffer.concat([Buffer.from(head(source, type, indexMs)), rows, Buffer.from(tail)])
}

/** An empty request that ends something. */
export const endBody = (type: SourceType, metadata: Readonly<Record<string, unknown>>) => ({
  events: [],
  source_type: type,
  is_end: true,
  metadata,
})
