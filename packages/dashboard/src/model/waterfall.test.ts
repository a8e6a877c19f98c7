import { spanWithoutDetails } from '@bellwether/protocol/http'
import { expect, it } from 'vitest'
import { cardOf } from '../../test/support/samples.js'
import type { Span } from '../api/types.js'
import { fullRange, moved, placeOf, rangeOf, rowsOf, stepCards, ticks, titleOf, zoomed } from './waterfall.js'

const at = (ms: number) => new Date(1_000_000 + ms).toISOString()
const span = (id: string, from: number, to: number | null, more: Partial<Span> = {}): Span => ({
  ...spanWithoutDetails,
  span_id: id,
  parent_span_id: null,
  kind: 'step',
  name: id,
  agent_turn_id: 't',
  started_at: at(from),
  ended_at: to === null ? null : at(to),
  ...more,
})
const full = { fromMs: 0, toMs: 1_000 }

it('puts each span below its parent, and one whose parent is missing at the top', () => {
  const spans = [
    span('queue', 0, 10),
    span('run', 10, null),
    span('child', 20, 30, { parent_span_id: 'run' }),
    span('lost', 25, 26, { parent_span_id: 'left out' }),
    span('grandchild', 28, 29, { parent_span_id: 'child' }),
  ]
  expect(rowsOf(spans, 1_000_100).map(({ span: { span_id }, depth }) => [span_id, depth])).toEqual([
    ['queue', 0],
    ['run', 0],
    ['child', 1],
    ['grandchild', 2],
    ['lost', 0],
  ])
})

it('lets a span that has not ended reach to now, and none end before it starts', () => {
  const [open, odd] = rowsOf([span('open', 0, null), span('odd', 50, 40)], 1_000_100)
  expect([open!.toMs, open!.isOpen]).toEqual([1_000_100, true])
  expect([odd!.fromMs, odd!.toMs, odd!.isOpen]).toEqual([1_000_050, 1_000_050, false])
})

it('shows the time from the first start to the last end, also if all is one instant', () => {
  expect(fullRange(rowsOf([span('a', 5, 10), span('b', 0, 7)], 0))).toEqual({ fromMs: 1_000_000, toMs: 1_000_010 })
  expect(fullRange(rowsOf([span('a', 5, 5)], 0))).toEqual({ fromMs: 1_000_005, toMs: 1_000_015 })
  expect(fullRange([]).toMs).toBeGreaterThan(0)
})

it('zooms around a place and moves, and never leaves the full range', () => {
  expect(zoomed(full, full, 2, 0.5)).toEqual({ fromMs: 250, toMs: 750 })
  expect(zoomed(full, full, 2, 0)).toEqual({ fromMs: 0, toMs: 500 })
  expect(zoomed({ fromMs: 900, toMs: 1_000 }, full, 0.01)).toEqual(full)
  expect(zoomed(full, full, 1e9).toMs - zoomed(full, full, 1e9).fromMs).toBe(10)
  expect(moved({ fromMs: 0, toMs: 500 }, full, 0.5)).toEqual({ fromMs: 250, toMs: 750 })
  expect(moved({ fromMs: 600, toMs: 900 }, full, 9)).toEqual({ fromMs: 700, toMs: 1_000 })
  const [row] = rowsOf([span('a', 100, 200)], 0)
  const inside = rangeOf(row!, { fromMs: 1_000_000, toMs: 1_001_000 })
  expect(inside).toEqual({ fromMs: 1_000_090, toMs: 1_000_210 })
})

it('places a span in the range, cut at its edges', () => {
  const range = { fromMs: 100, toMs: 200 }
  expect(placeOf({ fromMs: 125, toMs: 175 }, range)).toEqual({ left: 0.25, width: 0.5 })
  expect(placeOf({ fromMs: 0, toMs: 1_000 }, range)).toEqual({ left: 0, width: 1 })
  expect(placeOf({ fromMs: 0, toMs: 99 }, range)).toBeNull()
  expect(placeOf({ fromMs: 201, toMs: 300 }, range)).toBeNull()
})

it('has round ticks since the start, never more than asked for', () => {
  expect(ticks({ fromMs: 0, toMs: 1_000 }, 0, 5).map(({ text }) => text)).toEqual([
    '0',
    '200 ms',
    '400 ms',
    '600 ms',
    '800 ms',
    '1 s',
  ])
  for (const length of [10, 999, 60_000, 3_600_000, 90 * 86_400_000])
    expect(ticks({ fromMs: 7, toMs: 7 + length }, 0, 6).length).toBeLessThanOrEqual(7)
})

it('names each kind of span', () => {
  const names = [
    ['queue', '', 'In the queue'],
    ['lease', '', 'Leased, waits for a worker'],
    ['lease', 'takeover', 'Reclaimed, waits for a worker'],
    ['lease', 'resume', 'Answered, waits for a worker'],
    ['run', 'coder', 'Run: coder'],
    ['step', 'model', 'Step: model'],
    ['tool', 'Bash', 'Bash'],
    ['person', 'ask_person', 'Question to a person'],
    ['person', 'approval of Bash', 'approval of Bash'],
    ['account', 'account openai', 'Limit of account openai'],
    ['child', 'tester', 'Child turn: tester'],
  ] as const
  for (const [kind, name, title] of names) expect(titleOf(span('x', 0, 1, { kind, name }))).toBe(title)
})

it('a step has the cards that name it, else those that were written while it ran; its prompt is what was written before', () => {
  const card = (card_id: string, ms: number, metadata = {}) => cardOf({ card_id, created_at: at(ms), metadata })
  const [row] = rowsOf([span('s2', 100, 200)], 0)
  const context_cards = [card('asked', 0)]
  const ids = (cards: readonly ReturnType<typeof card>[]) => {
    const { prompt, answer } = stepCards({ context_cards, cards }, row!)
    return [prompt.map((one) => one.card_id), answer.map((one) => one.card_id)]
  }
  const named = [card('a', 50, { step_id: 's1' }), card('b', 300, { step_id: 's2' }), card('c', 400)]
  expect(ids(named)).toEqual([['asked', 'a'], ['b']])
  expect(ids([card('a', 50), card('b', 150), card('c', 250)])).toEqual([['asked', 'a'], ['b']])
  expect(ids([card('a', 50), card('c', 250)])).toEqual([['asked', 'a'], []])
})
