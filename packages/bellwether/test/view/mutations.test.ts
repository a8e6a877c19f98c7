/** Tests that every mutation applies to the current code. bench/view-mutants.ts checks that the tests detect them. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { viewMutations } from './mutations.js'

describe('mutations of the view', () => {
  it.each(viewMutations)('applies to the current code: $name', ({ file, from, to }) => {
    const text = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
    expect(text.split(from)).toHaveLength(2)
    expect(text.replace(from, to)).not.toBe(text)
  })
})
