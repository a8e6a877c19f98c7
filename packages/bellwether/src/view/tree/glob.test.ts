/** Globs against a regular expression that says the same, and against patterns made to be slow. */
import { InvalidInput } from '@bellwether/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compileGlob, matchGlob } from './glob.js'
import { bytesOf } from './path.js'

function matches(pattern: string, text: string): boolean {
  const bytes = bytesOf(text)
  return matchGlob(compileGlob(pattern), bytes, 0, bytes.length)
}

describe('a glob', () => {
  const cases: [string, string, boolean][] = [
    ['*.ts', 'index.ts', true],
    ['*.ts', 'index.tsx', false],
    ['*', '', true],
    ['a*c', 'abc', true],
    ['a*c', 'a/c', false],
    ['a**c', 'a/b/c', true],
    ['/a/**/b', '/a/b', true],
    ['/a/**/b', '/a/x/y/b', true],
    ['/a/**/b', '/a/xb', false],
    ['**/b', '/b', true],
    ['?', 'é', true],
    ['?', '\u{1f600}', true],
    ['?', '\udcff', true],
    ['??', 'é', false],
    ['[a-c]x', 'bx', true],
    ['[!a-c]x', 'bx', false],
    ['[!a-c]x', 'dx', true],
    ['[]]', ']', true],
    ['[é-ü]', 'ö', true],
    ['[', '[', true],
    ['a[', 'a[', true],
    ['\\*', '*', true],
    ['\\*', 'a', false],
    ['[a-]', '-', true],
    ['x\udcff*', 'x\udcffy', true],
  ]
  it.each(cases)('%s on %s is %s', (pattern, text, wanted) => {
    expect(matches(pattern, text)).toBe(wanted)
  })

  it('agrees with a regular expression', () => {
    const piece = fc.constantFrom('a', 'b', '/', '*', '**', '?', '[ab]', '[!a]')
    const pattern = fc.array(piece, { minLength: 1, maxLength: 8 }).map((pieces) => pieces.join(''))
    const text = fc.array(fc.constantFrom('a', 'b', '/', 'é'), { maxLength: 10 }).map((letters) => letters.join(''))
    fc.assert(
      fc.property(pattern, text, (pattern, text) => {
        expect(matches(pattern, text)).toBe(asRegExp(pattern).test(text))
      }),
      { numRuns: 5_000 },
    )
  })

  it('a glob is never slow, however many stars it has', () => {
    expect(matches(`${'*a'.repeat(100)}b`, 'a'.repeat(255))).toBe(false)
    expect(matches(`${'**a'.repeat(100)}b`, 'a'.repeat(4_000))).toBe(false)
    expect(matches(`${'**/*a'.repeat(50)}b`, 'a/'.repeat(2_000))).toBe(false)
  })

  it('a glob is refused if it is empty, huge or contains a NUL', () => {
    for (const pattern of ['', 'a'.repeat(2_000), 'a\0']) expect(() => compileGlob(pattern)).toThrow(InvalidInput)
  })
})

function asRegExp(glob: string): RegExp {
  const source = glob
    .replaceAll(/(?<=^|\/)\*\*+\//g, '\u0001')
    .replaceAll(/\*\*+/g, '\u0002')
    .replaceAll('*', '[^/]*')
    .replaceAll('?', '[^/]')
    .replaceAll('[!a]', '[^a/]')
    .replaceAll('\u0001', '(?:.*/)?')
    .replaceAll('\u0002', '.*')
  return new RegExp(`^${source}$`, 'su')
}
