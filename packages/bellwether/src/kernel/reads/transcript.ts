/**
 * Reads the transcript of a turn in pages, by sequence number. Where entries were left out, the page has one entry of kind `truncated` in their
 * place, with the sequence number of the last of them. Reads only, bounded.
 */
import type { TranscriptEntryRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'

interface StoredEntry extends Omit<TranscriptEntryRow, 'kind' | 'left_out'> {
  readonly kind: Exclude<TranscriptEntryRow['kind'], 'truncated'>
  readonly before_seq: number
  readonly left_out_bytes: number
}

export interface TranscriptPage {
  readonly entries: readonly TranscriptEntryRow[]
  /** The sequence number after which, or before which, the next page starts; null: there are no more entries so far. */
  readonly cursor: number | null
}

const statement = (
  part: string,
) => `with s as (select * from state.transcript t where t.agent_turn_id = $1 and ${part} limit $3)
  select s.seq, s.turn_epoch::double precision as turn_epoch, s.created_at, s.kind, s.continued, s.call_id,
    s.name, s.content, coalesce(lag(s.seq) over w, p.seq, 0) as before_seq,
    (s.total_bytes - 64 - octet_length(s.content) - coalesce(lag(s.total_bytes) over w, p.total_bytes, 0))
      ::double precision as left_out_bytes
  from s left join (select p.seq, p.total_bytes from state.transcript p where p.agent_turn_id = $1
    and p.seq < (select min(seq) from s) order by p.seq desc limit 1) p on true
  window w as (order by s.seq) order by s.seq`
const afterSeq = statement('t.seq > $2 order by t.seq')
const beforeSeq = statement('t.seq < $2 order by t.seq desc')
const seqMax = 2_147_483_647

/** The entries after the sequence number `after`, oldest first: at most `limit` stored ones. */
export async function readTranscript(
  db: Queryable,
  agentTurnId: string,
  after: number,
  limit: number,
): Promise<TranscriptPage> {
  const values = [agentTurnId, Math.min(after, seqMax), limit]
  const rows = await db.query<StoredEntry>({ name: 'bw_read_transcript', text: afterSeq, values })
  const entries = rows.flatMap((row) => withGap(row, after))
  return { entries, cursor: rows.length < limit ? null : (rows.at(-1)?.seq ?? null) }
}

/** The newest entries before the sequence number `before`, oldest first: at most `limit` stored ones. */
export async function readTranscriptBefore(
  db: Queryable,
  agentTurnId: string,
  before: number,
  limit: number,
): Promise<TranscriptPage> {
  const values = [agentTurnId, Math.min(before, seqMax), limit]
  const rows = await db.query<StoredEntry>({ name: 'bw_read_transcript_before', text: beforeSeq, values })
  const entries = rows.flatMap((row) => withGap(row, 0))
  return { entries, cursor: rows.length < limit ? null : (rows[0]?.seq ?? null) }
}

function withGap(
  { before_seq: before, left_out_bytes: total, ...row }: StoredEntry,
  after: number,
): TranscriptEntryRow[] {
  const entry: TranscriptEntryRow = { ...row, left_out: null }
  const entries = row.seq - before - 1
  // A reader that has seen the gap, or a part of it, does not get that part again.
  const missed = row.seq - 1 - Math.max(before, after)
  if (missed <= 0) return [entry]
  const bytes = Math.max(0, total - 64 * entries)
  const content = `${bytes} bytes were left out here (entries ${row.seq - missed} to ${row.seq - 1})`
  const gap: TranscriptEntryRow = {
    ...entry,
    seq: row.seq - 1,
    kind: 'truncated',
    continued: false,
    call_id: null,
    name: null,
    content,
    left_out: { entries: missed, bytes },
  }
  return [gap, entry]
}

/** The tool calls whose results the transcript has: a takeover does not write them again. */
export async function readTranscriptResults(db: Queryable, agentTurnId: string): Promise<ReadonlySet<string>> {
  const rows = await db.query<{ call_id: string }>({
    name: 'bw_read_transcript_results',
    text: `select s.call_id from state.transcript s where s.agent_turn_id = $1 and s.kind in ('tool_result', 'answer')
      and s.call_id is not null and not s.continued order by s.seq desc limit 1000`,
    values: [agentTurnId],
  })
  return new Set(rows.map((row) => row.call_id))
}
