/** Tests that every mutation applies to the current code, and that the tests of the view detect some of them, others each day. */
import { readFileSync } from 'node:fs'
import { systemClock } from '@bellwether/base'
import { describe, expect, it } from 'vitest'
import { thorough } from '../support/thorough.js'
import { runMutations } from './mutants.js'
import { viewMutations } from './mutations.js'

// One takes about 5 s. bench/view-mutants.ts runs all of them.
const perDay = 1
const today = Math.floor(systemClock.wallMs() / 86_400_000)
const groups = Math.ceil(viewMutations.length / perDay)
const sample = viewMutations.filter((_, index) => thorough || index % groups === today % groups)

describe('mutations of the view', () => {
  it.each(viewMutations)('applies to the current code: $name', ({ file, from, to }) => {
    const text = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
    expect(text.split(from)).toHaveLength(2)
    expect(text.replace(from, to)).not.toBe(text)
  })

  it.each(sample)('is detected by a test of the view: $name', (mutation) => {
    runMutations([mutation], (_, failed) => expect(failed).not.toEqual([]))
  })
})
