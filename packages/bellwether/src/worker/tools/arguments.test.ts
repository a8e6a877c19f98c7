import { describe, expect, it } from 'vitest'
import { checkArguments, checkSchema, cachedSchemas } from './arguments.js'

const parameters = {
  type: 'object',
  required: ['city'],
  additionalProperties: false,
  properties: {
    city: { type: 'string', pattern: '^[A-Z]' },
    days: { type: 'integer', minimum: 1 },
    unit: { enum: ['c', 'f'] },
  },
}
const check = (args: unknown, more: object = {}) => checkArguments(args, { parameters, ...more })
const message = (args: unknown) => {
  const checked = check(args)
  return 'refuse' in checked ? checked.refuse.message : 'fits'
}

describe('checkArguments', () => {
  it('passes valid arguments on, also as JSON text', () => {
    expect(check({ city: 'Bern', days: 2 })).toEqual({ args: { city: 'Bern', days: 2 } })
    expect(check('{"city": "Bern"}')).toEqual({ args: { city: 'Bern' } })
    expect(checkArguments(undefined, { parameters: {} })).toEqual({ args: {} })
  })

  it('refuses invalid arguments with all problems', () => {
    expect(message({ days: 0, unit: 'k', colour: 1 })).toBe(
      'the arguments are invalid: "city" is missing; "colour" is not a parameter; "days" must be >= 1; "unit" must be one of ["c","f"]',
    )
    expect(message({ city: 5 })).toContain('"city" must be of type string')
    expect(message('{"city": ')).toContain('not valid JSON')
    expect(message([1])).toContain('must be a JSON object, not a list')
    expect(message({ city: 'B\0rn' })).toContain('NUL')
    expect(message({ city: 'B'.repeat(300_000) })).toContain('the limit is')
    const deep = JSON.parse(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`) as unknown
    expect(message(deep)).toContain('levels deep')
  })

  it('never executes the patterns of a foreign schema', () => {
    const slow = { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } }
    const args = { a: `${'a'.repeat(40)}!` }
    expect(checkArguments(args, { parameters: slow, foreign: true })).toEqual({ args })
    expect(check({ city: 'bern' })).toMatchObject({ refuse: { code: 'invalid_arguments' } })
    expect(check({ city: 'bern' }, { foreign: true })).toMatchObject({ args: {} })
  })

  it('compiles each schema separately: equal $id, other drafts, and schemas that cannot be compiled', () => {
    const one = { $id: 'same', type: 'object', properties: { a: { type: 'string' } } }
    const two = { $id: 'same', type: 'object', properties: { a: { type: 'number' } } }
    expect('refuse' in checkArguments({ a: 1 }, { parameters: one })).toBe(true)
    expect('refuse' in checkArguments({ a: 1 }, { parameters: two })).toBe(false)
    const draft = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      properties: { a: { prefixItems: [{ type: 'string' }] } },
    }
    expect('refuse' in checkArguments({ a: [1] }, { parameters: draft })).toBe(true)
    const remote = { properties: { a: { $ref: 'https://example.com/a.json' } } }
    expect(checkArguments({ a: 1 }, { parameters: remote, foreign: true })).toEqual({ args: { a: 1 } })
    expect(() => checkSchema(remote)).toThrow('is invalid')
    expect(() => checkSchema({ type: 'string' })).toThrow('must be an object schema')
  })

  it('caches a limited number of schemas', () => {
    const limited = (maximum: number) => ({ parameters: { properties: { a: { maximum } } } })
    for (let at = 0; at < 520; at += 1) checkArguments({ a: 1 }, limited(at + 5))
    expect(cachedSchemas()).toBe(500)
    expect(checkArguments({ a: 9 }, limited(5))).toMatchObject({ refuse: {} })
  })
})

it('refuses arguments whose check takes too long: each level of a foreign schema may double the work', () => {
  const levels = 60
  const next = (level: number) => ({ $ref: `#/$defs/l${level}` })
  const defs = Array.from({ length: levels }, (_, level) => [
    `l${level}`,
    level === levels - 1 ? { type: 'object' } : { allOf: [next(level + 1), next(level + 1)] },
  ])
  const parameters = { type: 'object', allOf: [next(0)], $defs: Object.fromEntries(defs) as object }
  expect(checkArguments({ a: 1 }, { parameters, foreign: true })).toMatchObject({
    refuse: { code: 'invalid_arguments', message: expect.stringContaining('too long') },
  })
})

it('compiles a foreign schema that refers to a large part of it many times, in bounded time and memory', () => {
  const part = Object.fromEntries(Array.from({ length: 400 }, (_, at) => [`p${at}`, { type: 'string' }]))
  const parameters = {
    $defs: { part: { properties: part } },
    allOf: Array.from({ length: 300 }, () => ({ $ref: '#/$defs/part' })),
  }
  expect(checkArguments({ a: 1 }, { parameters, foreign: true })).toEqual({ args: { a: 1 } })
  expect(() => checkSchema(parameters)).not.toThrow()
  expect(checkArguments({ p399: 1 }, { parameters })).toMatchObject({ refuse: { code: 'invalid_arguments' } })
})

it('ends the compilation of a foreign schema that takes too long, and leaves the check to the host of the tool', () => {
  const required = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`p${at}`, ['q']]))
  expect(checkArguments({}, { parameters: { dependencies: required }, foreign: true })).toEqual({ args: {} })
  expect(() => checkSchema({ dependencies: required })).toThrow('takes too long to compile')
})

it('checks arguments against a schema that calls itself asynchronous', () => {
  const parameters = { $async: true, type: 'object', required: ['city'] }
  expect(checkArguments({}, { parameters, foreign: true })).toMatchObject({ refuse: { code: 'invalid_arguments' } })
  expect(checkArguments({ city: 'Bern' }, { parameters, foreign: true })).toMatchObject({ args: {} })
})
