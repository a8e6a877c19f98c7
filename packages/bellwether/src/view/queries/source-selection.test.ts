import { InvalidInput, Terminal } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { bestSource, selectSources, type SourceSize } from './source-selection.js'

const size = (
  source_id: string,
  file_count: number,
  total_size: number,
  latest_mtime: number,
  ready = true,
): SourceSize => ({ source_id, ready, file_count, total_size, latest_mtime })

describe('a view with several sources', () => {
  const all = [size('a', 1, 30, 2), size('b', 3, 10, 1), size('c', 3, 20, 9, false)]

  it('[V6.9] finds the best source by each measure, ready sources first', () => {
    expect(
      (['file_count', 'total_size', 'latest_mtime'] as const).map((measure) => bestSource(all, measure)?.source_id),
    ).toEqual(['b', 'a', 'a'])
    expect(bestSource([], 'file_count')).toBeUndefined()
    expect(bestSource([size('y', 1, 1, 1), size('x', 1, 1, 1)], 'total_size')?.source_id).toBe('x')
  })

  it('[V6.9] selects the named source, the best one or all', () => {
    const sources = all.map(({ source_id: id }) => ({ id }))
    const of = ({ id }: { id: string }) => all.find((one) => one.source_id === id)!
    const ids = (question: { source?: string; best?: string }) =>
      selectSources(sources, question, of).map(({ id }) => id)
    expect([ids({}), ids({ source: 'c' }), ids({ best: 'file_count' })]).toEqual([['a', 'b', 'c'], ['c'], ['b']])
    expect(() => ids({ source: 'nobody' })).toThrow(Terminal)
    expect(() => ids({ best: 'beauty' })).toThrow(InvalidInput)
  })
})
