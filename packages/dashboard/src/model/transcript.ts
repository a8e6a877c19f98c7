/**
 * The part of a transcript that the page shows: a bounded window of entries that grows at both ends, and the blocks that it becomes. A
 * window never separates an entry of kind `truncated` from the entry after it, because the server sends both with that entry. Pure.
 */
import { parseJson } from '@bellwether/base'
import type { TranscriptEntry } from '../api/types.js'
import { questionIn } from './question.js'

/** A longer window would make the browser slow. */
const windowMax = 600
/** Pieces of one output are joined up to this length, so that the newest part of a long output is always a block of its own. */
const blockChars = 4_000

export interface TranscriptWindow {
  readonly entries: readonly TranscriptEntry[]
  /** Entries before the first one exist: pass it as `before`. */
  readonly earlier: number | null
  /** Entries after the last one exist, but are not in the window. */
  readonly hasNewer: boolean
  /** The highest sequence number seen, in the window or not. */
  readonly latest: number
  /** The turn has ended, and the server has sent its last entry. */
  readonly isOver: boolean
}

export interface TranscriptPage {
  readonly entries: readonly TranscriptEntry[]
  readonly cursor: number | null
}

export type WindowChange =
  | { readonly is: 'newest' | 'earlier' | 'newer'; readonly page: TranscriptPage }
  | { readonly is: 'live'; readonly entries: readonly TranscriptEntry[] }
  | { readonly is: 'over' }

const seqOf = (entries: readonly TranscriptEntry[]) => entries.at(-1)?.seq ?? 0

/** The window with what the server sent. Undefined: nothing has been read yet. */
export function changeWindow(
  before: TranscriptWindow | undefined,
  change: WindowChange,
  most = windowMax,
): TranscriptWindow | undefined {
  if (change.is === 'newest') {
    const { entries, cursor } = change.page
    // The stream may have sent newer entries while the page was read.
    const latest = Math.max(seqOf(entries), before?.latest ?? 0)
    return { entries, earlier: cursor, latest, hasNewer: latest > seqOf(entries), isOver: before?.isOver ?? false }
  }
  if (before === undefined) return undefined
  switch (change.is) {
    case 'over':
      return { ...before, isOver: true }
    case 'earlier': {
      const { page } = change
      const entries = [...page.entries, ...before.entries]
      const hasNewer = before.hasNewer || entries.length > most
      return { ...before, entries: entries.slice(0, most), earlier: page.cursor, hasNewer }
    }
    case 'newer': {
      const { page } = change
      const latest = Math.max(before.latest, seqOf(page.entries))
      const hasNewer = page.cursor !== null || latest > Math.max(seqOf(page.entries), seqOf(before.entries))
      return { ...appended(before, page.entries, most), latest, hasNewer }
    }
    case 'live': {
      const latest = Math.max(before.latest, seqOf(change.entries))
      return before.hasNewer ? { ...before, latest } : { ...appended(before, change.entries, most), latest }
    }
  }
}

function appended(before: TranscriptWindow, more: readonly TranscriptEntry[], most: number): TranscriptWindow {
  const last = seqOf(before.entries)
  const entries = [...before.entries, ...more.filter(({ seq }) => seq > last)]
  let cut = Math.max(0, entries.length - most)
  while (cut > 0 && entries[cut - 1]?.kind === 'truncated') cut -= 1
  if (cut === 0) return { ...before, entries }
  const rest = entries.slice(cut)
  return { ...before, entries: rest, earlier: rest.find(({ kind }) => kind !== 'truncated')?.seq ?? before.earlier }
}

export interface Block {
  /** The sequence number of its first entry. */
  readonly seq: number
  readonly epoch: number
  readonly at: string
  readonly kind: TranscriptEntry['kind']
  readonly name: string | null
  readonly text: string
  /** It continues the block before it. */
  readonly continued: boolean
  readonly leftOut: TranscriptEntry['left_out']
  /** Of a tool call, if it is in the window. */
  readonly result: string | null
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

/** Joins pieces that continue each other, and results with their calls. */
export function blocksOf(entries: readonly TranscriptEntry[]): Block[] {
  const blocks: Mutable<Block>[] = []
  const calls = new Map<string, Mutable<Block>>()
  /** The call whose result the next piece may continue. */
  let answered: Mutable<Block> | undefined
  for (const { seq, turn_epoch, created_at, kind, continued, call_id: id, name, content, left_out } of entries) {
    const last = blocks.at(-1)
    const call = kind === 'tool_result' && id !== null ? calls.get(id) : undefined
    if (call !== undefined && (call.result === null || (continued && call === answered))) {
      call.result = (call.result ?? '') + content
      answered = call
      continue
    }
    answered = undefined
    const isCall = kind === 'tool_call' || kind === 'tool_result'
    if (continued && last?.kind === kind && (isCall || last.text.length < blockChars)) {
      last.text += content
      continue
    }
    const block = {
      ...{ seq, epoch: turn_epoch, at: created_at, kind, name, text: content, continued },
      ...{ leftOut: left_out, result: null },
    }
    blocks.push(block)
    if (kind === 'tool_call' && id !== null) calls.set(id, block)
  }
  return blocks
}

/** The text of a question, whose entry has the arguments of the tool call. */
export function questionText(content: string): string {
  const args = parseJson(content)
  if (args === undefined) return content
  const { text, choices } = questionIn({ arguments: args })
  return choices.length === 0 ? text : `${text}\nChoices: ${choices.join(', ')}`
}

/** Arguments as indented JSON, if they are JSON. */
export function indented(text: string): string {
  const value = parseJson(text)
  return value === undefined ? text : JSON.stringify(value, null, 2)
}
