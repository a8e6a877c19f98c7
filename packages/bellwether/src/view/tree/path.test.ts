/** Paths: what is refused and why, and that no byte of a name is lost. */
import { InvalidInput } from '@bellwether/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bytesOf, depthMax, nameBytesMax, ParsedPath, pathBytesMax, textOf } from './path.js'

function parts(path: string): string[] {
  const parsed = new ParsedPath(3)
  parsed.parse(path)
  return Array.from({ length: parsed.depth }, (_, i) => textOf(parsed.bytes, parsed.starts[i]!, parsed.ends[i]!))
}

describe('a path', () => {
  it('[V6.1] a path begins with a slash at the root of its source and is split into names', () => {
    expect(parts('/')).toEqual([])
    expect(parts('/a')).toEqual(['a'])
    expect(parts('/a b/ç/\u{1f600}.txt')).toEqual(['a b', 'ç', '\u{1f600}.txt'])
    expect(parts('/a/')).toEqual(['a'])
    expect(parts('/...')).toEqual(['...'])
  })

  const refused: [string, string][] = [
    ['nothing', ''],
    ['a relative path', 'a/b'],
    ['a parent', '/a/../b'],
    ['a parent at the end', '/a/..'],
    ['the directory itself', '/a/./b'],
    ['an empty name', '/a//b'],
    ['two slashes', '//'],
    ['two slashes at the end', '/a//'],
    ['a NUL', '/a\0b'],
    ['a name of 256 bytes', `/${'a'.repeat(nameBytesMax + 1)}`],
    ['a name of 256 bytes in 128 characters', `/${'é'.repeat(128)}`],
    ['a path of 4,097 bytes', `/a${'/bcd'.repeat(1_023)}/bcd`],
    ['a path that is short in characters only', `/${Array.from({ length: 20 }, () => '\uffff'.repeat(80)).join('/')}`],
    ['too many names', '/a'.repeat(depthMax + 1)],
    ['half a character', '/\ud83d'],
    ['the other half', '/\ude00'],
    ['an escape of a byte that needs none', '/\udc2f'],
  ]
  it.each(refused)('[V6.1] a path is refused if it contains %s', (_, path) => {
    expect(() => parts(path)).toThrow(InvalidInput)
  })

  it('[V6.1] a path is accepted up to its limits', () => {
    expect(parts(`/${'a'.repeat(nameBytesMax)}`)).toHaveLength(1)
    expect(parts(`/${'é'.repeat(127)}a`)).toHaveLength(1)
    expect(parts('/a'.repeat(depthMax))).toHaveLength(depthMax)
    expect(parts(`/abc${'/bcd'.repeat(1_023)}`)).toHaveLength(1_024)
    expect(pathBytesMax).toBe(4 * 1_024)
  })

  it('[V6.1] keeps every byte of a name, UTF-8 or not', () => {
    const name = fc.uint8Array({ minLength: 1, maxLength: 40 }).map((bytes) => Buffer.from(bytes))
    fc.assert(
      fc.property(name, (bytes) => {
        expect(bytesOf(textOf(bytes, 0, bytes.length)).equals(bytes)).toBe(true)
      }),
      { numRuns: 2_000, examples: [[Buffer.from([0xed, 0xa0, 0x80])], [Buffer.from([0xc3, 0xa9, 0xc3])]] },
    )
  })

  it('decodes every valid UTF-8 text', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 0x10ffff })), (points) => {
        const text = String.fromCodePoint(...points).toWellFormed()
        const bytes = Buffer.from(text, 'utf8')
        expect(textOf(bytes, 0, bytes.length)).toBe(text)
      }),
    )
  })
})
