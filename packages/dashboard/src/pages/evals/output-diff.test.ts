import { expect, it } from 'vitest'
import { outputDiff } from './output-diff.js'

const shown = (first: string, second: string) =>
  outputDiff(first, second)?.map(({ kind, text }) => `${{ same: ' ', first: '-', second: '+' }[kind]}${text}`)

it('keeps common lines and marks the lines of one output', () => {
  expect(shown('a\nb\nc', 'a\nx\nc')).toEqual([' a', '-b', '+x', ' c'])
  expect(shown('a', 'a')).toEqual([' a'])
  expect(shown('', 'a')).toEqual(['-', '+a'])
  expect(shown('a\nb', 'b')).toEqual(['-a', ' b'])
})

it('compares no outputs that are too long', () => {
  expect(outputDiff('a\n'.repeat(500), 'a')).toBeUndefined()
})
