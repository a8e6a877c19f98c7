/** The tests of a list of mutations: each applies to the current code, and the tests of its room detect one of them, another each day. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { runMutations, sampleOf, sourceOf, type Mutation } from './mutants.js'

export function testThatMutationsApply(mutations: readonly Mutation[]): void {
  it.each(mutations)('the mutation applies to the current code: $name', ({ file, from, to }) => {
    const text = readFileSync(sourceOf(file), 'utf8')
    expect(text.split(from)).toHaveLength(2)
    expect(text.replace(from, to)).not.toBe(text)
  })
}

export function testThatOneIsDetected(room: string, mutations: readonly Mutation[]): void {
  it.each(sampleOf(mutations))(`a test of the ${room} detects the mutation: $name`, (mutation) => {
    runMutations([mutation], (_, failed) => expect(failed).not.toEqual([]))
  })
}
