/** The report of a part of a transcript: as many entries as fit, from the end or from the start, and how to read on. Pure. */
import { transcriptText } from '@bellwether/protocol'
import type { ResponseOf, TranscriptEntry } from '@bellwether/protocol/http'
import type { ToolReport } from './tool.js'

type Page = ResponseOf<'GET /projects/:project/turns/:turn/transcript'>

/** Larger than every sequence number. */
export const endSequence = 2_147_483_647
/** More entries rarely fit into a result. */
export const entriesMax = 500
// The line that starts an entry: time, kind and name.
const headChars = 64

export function transcriptReport(turn: string, page: Page, from: 'start' | 'end', chars: number): ToolReport {
  const shown = from === 'start' ? fitting(page.entries, chars) : fitting(page.entries.toReversed(), chars).toReversed()
  const [first, last] = [shown[0], shown.at(-1)]
  if (first === undefined || last === undefined)
    return { summary: `Turn ${turn} has no more entries there. While it runs, it may write more.` }
  const isCut = page.cursor !== null || shown.length < page.entries.length
  const more =
    from === 'start'
      ? isCut
        ? `Later entries exist: turn_transcript with after ${last.seq}.`
        : 'These are the last entries so far.'
      : isCut
        ? `Earlier entries exist: turn_transcript with before ${first.seq}.`
        : 'The first entry is included.'
  const text = transcriptText()
  return { summary: `Entries ${first.seq} to ${last.seq} of turn ${turn}. ${more}`, data: text.add(shown) + text.end() }
}

/** The first entries that fit, at least one. */
function fitting(entries: readonly TranscriptEntry[], chars: number): TranscriptEntry[] {
  const shown: TranscriptEntry[] = []
  let used = 0
  for (const entry of entries) {
    used += entry.content.length + (entry.name?.length ?? 0) + headChars
    if (used > chars && shown.length > 0) break
    shown.push(entry)
  }
  return shown
}
