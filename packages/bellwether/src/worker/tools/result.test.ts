import { describe, expect, it } from 'vitest'
import { storable } from '../../kernel/content.js'
import { storableResult, messageOf } from './result.js'

describe('storableResult', () => {
  it('returns a storable value unchanged', () => {
    expect(storableResult({ a: [1, 'ü'] }, false)).toEqual({ a: [1, 'ü'] })
    expect(storableResult('words \\u0000', false)).toBe('words \\u0000')
    expect(storableResult(undefined, false)).toBeNull()
    expect(storableResult(new Date(0), false)).toBe('1970-01-01T00:00:00.000Z')
  })

  it('[T3.3d] removes the control key unless the tool may set it', () => {
    const controlled = { __cg_control: { after_execution: 'terminate' }, a: 1 }
    expect(storableResult(controlled, false)).toEqual({ a: 1 })
    expect(storableResult(controlled, true)).toEqual(controlled)
  })

  it.each([
    ['too long a text', 'ü'.repeat(200_000)],
    ['too large an object', { rows: Array.from({ length: 60_000 }, (_, at) => ({ at })) }],
    ['NUL', { a: 'x\0y' }],
    ['half a character', { a: '\ud800' }],
    ['half a character as text', 'x\ud800'],
    ['depth', JSON.parse(`${'['.repeat(200)}${']'.repeat(200)}`)],
    ['a large number', { a: Number.POSITIVE_INFINITY }],
  ])('makes any value storable: %s', (_what, value) => {
    const stored = storableResult(value, false)
    expect(() => storable(stored, 'it', 1_048_576)).not.toThrow()
    expect(JSON.stringify(stored).length).toBeLessThan(600_000)
  })

  it('notes that a result was cut or is not JSON', () => {
    expect(storableResult('x'.repeat(300_000), false)).toMatch(/\[cut: the result has 300000 bytes/)
    expect(storableResult({ text: 'x'.repeat(300_000) }, false)).toMatchObject({ truncated: true, bytes: 300_011 })
    const ring: Record<string, unknown> = {}
    ring['self'] = ring
    expect(storableResult(ring, false)).toContain('cannot be converted to JSON')
    expect(storableResult({ big: 5n }, false)).toContain('cannot be converted to JSON')
    expect(messageOf(new Error('a\0b'))).toBe('ab')
  })
})
