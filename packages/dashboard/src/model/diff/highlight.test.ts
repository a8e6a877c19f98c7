/** Colours of code: by language, for parts of files, and for text that no language fits. */
import { expect, it } from 'vitest'
import { highlighterFor } from './highlight.js'

/** The coloured parts of a line. */
const coloured = (path: string, line: string) =>
  highlighterFor(path)?.(line).flatMap(({ kind, text }) => (kind === 'plain' ? [] : [`${kind} ${text}`]))

it.each<[string, string, string[] | undefined]>([
  ['a.ts', 'const total = price * 2 // cents', ['word const', 'number 2', 'comment // cents']],
  ['a.ts', 'return "a // b" + `c`', ['word return', 'text "a // b"', 'text `c`']],
  ['a.ts', " * part of a long comment's text", ["comment  * part of a long comment's text"]],
  ['a.ts', 'const open = "never closed', ['word const', 'text "never closed']],
  ['src/a.py', 'def total(x): # sum', ['word def', 'comment # sum']],
  ['a.sql', "SELECT 'x' FROM t -- note", ['word SELECT', "text 'x'", 'word FROM', 'comment -- note']],
  ['package.json', '  "private": true,', ['text "private"', 'word true']],
  ['Dockerfile', 'FROM node # base', ['comment # base']],
  ['notes.md', 'const is a word', undefined],
  ['bundle.js', `${'x'.repeat(3_000)} const`, []],
])('%s: %s', (path, line, expected) => {
  expect(coloured(path, line)).toEqual(expected)
})

it('the parts of a line are the line, whatever it contains', () => {
  const lines = ["it's \\", '\u202E"\\', '////**/*', '`${`', '0x1f.toString()', '']
  for (const line of lines)
    expect(
      highlighterFor('a.ts')!(line)
        .map(({ text }) => text)
        .join(''),
    ).toBe(line)
})
