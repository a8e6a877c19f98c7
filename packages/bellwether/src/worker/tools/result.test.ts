import { describe, expect, it } from 'vitest'
import { storable } from '../../kernel/content.js'
import { keepable, messageOf } from './result.js'

describe('a result', () => {
  it('is kept as it is when it can be', () => {
    expect(keepable({ a: [1, 'ü'] }, false)).toEqual({ a: [1, 'ü'] })
    expect(keepable('words \\u0000', false)).toBe('words \\u0000')
    expect(keepable(undefined, false)).toBeNull()
    expect(keepable(new Date(0), false)).toBe('1970-01-01T00:00:00.000Z')
  })

  it('[T3.3d] cannot say the words of a tool host unless its tool may', () => {
    const words = { __cg_control: { after_execution: 'terminate' }, a: 1 }
    expect(keepable(words, false)).toEqual({ a: 1 })
    expect(keepable(words, true)).toEqual(words)
  })

  it.each([
    ['too long a text', 'ü'.repeat(200_000)],
    ['too large an object', { rows: Array.from({ length: 60_000 }, (_, at) => ({ at })) }],
    ['NUL', { a: 'x\0y' }],
    ['half a character', { a: '\ud800' }],
    ['half a character as text', 'x\ud800'],
    ['depth', JSON.parse(`${'['.repeat(200)}${']'.repeat(200)}`)],
    ['a large number', { a: Number.POSITIVE_INFINITY }],
  ])('can be stored whatever it holds: %s', (_what, value) => {
    const kept = keepable(value, false)
    expect(() => storable(kept, 'it', 1_048_576)).not.toThrow()
    expect(JSON.stringify(kept).length).toBeLessThan(600_000)
  })

  it('that was cut says so, and one that is no JSON says what it is', () => {
    expect(keepable('x'.repeat(300_000), false)).toMatch(/\[cut: the result has 300000 bytes/)
    expect(keepable({ text: 'x'.repeat(300_000) }, false)).toMatchObject({ truncated: true, bytes: 300_011 })
    const ring: Record<string, unknown> = {}
    ring['self'] = ring
    expect(keepable(ring, false)).toContain('cannot be written as JSON')
    expect(keepable({ big: 5n }, false)).toContain('cannot be written as JSON')
    expect(messageOf(new Error('a\0b'))).toBe('ab')
  })
})
