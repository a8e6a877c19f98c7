/** Append transcript: what the agent of a turn says and does, stored as it happens (T9.2). A lost fence writes nothing. */
import type { TranscriptKind } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import { call, fenceRow, type Fence, type Verdict } from '../../verdict.js'

export interface NewTranscriptEntry {
  readonly kind: TranscriptKind
  readonly content: string
  /** The tool call that the entry belongs to. */
  readonly callId?: string | undefined
  /** The name of the tool, the person or the program. */
  readonly name?: string | undefined
  /** Whether the content continues the entry before it without a break. */
  readonly continued?: boolean
}

/** An entry with what its writer knows about it. */
export interface NumberedEntry extends NewTranscriptEntry {
  /** Grows within a session of the writer. */
  readonly number: number
  /** How long ago the entry was made. */
  readonly ageMs: number
  /** Bytes that the writer dropped before this entry. */
  readonly leftOutBytes?: number
}

export interface TranscriptBatch extends Fence {
  /** A random number below 2^31. Entries are numbered per session, so that a repeated call writes nothing twice. */
  readonly session: number
  readonly entries: readonly NumberedEntry[]
}

/** The largest content of one entry. A writer splits longer content into entries that continue each other. */
const entryMaxBytes = 16_384
const nameMax = 200

/** Returns the last sequence number per batch, in their order. */
export async function appendTranscript(
  db: Queryable,
  batches: readonly TranscriptBatch[],
  maxBytes: number,
): Promise<(number | 'stale')[]> {
  const items = batches.map((batch) => ({
    ...fenceRow(batch),
    entries: batch.entries.map((entry) => row(batch, entry)),
  }))
  const verdicts = await call<Verdict<'appended' | 'stale', { readonly seq: number } | null>>(
    db,
    'append_transcript',
    items,
    maxBytes,
  )
  return verdicts.map(({ detail }) => detail?.seq ?? 'stale')
}

function row({ session }: TranscriptBatch, entry: NumberedEntry): Record<string, unknown> {
  return {
    key: String((BigInt(session) << 32n) | BigInt(entry.number)),
    kind: entry.kind,
    age_ms: Math.max(0, entry.ageMs),
    continued: entry.continued === true ? true : undefined,
    call_id: entry.callId === undefined ? undefined : storableText(entry.callId.slice(0, nameMax)),
    name: entry.name === undefined ? undefined : storableText(entry.name.slice(0, nameMax)),
    content: storableText(entry.content),
    left_out: entry.leftOutBytes,
  }
}

/** The content in pieces that fit into one entry each, cut between characters. */
export function splitContent(content: string): string[] {
  // Three bytes per UTF-16 unit at most.
  if (content.length * 3 <= entryMaxBytes || Buffer.byteLength(content) <= entryMaxBytes) return [content]
  const pieces: string[] = []
  const bytes = Buffer.from(content)
  for (let from = 0; from < bytes.length;) {
    let to = Math.min(from + entryMaxBytes, bytes.length)
    while (to < bytes.length && (bytes[to]! & 0xc0) === 0x80) to -= 1
    pieces.push(bytes.toString('utf8', from, to))
    from = to
  }
  return pieces
}

/** The text without what PostgreSQL cannot store. */
function storableText(text: string): string {
  const well = text.toWellFormed()
  return well.includes('\0') ? well.replaceAll('\0', '\u{fffd}') : well
}
