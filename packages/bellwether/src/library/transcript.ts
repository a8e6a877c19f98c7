/**
 * Transcripts of the library: what the agent of a turn wrote and did, as an async iterable. Each stored entry comes once and in order. A live
 * iteration ends after the last entry of the turn: it looks whether the turn has ended before it reads, because nothing is appended after the end.
 */
import { linkAbort, type Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { TranscriptEntryRow } from '@bellwether/protocol/http'
import type { Follower, Tail } from '../http/tail.js'
import type { TranscriptBell, TranscriptRings } from '../http/transcript-bell.js'
import { readTranscript } from '../kernel/reads/transcript.js'
import type { Queryable } from '../ports/database/database.js'

/** One entry. Content of more than 16 KiB has several entries that continue each other. */
export interface TranscriptEntry {
  /** Pass it as `after` to continue here. */
  readonly seq: number
  readonly kind: TranscriptEntryRow['kind']
  readonly content: string
  /** The content continues that of the entry before it without a break. */
  readonly continued: boolean
  /** The tool call that the entry belongs to. */
  readonly callId: string | null
  /** The tool, program or person. */
  readonly name: string | null
  /** The epoch of the worker that wrote it: higher after a takeover. */
  readonly epoch: number
  /** Of kind `truncated`: what was left out here. */
  readonly leftOut: { readonly entries: number; readonly bytes: number } | null
  readonly createdAt: Date
}

export interface TranscriptOptions {
  /** Continue after this entry. Default: from the first one. */
  readonly after?: number
  /** Also yield new entries, until the turn has ended. */
  readonly live?: boolean
  /** Ends the iteration. */
  readonly signal?: AbortSignal
}

interface TranscriptPorts {
  readonly db: Queryable
  readonly bell: TranscriptBell
  readonly tail: Tail
  readonly clock: Clock
  /** Aborts when the library closes. */
  readonly closing: AbortSignal
  /** Throws if the project has no such turn. */
  readonly hasEnded: (id: string) => Promise<boolean>
}

const pageMax = 200
// Rings are rarely lost; then an entry is this late.
const pollMs = 5_000
const retryMs = 1_000

export async function* iterateTranscript(
  ports: TranscriptPorts,
  id: string,
  { after = 0, live = false, signal }: TranscriptOptions,
): AsyncGenerator<TranscriptEntry> {
  const { db, bell, tail, clock, closing, hasEnded } = ports
  const over = linkAbort(closing, signal)
  let rings: TranscriptRings | undefined
  let follower: Follower | undefined
  let seq = after
  try {
    if (live) {
      rings = await bell.follow(id)
      follower = await tail.follow()
    }
    while (!over.signal.aborted) {
      const count = rings?.count() ?? 0
      const read = await hasEnded(id)
        .then(async (isOver) => ({ isOver, page: await readTranscript(db, id, seq, pageMax) }))
        .catch(async (error: unknown) => {
          if (!live || !(error instanceof Retryable)) throw error
          await clock.sleep(retryMs, over.signal)
          return undefined
        })
      if (read === undefined) continue
      for (const entry of read.page.entries) {
        seq = entry.seq
        yield entryOf(entry)
        if (over.signal.aborted) return
      }
      if (read.page.cursor !== null) continue
      if (rings === undefined || follower === undefined || read.isOver) return
      const round = linkAbort(over.signal)
      const waits = [rings.after(count, round.signal), follower.ended(id, round.signal)]
      await Promise.race([...waits, clock.sleep(pollMs, round.signal)])
      round.abort()
    }
  } finally {
    over.abort()
    rings?.stop()
    follower?.stop()
  }
}

const entryOf = (row: TranscriptEntryRow): TranscriptEntry => ({
  seq: row.seq,
  kind: row.kind,
  content: row.content,
  continued: row.continued,
  callId: row.call_id,
  name: row.name,
  epoch: row.turn_epoch,
  leftOut: row.left_out,
  createdAt: row.created_at,
})
