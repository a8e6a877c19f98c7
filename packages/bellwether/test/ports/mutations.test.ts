/** Tests that every mutation of the bell applies to the current code. bench/mutants.ts proves that the tests of the bell detect them. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { sourceOf } from '../support/mutants.js'
import { bellMutations } from './mutations.js'

it.each(bellMutations)('the mutation applies to the current code: $name', ({ file, from, to }) => {
  const text = readFileSync(sourceOf(file), 'utf8')
  expect(text.split(from)).toHaveLength(2)
  expect(text.replace(from, to)).not.toBe(text)
})
