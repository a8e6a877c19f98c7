import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { depthMax, Line, lineReadMaxBytes } from './line.js'
import { eventTypes } from '../task.js'

const plain = {
  eventId: 'e-1',
  taskId: 'T-1',
  type: 'task_created',
  messageType: '[TASK]',
  actor: 'me',
  at: '2026-01-01T00:00:00Z',
  payload: { title: 'x' },
}

function read(text: string | Buffer) {
  const line = new Line()
  const bytes = typeof text === 'string' ? Buffer.from(text) : text
  const problem = line.read(bytes, 0, bytes.length)
  if (problem !== undefined) return { problem }
  return {
    eventId: line.text(line.eventIdStart, line.eventIdEnd),
    taskId: line.text(line.taskIdStart, line.taskIdEnd),
    actor: line.text(line.actorStart, line.actorEnd),
    at: line.at(),
    type: line.type,
    token: line.token,
    payload: line.payload.raw,
  }
}

/** The results that JSON.parse allows for these bytes. */
function allowed(bytes: Buffer, result: ReturnType<typeof read>): RegExp {
  let parsed: unknown
  try {
    parsed = JSON.parse(new TextDecoder('utf8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    return /^(?:broken_json|not_utf8|too_deep)$/
  }
  if (result.problem !== undefined) return /^(?:missing_keys|broken_json|too_deep)$/
  const { eventId, taskId, actor, at, type, token, payload } = parsed as Record<string, unknown>
  const number = typeof token === 'number' && Number.isSafeInteger(token) && token >= 0 ? token : -1
  const same = { eventId, taskId, actor, at, type: eventTypes.indexOf(type as 'task_done'), token: number, payload }
  return isDeepStrictEqual(result, same) ? /^none$/ : /^another reading$/
}

describe('a line', () => {
  it('a line is parsed the same in the layout of any JSON writer', () => {
    const spaced = JSON.stringify(plain, undefined, 1).replaceAll('\n', ' ')
    expect(read(spaced)).toEqual(read(JSON.stringify(plain)))
    expect(read(JSON.stringify(Object.fromEntries(Object.entries(plain).toReversed())))).toEqual(
      read(JSON.stringify(plain)),
    )
    expect(read(JSON.stringify({ ...plain, extra: [1, { a: null }] }))).toEqual(read(JSON.stringify(plain)))
    expect(read(`\t${JSON.stringify(plain)} \r`)).toEqual(read(JSON.stringify(plain)))
  })

  it('the line parser agrees with JSON.parse for any text and any damage', () => {
    const word = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom('', '"', '\\', 'ü', '\u2028', 'a\u0000b', 'T-1'),
    )
    const event = fc.record(
      {
        eventId: word,
        taskId: word,
        type: fc.oneof(fc.constantFrom<string>(...eventTypes), word),
        messageType: word,
        actor: word,
        at: word,
        payload: fc.oneof(fc.dictionary(word, fc.jsonValue()), fc.jsonValue()),
        token: fc.oneof(fc.nat(), fc.integer(), fc.double(), fc.constantFrom<unknown>(null, '7', 1e20)),
        other: fc.jsonValue(),
      },
      { requiredKeys: ['eventId', 'taskId', 'type', 'actor', 'at'] },
    )
    const damage = fc.record({
      at: fc.nat(),
      byte: fc.nat(255),
      kind: fc.constantFrom('none', 'none', 'set', 'cut', 'drop'),
    })
    fc.assert(
      fc.property(event, fc.boolean(), damage, (value, spaced, { at, byte, kind }) => {
        let bytes = Buffer.from(
          spaced ? JSON.stringify(value, undefined, 1).replaceAll('\n', '') : JSON.stringify(value),
        )
        const place = at % bytes.length
        if (kind === 'set') bytes[place] = byte
        if (kind === 'cut') bytes = bytes.subarray(0, place)
        if (kind === 'drop') bytes = Buffer.concat([bytes.subarray(0, place), bytes.subarray(place + 1)])
        const result = read(bytes)
        expect(result.problem ?? 'none').toMatch(allowed(bytes, result))
      }),
      { numRuns: 2_000 },
    )
  })

  it('[H3.3] the line parser names missing keys', () => {
    for (const key of ['eventId', 'taskId', 'type', 'actor', 'at', 'payload']) {
      const line = new Line()
      const bytes = Buffer.from(JSON.stringify({ ...plain, [key]: undefined }))
      expect(line.read(bytes, 0, bytes.length)).toBe('missing_keys')
      expect(line.detail).toBe(key)
    }
    expect(read(JSON.stringify({ ...plain, messageType: undefined })).problem).toBeUndefined()
  })

  it('a line that is too long, too deep, not UTF-8 or has an invalid number is a named problem', () => {
    const deep = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
    const withPayload = (payload: string) => JSON.stringify(plain).replace('{"title":"x"}', payload)
    expect(read(withPayload(`{"a":${deep(depthMax - 2)}}`)).problem).toBeUndefined()
    expect(read(withPayload(`{"a":${deep(depthMax - 1)}}`)).problem).toBe('too_deep')
    expect(read(withPayload(`{"a":${deep(500_000)}}`)).problem).toBe('too_deep')
    expect(read(withPayload('{"priority":NaN}')).problem).toBe('broken_json')
    expect(read(withPayload('{"priority":Infinity}')).problem).toBe('broken_json')
    expect(read(Buffer.from(withPayload('{"a":"\u00ff"}'), 'latin1')).problem).toBe('not_utf8')
    expect(read(withPayload(JSON.stringify({ a: 'x'.repeat(lineReadMaxBytes) }))).problem).toBe('too_long')
  })

  it('an id that is not valid Unicode is missing, so that two of them cannot become one task', () => {
    for (const key of ['eventId', 'taskId'])
      expect(read(JSON.stringify({ ...plain, [key]: 'T-\ud800' }))).toEqual({ problem: 'missing_keys' })
    expect(read(JSON.stringify({ ...plain, actor: '\ud800' }))).toMatchObject({ actor: '\ufffd' })
    expect(read(JSON.stringify({ ...plain, taskId: '\u{1f600}' }))).toMatchObject({ taskId: '\u{1f600}' })
  })
})
