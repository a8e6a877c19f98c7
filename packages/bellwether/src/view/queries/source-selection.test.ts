import { InvalidInput, Terminal } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { best, chosen, type Standing } from './source-selection.js'

const standing = (
  source_id: string,
  file_count: number,
  total_size: number,
  latest_mtime: number,
  ready = true,
): Standing => ({
  source_id,
  ready,
  file_count,
  total_size,
  latest_mtime,
})

describe('a forest', () => {
  const all = [standing('a', 1, 30, 2), standing('b', 3, 10, 1), standing('c', 3, 20, 9, false)]

  it('[V6.9] knows its best source by each measure, ready ones first', () => {
    expect(
      (['file_count', 'total_size', 'latest_mtime'] as const).map((measure) => best(all, measure)?.source_id),
    ).toEqual(['b', 'a', 'a'])
    expect(best([], 'file_count')).toBeUndefined()
    expect(best([standing('y', 1, 1, 1), standing('x', 1, 1, 1)], 'total_size')?.source_id).toBe('x')
  })

  it('[V6.9] answers for the named source, the best one, or all', () => {
    const sources = all.map(({ source_id: id }) => ({ id }))
    const of = ({ id }: { id: string }) => all.find((one) => one.source_id === id)!
    const ids = (question: { source?: string; best?: string }) => chosen(sources, question, of).map(({ id }) => id)
    expect([ids({}), ids({ source: 'c' }), ids({ best: 'file_count' })]).toEqual([['a', 'b', 'c'], ['c'], ['b']])
    expect(() => ids({ source: 'nobody' })).toThrow(Terminal)
    expect(() => ids({ best: 'beauty' })).toThrow(InvalidInput)
  })
})
