import type { Clock } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  callKinds,
  classify,
  classifyStatus,
  exchangeTimeoutMs,
  retryUntil,
  backoffMs,
  reconnectBackoff,
  retryCall,
  defaultCallPolicy,
  decideRetry,
  type Call,
} from './retry.js'

/** Time passes only by sleeping; `held` sleeps end by their signal alone. */
function steppedClock(held: (ms: number) => boolean = () => false): Clock & { readonly slept: number[] } {
  let nowMs = 0
  const slept: number[] = []
  return {
    slept,
    wallMs: () => nowMs,
    monotonicMs: () => nowMs,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        slept.push(ms)
        if (signal?.aborted === true) return resolve()
        signal?.addEventListener('abort', () => resolve(), { once: true })
        if (!held(ms)) {
          nowMs += ms
          resolve()
        }
      }),
  }
}

const timeouts = new Set(Object.values(defaultCallPolicy.timeoutMs))
const noTimeout = (ms: number) => timeouts.has(ms)
const middle = { next: () => 0.5 }
const send: Call = { kind: 'external_message', name: 'a webhook' }
const errno = (code: string) => Object.assign(new Error(code), { code })
const answer = (status: number) => Object.assign(new Error(`HTTP ${status}`), { status })

describe('timeouts and retries', () => {
  it('[H1.1] gives each kind of call its own timeout', () => {
    expect(defaultCallPolicy.timeoutMs).toEqual({
      command_routing: 5_000,
      local_state: 3_000,
      external_message: 10_000,
      synthesis: 15_000,
    })
  })

  it('[H1.1] ends a try at its timeout by its signal, and does not wait for one that ignores its signal', async () => {
    for (const kind of callKinds) {
      const clock = steppedClock()
      const seen: AbortSignal[] = []
      const stuck = retryCall(
        { ...defaultCallPolicy, retry: { ...defaultCallPolicy.retry, maxAttempts: 1 } },
        { kind, name: 'a call' },
        (signal) => {
          seen.push(signal)
          return new Promise<never>(() => {})
        },
        { clock, random: middle },
      )
      await expect(stuck).rejects.toMatchObject({
        code: 'timeout',
        message: expect.stringContaining('a call took longer'),
      })
      expect(clock.slept[0]).toBe(defaultCallPolicy.timeoutMs[kind])
      expect(seen[0]?.aborted).toBe(true)
    }
  })

  it('[H1.2] tries three times with 500 ms and 1 s between, spread by a fifth to both sides', () => {
    const { retry } = defaultCallPolicy
    expect([1, 2].map((tries) => backoffMs(retry, tries, 0.5))).toEqual([500, 1_000])
    expect([0, 0.25, 0.75].map((chance) => backoffMs(retry, 1, chance))).toEqual([400, 450, 550])
    const busy = classify(errno('ETIMEDOUT'))
    expect(decideRetry(retry, 2, busy, 0.5)).toEqual({ retry: true, waitMs: 1_000 })
    expect(decideRetry(retry, 3, busy, 0.5)).toEqual({ retry: false })
  })

  it('[H1.2] calls again until it succeeds, and throws the last error after the third try', async () => {
    const clock = steppedClock(noTimeout)
    let tries = 0
    const flaky = async () => {
      tries += 1
      if (tries < 3) throw errno('ECONNRESET')
      return 'sent'
    }
    expect(await retryCall(defaultCallPolicy, send, flaky, { clock, random: middle })).toBe('sent')
    expect(clock.slept.filter((ms) => !noTimeout(ms))).toEqual([500, 1_000])

    let failures = 0
    const dead = async () => {
      failures += 1
      throw new Retryable(`down ${failures}`, { code: 'down' })
    }
    await expect(
      retryCall(defaultCallPolicy, send, dead, { clock: steppedClock(noTimeout), random: middle }),
    ).rejects.toThrow('down 3')
    expect(failures).toBe(3)
  })

  it('[H1.2] keeps every pause within its jitter and its bound, for any random number', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (n, chance) => {
          const { retry } = defaultCallPolicy
          const plain = Math.min(500 * 2 ** (n - 1), retry.backoff.maxMs)
          const pause = backoffMs(retry, n, chance)
          expect(pause).toBeGreaterThanOrEqual(plain * 0.8)
          expect(pause).toBeLessThanOrEqual(plain * 1.2)
        },
      ),
    )
  })

  it('[H1.2] waits at least as long as the failing side asked for', () => {
    const asked = classify(new Retryable('busy', { code: 'busy', afterMs: 7_000 }))
    expect(decideRetry(defaultCallPolicy.retry, 1, asked, 0.5)).toEqual({ retry: true, waitMs: 7_000 })
    const muchLater = classify(new Retryable('closed', { code: 'busy', afterMs: 3_600_000 }))
    expect(decideRetry(defaultCallPolicy.retry, 1, muchLater, 0.5)).toEqual({ retry: false })
  })

  it('[H1.3] repeats network timeouts, temporary server errors and lock contention', () => {
    const passing = [
      errno('ETIMEDOUT'),
      errno('UND_ERR_CONNECT_TIMEOUT'),
      Object.assign(new Error('t'), { name: 'TimeoutError' }),
      new TypeError('fetch failed', { cause: errno('ECONNREFUSED') }),
      answer(500),
      answer(502),
      answer(503),
      answer(504),
      answer(429),
      new Retryable('the lock is held', { code: 'lock_contention' }),
      errno('EBUSY'),
    ]
    for (const error of passing) expect([error.message, classify(error).retryable]).toEqual([error.message, true])
    expect(classify(new Retryable('x', { code: 'lock_contention' })).why).toBe('contention')
  })

  it('[H1.3] never repeats what is invalid, lacks credentials, is not permitted, or is not understood', () => {
    const final = [
      new InvalidInput('bad', { code: 'invalid' }),
      new Terminal('no', { code: 'no' }),
      answer(400),
      answer(401),
      answer(403),
      answer(404),
      answer(422),
      answer(501),
      errno('EACCES'),
      errno('EPERM'),
      errno('ENOENT'),
      new TypeError('x is not a function'),
      'a text',
      null,
    ]
    for (const error of final) expect([String(error), classify(error).retryable]).toEqual([String(error), false])
    // A refusal stays one, whatever it is wrapped in and whatever led to it.
    expect(classify(new Error('outer', { cause: errno('EACCES') })).retryable).toBe(false)
    expect(classify(new Terminal('given up', { code: 'no', cause: errno('ETIMEDOUT') })).retryable).toBe(false)
    expect(classify(Object.assign(errno('EACCES'), { cause: errno('ETIMEDOUT') }))).toMatchObject({
      why: 'refused',
      retryable: false,
    })
  })

  it('[H1.3] stops at the first error that must not be repeated', async () => {
    let tries = 0
    const refused = async () => {
      tries += 1
      throw errno('EACCES')
    }
    await expect(
      retryCall(defaultCallPolicy, send, refused, { clock: steppedClock(noTimeout), random: middle }),
    ).rejects.toThrow('EACCES')
    expect(tries).toBe(1)
  })

  it('a call may have taken effect if it timed out or lost its connection, and not if it was refused', () => {
    const inDoubt = (code: string) => classify(errno(code)).inDoubt
    expect([inDoubt('ETIMEDOUT'), inDoubt('ECONNRESET'), inDoubt('ECONNREFUSED')]).toEqual([true, true, false])
    expect(classifyStatus(503).inDoubt).toBe(true)
  })

  it('ends at once when it is aborted, in a try and in a pause', async () => {
    const stop = new AbortController()
    const inTry = retryCall(
      defaultCallPolicy,
      send,
      (signal) =>
        new Promise<never>((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('stopped')))
          stop.abort()
        }),
      { clock: steppedClock(() => true), random: middle, signal: stop.signal },
    )
    await expect(inTry).rejects.toMatchObject({ code: 'aborted' })
    const later = new AbortController()
    let tries = 0
    const inPause = retryCall(
      defaultCallPolicy,
      send,
      async () => {
        tries += 1
        throw errno('ETIMEDOUT')
      },
      {
        clock: steppedClock(() => true),
        random: {
          next() {
            queueMicrotask(() => later.abort())
            return 0.5
          },
        },
        signal: later.signal,
      },
    )
    await expect(inPause).rejects.toMatchObject({ code: 'aborted' })
    expect(tries).toBe(1)
  })

  it('[H1.2] a kept connection reconnects within ten seconds, and a bound of zero stays zero', () => {
    const pauses = [1, 2, 3, 4, 5, 6, 1_000_000].map((failures) => backoffMs({ backoff: reconnectBackoff }, failures))
    expect(pauses).toEqual([500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000])
    expect(backoffMs({ backoff: { ...reconnectBackoff, baseMs: 0 } }, 5_000)).toBe(0)
    expect(exchangeTimeoutMs).toBe(defaultCallPolicy.timeoutMs.command_routing)
  })

  it('[H1.2] a call with a time limit is repeated until its time is over, with growing pauses, and then throws the last error', async () => {
    const clock = steppedClock()
    const reported: [number, number][] = []
    let tries = 0
    const away = async () => {
      tries += 1
      throw new Retryable(`away ${tries}`, { code: 'away', afterMs: tries === 2 ? 3_000 : 0 })
    }
    const patience = { backoff: reconnectBackoff, maxMs: 10_000 }
    const onTrouble = (_: unknown, tries: number, leftMs: number) => reported.push([tries, leftMs])
    const { signal } = new AbortController()
    await expect(retryUntil(patience, away, { clock, random: middle, signal, onRetry: onTrouble })).rejects.toThrow(
      'away 6',
    )
    expect(clock.slept).toEqual([500, 3_000, 2_000, 4_000, 500])
    expect(reported[0]).toEqual([1, 10_000])
    expect(clock.monotonicMs()).toBe(10_000)
  })

  it('[H1.3] a call with a time limit stops at what must not be repeated, and when it is aborted', async () => {
    const stop = new AbortController()
    const clock = steppedClock()
    const refused = () => Promise.reject(new InvalidInput('no', { code: 'no' }))
    const patience = { backoff: reconnectBackoff, maxMs: 1e9 }
    await expect(retryUntil(patience, refused, { clock, signal: stop.signal })).rejects.toThrow('no')
    expect(clock.slept).toEqual([])
    let tries = 0
    const away = async () => {
      tries += 1
      if (tries === 3) stop.abort()
      throw errno('ECONNREFUSED')
    }
    await expect(retryUntil(patience, away, { clock, signal: stop.signal })).rejects.toThrow('ECONNREFUSED')
    expect(tries).toBe(3)
    expect(await retryUntil(patience, async () => 'here', { clock, signal: stop.signal })).toBe('here')
  })

  it('survives an error whose causes lead back to itself', () => {
    const loop: Error & { cause?: unknown } = new Error('a')
    loop.cause = loop
    expect(classify(loop).retryable).toBe(false)
  })
})
