import { describe, expect, it } from 'vitest'
import { parseExclude } from './exclude.js'

const matches = (globs: readonly string[], path: string) =>
  parseExclude(globs)?.(path, path.slice(path.lastIndexOf('/') + 1)) ?? false

describe('excluded paths', () => {
  it.each([
    ['node_modules', '/node_modules', '/a/b/node_modules', '/node_modules2', '/a.node_modules'],
    ['*.tmp', '/x.tmp', '/a/.tmp', '/x.tmpl', '/x.tmp/y'],
    ['/build', '/build', '/build', '/a/build', '/build/x'],
    ['a/b', '/a/b', '/a/b', '/x/a/b', '/a/c'],
    ['/a/*/c', '/a/b/c', '/a/x/c', '/a/b/b/c', '/a/c'],
    ['/a/**/c', '/a/c', '/a/b/b/c', '/c', '/a/bc'],
    ['/a/**', '/a/b', '/a/b/c', '/a', '/b/a'],
    ['v?', '/v1', '/a/vé', '/v', '/v12'],
    ['a+(b).[c]', '/a+(b).[c]', '/x/a+(b).[c]', '/aab.c', '/a+(b)xc'],
    ['cache/', '/cache', '/a/cache', '/cached', '/ca'],
  ])('%s: its own and nothing else', (glob, first, second, third, fourth) => {
    expect([first, second, third, fourth].map((path) => matches([glob], path))).toEqual([true, true, false, false])
  })

  it('excludes nothing without globs and rejects invalid globs', () => {
    expect(parseExclude(['', ' '])).toBeUndefined()
    for (const wrong of ['!a', '..', '/', 'a/../b', 'x'.repeat(1_001)])
      expect(() => parseExclude([wrong])).toThrow(expect.objectContaining({ code: 'invalid_exclude' }))
    expect(() => parseExclude(Array.from({ length: 201 }, (_, at) => `n${at}`))).toThrow(/more than 200/)
  })

  it('rejects globs whose wildcards take minutes for one long name', () => {
    for (const costly of ['*a*a*a*b', 'x/*a*a*a*b/y', '**/a/**/b/**/c', 'a**b**c**d'])
      expect(() => parseExclude([costly])).toThrow(/more than 3 \* in one name or more than 2 \*\* before its end/)
    const [long, deep] = [`${'a'.repeat(254)}x`, `/${'a/'.repeat(1_000)}x`]
    const matches = parseExclude(['*a*a*b', '**/a/**/b', '**/a/**/b/**'])!
    expect([matches(`/${long}`, long), matches(deep, 'x')]).toEqual([false, false])
  })
})
