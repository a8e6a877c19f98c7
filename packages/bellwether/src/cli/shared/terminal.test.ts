import { describe, expect, it } from 'vitest'
import { block, safeJson, plain } from '../../client/sanitize.js'
import { bytes, cut, facts, instant, table, widthOf } from './terminal.js'

const hostile = 'a\u001b[2Jb\u009b31mc\u202ed\u2028e\r\nf\tg\ud800'

describe('sanitize', () => {
  it('removes control characters from one line and from several lines', () => {
    expect(plain(hostile)).toBe('a?[2Jb?31mc?d?e? f g?')
    expect(block(hostile)).toBe('a?[2Jb?31mc?d?e\nf\tg?')
  })

  it('escapes control characters in JSON without changing the value', () => {
    const written = safeJson({ name: hostile, tag: '\u{e0041}' })
    expect(written).toMatch(/^[ -~]*$/)
    expect(JSON.parse(written)).toEqual({ name: hostile, tag: '\u{e0041}' })
  })
})

describe('table', () => {
  const headings = ['NAME', 'WHAT', 'N']
  const rows = [
    ['ann', 'a long story about nearly nothing at all', '1'],
    ['日本語', 'short', '20'],
  ]

  it('a table is as wide as needed without a terminal, and fits the width of a terminal', () => {
    expect(table(headings, rows).split('\n')[1]).toBe('ann     a long story about nearly nothing at all  1')
    for (const columns of [80, 40, 20, 10, 1]) {
      for (const line of table(headings, rows, columns).split('\n')) expect(widthOf(line)).toBeLessThanOrEqual(columns)
    }
    expect(table(headings, rows, 30)).toContain('a long story abou…')
  })

  it('aligns wide characters with their heading', () => {
    const [, ann = '', wide = ''] = table(headings, rows).split('\n')
    expect(widthOf(wide.slice(0, wide.indexOf('short')))).toBe(ann.indexOf('a long'))
  })

  it('keeps every cell on its line', () => {
    expect(table(['A'], [['x\ny\u001b[31m']]).split('\n')).toEqual(['A', 'x y?[31m'])
  })
})

it('cuts text by terminal columns, not by characters', () => {
  expect(cut('日本語', 5)).toBe('日本…')
  expect(cut('abc', 3)).toBe('abc')
})

it('formats named values, instants and sizes', () => {
  expect(
    facts([
      ['a', 'x'],
      ['bbb', 'y\nz'],
    ]),
  ).toBe('  a    x\n  bbb  y z')
  expect(instant('2026-11-15T17:45:12.123Z')).toBe('2026-11-15 17:45:12')
  expect([instant(null), instant(0)]).toEqual(['–', '1970-01-01 00:00:00'])
  expect([bytes(0), bytes(999), bytes(1_500), bytes(2e15)]).toEqual(['0 B', '999 B', '1.5 kB', '2000.0 TB'])
})

it('never shortens an id column', () => {
  const id = '01a1e06d-4451-7000-932f-24dab5b08869'
  const written = table(['TURN', 'WHY'], [[id, 'because '.repeat(20)]], 60, [0])
  expect(written.split('\n')[1]).toMatch(new RegExp(`^${id}  because be.*…$`))
})
