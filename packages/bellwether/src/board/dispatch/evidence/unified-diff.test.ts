import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { unifiedDiff } from './unified-diff.js'

/** Applies a diff as `patch` does; undefined if a line of the diff is not where the diff says. */
function patched(before: string, diff: string): string | undefined {
  const old = before === '' ? [] : before.replace(/\n$/, '').split('\n')
  const oldEnds = before === '' || before.endsWith('\n')
  const result: string[] = []
  const wrong: string[] = []
  let resultEnds = true
  let at = 0
  let last = ' '
  for (const line of diff === '' ? [] : diff.split('\n')) {
    const header = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@$/.exec(line)
    if (header !== null) {
      const start = Number(header[1]) - (header[2] === '0' ? 0 : 1)
      result.push(...old.slice(at, start))
      at = start
      if (Number(header[3]) !== result.length + (header[4] === '0' ? 0 : 1)) wrong.push(line)
    } else if (line.startsWith('\\')) {
      if (last !== '-') resultEnds = false
      if (last !== '+' && oldEnds) wrong.push(line)
    } else {
      last = line.charAt(0)
      if (last !== '+' && line.slice(1) !== old[at++]) wrong.push(line)
      if (last !== '-') result.push(line.slice(1))
    }
  }
  if (at < old.length) resultEnds = oldEnds
  result.push(...old.slice(at))
  if (wrong.length > 0) return undefined
  return result.length === 0 ? '' : result.join('\n') + (resultEnds ? '\n' : '')
}

const line = fc.constantFrom('a', 'b', 'c', '', '  d')
const file = fc
  .tuple(fc.array(line, { maxLength: 40 }), fc.boolean())
  .map(([lines, ends]) => lines.join('\n') + (ends && lines.length > 0 ? '\n' : ''))

describe('unifiedDiff', () => {
  it('applied to the first text, gives the second', () => {
    fc.assert(
      fc.property(file, file, (before, after) => {
        const diff = unifiedDiff(before, after)
        expect(diff === '').toBe(before === after)
        expect(patched(before, diff)).toBe(before === after ? before : after)
      }),
      { numRuns: 500 },
    )
  })

  it('shows a changed line with three lines around it, as git does', () => {
    const lines = Array.from({ length: 20 }, (_, at) => `line ${at + 1}`)
    const after = lines.with(9, 'changed')
    expect(unifiedDiff(`${lines.join('\n')}\n`, `${after.join('\n')}\n`).split('\n')).toEqual([
      '@@ -7,7 +7,7 @@',
      ' line 7',
      ' line 8',
      ' line 9',
      '-line 10',
      '+changed',
      ' line 11',
      ' line 12',
      ' line 13',
    ])
  })

  it('shows texts that differ everywhere as replaced, and cuts long lines', () => {
    const many = (word: string) => Array.from({ length: 5_000 }, (_, at) => `${word} ${at}`).join('\n')
    expect(unifiedDiff(many('a'), many('b')).split('\n')[0]).toBe('@@ -1,5000 +1,5000 @@')
    expect(unifiedDiff('', `${'x'.repeat(10_000)}\n`)).toMatch(/^@@ -0,0 \+1 @@\n\+x{500}… \(10000 characters\)$/)
  })
})
