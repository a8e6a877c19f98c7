import { expect, it } from 'vitest'
import { canonicalJson, isObject, objectOf, parseJson, textOrJson } from './json.js'

it('accepts only objects as objects and returns an empty one for everything else', () => {
  expect([{ a: 1 }, [], null, 'text', 1, undefined].map(isObject)).toEqual([true, false, false, false, false, false])
  expect([{ a: 1 }, [1], null].map(objectOf)).toEqual([{ a: 1 }, {}, {}])
})

it('returns undefined for a text that is not JSON', () => {
  expect([parseJson('{"a":1}'), parseJson('{"a"'), parseJson('')]).toEqual([{ a: 1 }, undefined, undefined])
})

it('keeps text and writes every other value as JSON', () => {
  expect(['a', { a: 1 }, null, undefined].map(textOrJson)).toEqual(['a', '{"a":1}', 'null', ''])
})

it('writes equal values as equal texts, whatever the order of their keys', () => {
  expect(canonicalJson({ b: [{ d: 1, c: undefined, a: null }], a: 'x' })).toBe('{"a":"x","b":[{"a":null,"d":1}]}')
  expect(canonicalJson(undefined)).toBe('null')
})
