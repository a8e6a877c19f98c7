import { describe, expect, it } from 'vitest'
import { entryOf } from '../../test/support/transcript-data.js'
import { blocksOf, changeWindow, type TranscriptWindow } from './transcript.js'

const run = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, at) => entryOf({ seq: from + at, content: `${from + at}` }))
const newest = (from: number, to: number, cursor: number | null): TranscriptWindow =>
  changeWindow(undefined, { is: 'newest', page: { entries: run(from, to), cursor } })!
const seqs = (window: TranscriptWindow | undefined) => window?.entries.map(({ seq }) => seq)

describe('the window of a transcript', () => {
  it('drops the oldest entries when new ones arrive, and can read them again', () => {
    const window = changeWindow(newest(5, 8, 5), { is: 'live', entries: run(8, 11) }, 4)
    expect(seqs(window)).toEqual([8, 9, 10, 11])
    expect(window).toMatchObject({ earlier: 8, hasNewer: false, latest: 11 })
  })

  it('never separates a note about left-out entries from the entry after it', () => {
    const gap = entryOf({ seq: 9, kind: 'truncated', left_out: { entries: 4, bytes: 10 } })
    const window = changeWindow(newest(1, 4, null), { is: 'live', entries: [gap, ...run(10, 12)] }, 3)
    expect(seqs(window)).toEqual([9, 10, 11, 12])
    expect(window?.earlier).toBe(10)
  })

  it('drops the newest entries when older ones are read, ignores live ones until they are read again, and then has all', () => {
    let window = changeWindow(newest(5, 8, 5), { is: 'earlier', page: { entries: run(3, 4), cursor: 3 } }, 4)
    expect(seqs(window)).toEqual([3, 4, 5, 6])
    window = changeWindow(window, { is: 'live', entries: run(9, 10) }, 4)
    expect(seqs(window)).toEqual([3, 4, 5, 6])
    expect(window).toMatchObject({ hasNewer: true, latest: 10 })
    // The page was read before entry 10 was written.
    window = changeWindow(window, { is: 'newer', page: { entries: run(7, 9), cursor: null } }, 4)
    expect(seqs(window)).toEqual([6, 7, 8, 9])
    expect(window?.hasNewer).toBe(true)
    window = changeWindow(window, { is: 'newer', page: { entries: run(10, 10), cursor: null } }, 4)
    expect(window).toMatchObject({ hasNewer: false, earlier: 7 })
  })
})

describe('the blocks of a transcript', () => {
  it('join pieces that continue each other up to a length, and results with their calls', () => {
    const call = { kind: 'tool_call', call_id: 'c', name: 'grep' } as const
    const blocks = blocksOf([
      entryOf({ seq: 1, content: 'a' }),
      entryOf({ seq: 2, content: 'b', continued: true }),
      entryOf({ seq: 3, content: '{', ...call }),
      entryOf({ seq: 4, content: '}', ...call, continued: true }),
      entryOf({ seq: 5, kind: 'stdout', content: 'x'.repeat(5_000) }),
      entryOf({ seq: 6, kind: 'tool_result', call_id: 'c', content: 'one ' }),
      entryOf({ seq: 7, kind: 'tool_result', call_id: 'c', content: 'two', continued: true }),
      entryOf({ seq: 8, kind: 'stdout', content: 'y'.repeat(5_000) }),
      entryOf({ seq: 9, kind: 'stdout', content: 'z', continued: true }),
    ])
    expect(blocks.map(({ seq, text, result }) => [seq, text.slice(0, 2), result])).toEqual([
      [1, 'ab', null],
      [3, '{}', 'one two'],
      [5, 'xx', null],
      [8, 'yy', null],
      [9, 'z', null],
    ])
  })
})
