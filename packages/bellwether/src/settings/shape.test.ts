import { describe, expect, it } from 'vitest'
import {
  either,
  flag,
  integer,
  list,
  nullable,
  number,
  object,
  oneOf,
  optional,
  parse,
  partial,
  record,
  strictObject,
  text,
  valid,
  withDefault,
} from './shape.js'

const issuesOf = (result: ReturnType<typeof parse>) => ('issues' in result ? result.issues : [])

describe('shapes', () => {
  it('a strict object reports every problem with its path, and unknown keys', () => {
    const shape = strictObject({ a: integer(1, 9), b: strictObject({ c: flag }), d: list(text({ min: 1 }), 0, 2) })
    expect(parse(shape, { a: 0, b: { c: 1, x: 2 }, d: ['', 3] })).toEqual({
      issues: [
        { path: ['a'], message: 'must be a whole number from 1 to 9 (got 0)' },
        { path: ['b', 'c'], message: 'must be true or false (got 1)' },
        { path: ['b', 'x'], message: 'unknown key', unknownKey: true },
        { path: ['d', '0'], message: 'must be a text that is not empty (got "")' },
        { path: ['d', '1'], message: 'must be a text that is not empty (got 3)' },
      ],
    })
    expect(parse(shape, [])).toEqual({ issues: [{ path: [], message: 'must be an object (got a list)' }] })
    expect(shape.keys).toEqual([['a'], ['b'], ['b', 'c'], ['d']])
  })

  it('numbers are finite and within their bounds', () => {
    for (const wrong of [Number.NaN, Infinity, -1, '1', null, undefined])
      expect([wrong, valid(number(0, 5), wrong)]).toEqual([wrong, undefined])
    expect([0, 2.5, 5].map((value) => valid(number(0, 5), value))).toEqual([0, 2.5, 5])
    expect([0.5, 2 ** 53].map((value) => valid(integer(0), value))).toEqual([undefined, undefined])
  })

  it('an object ignores other keys, and optional, nullable and default values may be missing', () => {
    const shape = object({
      a: text(),
      b: optional(flag),
      c: withDefault(integer(0), 7),
      d: nullable(oneOf(['x', 'y'])),
    })
    expect(valid(shape, { a: '', d: null, e: 1 })).toEqual({ a: '', c: 7, d: null })
    expect(valid(shape, { a: '', b: true, c: 0, d: 'y' })).toEqual({ a: '', b: true, c: 0, d: 'y' })
    expect(issuesOf(parse(shape, {})).map(({ path }) => path)).toEqual([['a'], ['d']])
  })

  it('partial makes every key optional and keeps the check of its value', () => {
    const shape = partial(strictObject({ a: integer(1), b: flag }))
    expect(valid(shape, {})).toEqual({})
    expect(valid(shape, { a: 2 })).toEqual({ a: 2 })
    expect(issuesOf(parse(shape, { a: 0, z: 1 }))).toHaveLength(2)
  })

  it('a record reports invalid names, repeated names and too many names', () => {
    const lower = (key: string) => (key === '?' ? undefined : key.toLowerCase())
    const shape = record(integer(0), 2, lower)
    expect(valid(shape, { A: 1, b: 2 })).toEqual({ a: 1, b: 2 })
    expect(issuesOf(parse(shape, { '?': 1 }))[0]).toEqual({ path: ['?'], message: 'is not a valid name' })
    expect(issuesOf(parse(shape, { a: 1, A: 1 }))[0]).toEqual({
      path: ['A'],
      message: 'occurs twice, in different case',
    })
    expect(issuesOf(parse(shape, { a: 1, b: 2, c: 3 }))[0]?.message).toBe('must not have more than 2 names')
  })

  it('a choice of two shapes reports the problems of the second', () => {
    const shape = either(list(text(), 1, 3), text({ min: 1 }))
    expect(valid(shape, ['a'])).toEqual(['a'])
    expect(valid(shape, 'a')).toBe('a')
    expect(issuesOf(parse(shape, 1))).toEqual([{ path: [], message: 'must be a text that is not empty (got 1)' }])
  })
})
