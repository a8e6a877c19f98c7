/** Tests that every mutation applies to the current code, and that the tests of the board detect one of them, another each day. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { runMutations, sampleOf, sourceOf } from '../support/mutants.js'
import { boardMutations } from './mutations.js'

it.each(boardMutations)('the mutation applies to the current code: $name', ({ file, from, to }) => {
  const text = readFileSync(sourceOf(file), 'utf8')
  expect(text.split(from)).toHaveLength(2)
  expect(text.replace(from, to)).not.toBe(text)
})

it.each(sampleOf(boardMutations))('a test of the board detects the mutation: $name', (mutation) => {
  runMutations([mutation], (_, failed) => expect(failed).not.toEqual([]))
})
