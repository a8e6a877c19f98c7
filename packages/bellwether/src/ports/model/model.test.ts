import { setMaxListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { handClock, settle } from '../../../test/support/hand-clock.js'
import { quietLog } from '../../../test/support/quiet-log.js'
import { callModel, modelRetryPolicy, defaultModelTimeouts } from './call-model.js'
import { modelFailure } from './failure.js'
import { retryAfterMs } from './reset.js'
import { openLimiter, type Permit } from './limiter.js'
import type { Model } from './model.js'
import { splitThinkTags } from './think-tags.js'
import { textTokens } from './tokens.js'

const going = new AbortController().signal
setMaxListeners(0, going)

describe('a limiter', () => {
  /** Asks for passes; answers those that were given, in order. */
  function asking(limiter: ReturnType<typeof openLimiter>, count: number): Permit[] {
    const given: Permit[] = []
    for (let number = 0; number < count; number += 1)
      void limiter.acquire(going).then((pass) => pass !== undefined && given.push(pass))
    return given
  }

  it('admits as many calls as its width, and the next one when one ends', async () => {
    const limiter = openLimiter({ clock: handClock(), maxConcurrent: 2 })
    const given = asking(limiter, 5)
    await settle()
    expect(given).toHaveLength(2)
    given[0]!.release('failed')
    given[0]!.release('failed')
    await settle()
    expect(given).toHaveLength(3)
    expect(limiter.waiting).toBe(2)
  })

  it('after a rejection no call enters until the pause is over; then one, and more with every success', async () => {
    const clock = handClock()
    const limiter = openLimiter({ clock, maxConcurrent: 4 })
    const given = asking(limiter, 20)
    await settle()
    expect(given).toHaveLength(4)
    for (const pass of given.slice(0, 4)) pass.release('busy', 5_000)
    await clock.advance(4_900)
    expect(given).toHaveLength(4)
    await clock.advance(200)
    expect(given).toHaveLength(5)
    given[4]!.release('ok')
    await settle()
    expect(given).toHaveLength(7)
    given[5]!.release('ok')
    await settle()
    expect(given).toHaveLength(9)
  })

  it('pauses twice as long after each refusal in a row where the provider names no time, and never for hours', async () => {
    const clock = handClock()
    const limiter = openLimiter({ clock, maxConcurrent: 1 })
    const given = asking(limiter, 5)
    await settle()
    for (const [index, pauseMs] of [1_000, 2_000, 4_000].entries()) {
      given[index]!.release('busy')
      await clock.advance(pauseMs - 1)
      expect(given).toHaveLength(index + 1)
      await clock.advance(1)
      expect(given).toHaveLength(index + 2)
    }
    given[3]!.release('busy', 1e12)
    await clock.advance(120_000)
    expect(given).toHaveLength(5)
  })

  it('a call that is aborted leaves the queue, and no timer is left', async () => {
    const clock = handClock()
    const limiter = openLimiter({ clock, maxConcurrent: 1 })
    const [first] = [await limiter.acquire(going)]
    const stop = new AbortController()
    const waiting = limiter.acquire(stop.signal)
    first!.release('busy', 60_000)
    await settle()
    expect(clock.sleepers).toBe(1)
    stop.abort()
    expect(await waiting).toBeUndefined()
    await settle()
    expect({ waiting: limiter.waiting, sleepers: clock.sleepers }).toEqual({ waiting: 0, sleepers: 0 })
    expect(await limiter.acquire(stop.signal)).toBeUndefined()
  })
})

it('gives up on a provider that stays busy when the time limit is reached', async () => {
  const clock = handClock()
  const limiter = openLimiter({ clock, maxConcurrent: 1 })
  let tries = 0
  const busy: Model = {
    name: 'm',
    account: 'a',
    // oxlint-disable-next-line require-yield
    async *stream() {
      tries += 1
      throw Object.assign(new Error('slow down'), { statusCode: 429, responseHeaders: { 'retry-after': '50' } })
    },
  }
  const asked = callModel(
    busy,
    { messages: [], tools: [], maxOutputTokens: 1 },
    {
      clock,
      random: { next: () => 0.5 },
      log: quietLog,
      limiter,
      retry: modelRetryPolicy,
      timeouts: defaultModelTimeouts,
      busyTimeoutMs: 120_000,
      signal: going,
      beforeTry: async () => true,
      afterTry: async () => undefined,
    },
  )
  await settle()
  await clock.advance(130_000)
  expect(await asked).toMatchObject({ what: 'failed', failure: { code: 'model_busy' }, tries: 3 })
  expect({ tries, sleepers: clock.sleepers }).toEqual({ tries: 3, sleepers: 0 })
})

it('Retry-After is seconds, a date, or milliseconds', () => {
  const now = Date.parse('2026-03-01T12:00:00Z')
  expect(retryAfterMs({ 'retry-after': '7' }, now)).toBe(7_000)
  expect(retryAfterMs({ 'retry-after': 'Sun, 01 Mar 2026 12:00:30 GMT' }, now)).toBe(30_000)
  expect(retryAfterMs({ 'retry-after': '7', 'retry-after-ms': '250' }, now)).toBe(250)
  expect(retryAfterMs({ 'retry-after': 'soon' }, now)).toBe(0)
  expect(retryAfterMs({ 'retry-after': '-7' }, now)).toBe(0)
})

it.each([
  [
    { statusCode: 429, responseHeaders: { 'retry-after': '3' } },
    { code: 'model_busy', retryable: true, afterMs: 3_000, busy: true, unbilled: true },
  ],
  [
    { statusCode: 429, responseBody: '{"error":{"code":"insufficient_quota"}}' },
    { code: 'model_quota', retryable: false, busy: false },
  ],
  [
    { statusCode: 400, responseBody: 'prompt is too long: 210000 tokens' },
    { code: 'model_context_exceeded', retryable: false },
  ],
  [{ statusCode: 502 }, { code: 'model_unavailable', retryable: true, unbilled: true }],
  [{ statusCode: 401 }, { code: 'model_key_refused', retryable: false }],
  [{ statusCode: 200 }, { code: 'model_bad_answer', retryable: true, unbilled: false }],
  [
    { cause: Object.assign(new Error('no route'), { code: 'ECONNREFUSED' }) },
    { code: 'model_unreachable', retryable: true, unbilled: true },
  ],
  [
    { cause: Object.assign(new Error('reset'), { code: 'ECONNRESET' }) },
    { code: 'model_unreachable', retryable: true, unbilled: false },
  ],
  [{}, { code: 'model_bad_answer', retryable: true, unbilled: false }],
])('%j is %j', (facts, failure) => {
  expect(modelFailure(Object.assign(new Error('rejected'), facts), 0)).toMatchObject(failure)
})

it('separates leading thoughts in tags from the text, however the stream is cut', () => {
  const read = (pieces: readonly string[]) => {
    const apart = splitThinkTags()
    const parts = [...pieces.flatMap((piece) => [...apart.take(piece)]), ...apart.rest()]
    const of = (kind: string) =>
      parts
        .filter((part) => part.kind === kind)
        .map((part) => ('text' in part ? part.text : ''))
        .join('')
    return { thought: of('thought'), text: of('text') }
  }
  const whole = ' <think>a < b</think>\n\nSo <think> it is.'
  for (const size of [1, 2, 3, 7, 100]) {
    const pieces = Array.from({ length: Math.ceil(whole.length / size) }, (_, at) =>
      whole.slice(at * size, at * size + size),
    )
    expect(read(pieces).thought).toBe('a < b')
    expect(read(pieces).text.trimStart()).toBe('So <think> it is.')
  }
  expect(read(['no tags ', '</think> here'])).toEqual({ thought: '', text: 'no tags </think> here' })
  expect(read(['<thi'])).toEqual({ thought: '', text: '<thi' })
  expect(read(['<think>never closed'])).toEqual({ thought: 'never closed', text: '' })
})

it('estimates tokens from bytes, so that no writing system is underestimated', () => {
  expect(textTokens('twelve chars')).toBe(4)
  expect(textTokens('状态机与生命周期')).toBe(8)
})
