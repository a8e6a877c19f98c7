/** The list of mutations is about the code as it is. That they are found: bench/view-mutants.ts. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { viewMutations } from './mutations.js'

describe('mutations of the view', () => {
  it.each(viewMutations)('can be made: $name', ({ file, from, to }) => {
    const text = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
    expect(text.split(from)).toHaveLength(2)
    expect(text.replace(from, to)).not.toBe(text)
  })
})
