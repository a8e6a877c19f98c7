/**
 * The waterfall of a turn: spans as rows of a tree, a range of time that can be zoomed and moved, and where each span lies in it. Pure.
 * Times are milliseconds of the server's clock; a span that has not ended reaches to now.
 */
import { groupBy } from '@bellwether/base'
import type { Card, Span, TurnDetail } from '../api/types.js'
import { duration, msOf } from './time.js'

export interface SpanRow {
  readonly span: Span
  readonly depth: number
  readonly fromMs: number
  readonly toMs: number
  readonly isOpen: boolean
}

export interface Range {
  readonly fromMs: number
  readonly toMs: number
}

/** The deepest indentation: children reach five levels below the turn. */
const depthMax = 8
/** No range is shorter: two events of one millisecond stay apart. */
const rangeLeastMs = 10

/** Each span below its parent, siblings by their start. A span whose parent is missing is at the top. */
export function rowsOf(spans: readonly Span[], nowMs: number): SpanRow[] {
  const ids = new Set(spans.map((span) => span.span_id))
  const below = groupBy(spans, ({ parent_span_id: parent }) => (parent !== null && ids.has(parent) ? parent : null))
  const rows: SpanRow[] = []
  const add = (parent: string | null, depth: number) => {
    for (const span of below.get(parent) ?? []) {
      const fromMs = msOf(span.started_at) ?? nowMs
      const endMs = msOf(span.ended_at)
      // Clocks of workers may differ from the clock of the database.
      rows.push({ span, depth, fromMs, toMs: Math.max(fromMs, endMs ?? nowMs), isOpen: endMs === null })
      add(span.span_id, Math.min(depthMax, depth + 1))
    }
  }
  add(null, 0)
  return rows
}

/** From the first start to the last end. */
export function fullRange(rows: readonly SpanRow[]): Range {
  let [fromMs, toMs] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const row of rows) {
    fromMs = Math.min(fromMs, row.fromMs)
    toMs = Math.max(toMs, row.toMs)
  }
  return rows.length === 0 ? { fromMs: 0, toMs: rangeLeastMs } : { fromMs, toMs: Math.max(toMs, fromMs + rangeLeastMs) }
}

/** The range enlarged (`factor` above 1: more detail) around a part of it, within the full range. */
export function zoomed(range: Range, full: Range, factor: number, around = 0.5): Range {
  const before = range.toMs - range.fromMs
  const length = Math.min(full.toMs - full.fromMs, Math.max(rangeLeastMs, before / factor))
  return within({ fromMs: range.fromMs + (before - length) * around, toMs: 0 }, length, full)
}

/** The range moved by a share of its length, within the full range. */
export function moved(range: Range, full: Range, share: number): Range {
  const length = range.toMs - range.fromMs
  return within({ fromMs: range.fromMs + length * share, toMs: 0 }, length, full)
}

function within({ fromMs: wanted }: Range, length: number, full: Range): Range {
  const fromMs = Math.max(full.fromMs, Math.min(wanted, full.toMs - length))
  return { fromMs, toMs: fromMs + length }
}

/** The range of one span, with some room at both ends. */
export function rangeOf({ fromMs, toMs }: SpanRow, full: Range): Range {
  const length = Math.min(full.toMs - full.fromMs, Math.max(rangeLeastMs, (toMs - fromMs) * 1.2))
  return within({ fromMs: (fromMs + toMs - length) / 2, toMs: 0 }, length, full)
}

/** Left edge and width as shares of the range; null: the span is outside of it. */
export function placeOf({ fromMs, toMs }: Pick<SpanRow, 'fromMs' | 'toMs'>, range: Range) {
  if (toMs < range.fromMs || fromMs > range.toMs) return null
  const length = range.toMs - range.fromMs
  const left = Math.max(0, (fromMs - range.fromMs) / length)
  return { left, width: Math.min(1, (toMs - range.fromMs) / length) - left }
}

const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400]
const roundMs = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...seconds.map((second) => second * 1_000)]
const dayMs = 86_400_000

export interface Tick {
  readonly left: number
  readonly text: string
}

/** Round times since the start of the turn, at most `most` of them. */
export function ticks(range: Range, startMs: number, most: number): Tick[] {
  const length = range.toMs - range.fromMs
  const step = roundMs.find((one) => length / one <= most) ?? Math.ceil(length / most / dayMs) * dayMs
  const found: Tick[] = []
  for (let at = Math.ceil((range.fromMs - startMs) / step) * step; at <= range.toMs - startMs; at += step)
    found.push({
      left: (at + startMs - range.fromMs) / length,
      text: at === 0 ? '0' : duration(at).replace('.0 s', ' s'),
    })
  return found
}

export const kindWords: Readonly<Record<Span['kind'], string>> = {
  queue: 'In the queue',
  lease: 'Leased',
  run: 'Run',
  step: 'Step',
  tool: 'Tool',
  person: 'Person',
  account: 'Limit',
  child: 'Child turn',
}

/** What made a turn wait for a worker again. */
const leaseCauses: Readonly<Record<string, string>> = { takeover: 'Reclaimed', resume: 'Answered' }

/** What the row is called: its kind, and its own name. */
export function titleOf({ kind, name }: Span): string {
  if (kind === 'queue') return kindWords.queue
  if (kind === 'lease') return `${leaseCauses[name] ?? kindWords.lease}, waits for a worker`
  if (kind === 'person' && name === 'ask_person') return 'Question to a person'
  if (kind === 'account') return `Limit of ${name}`
  return kind === 'tool' || kind === 'person' ? name : `${kindWords[kind]}: ${name}`
}

export interface StepCards {
  /** What the model or program read, oldest first. */
  readonly prompt: readonly Card[]
  /** What it wrote. */
  readonly answer: readonly Card[]
}

/** The cards of a step: those that name it, or if none does, those that were written while it ran. */
export function stepCards(
  { context_cards: context, cards }: Pick<TurnDetail, 'context_cards' | 'cards'>,
  { span, fromMs, toMs }: Pick<SpanRow, 'span' | 'fromMs' | 'toMs'>,
): StepCards {
  const isNamed = ({ metadata }: Card) => metadata['step_id'] === span.span_id
  const isWithin = ({ created_at: at }: Card) => Date.parse(at) >= fromMs && Date.parse(at) <= toMs
  const isOwn = cards.some(isNamed) ? isNamed : isWithin
  const first = cards.findIndex(isOwn)
  const before = first === -1 ? cards.filter(({ created_at: at }) => Date.parse(at) < fromMs) : cards.slice(0, first)
  return { prompt: [...context, ...before], answer: cards.filter(isOwn) }
}
