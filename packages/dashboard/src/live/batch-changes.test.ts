/** Many pieces of news, few updates. */
import { describe, expect, it } from 'vitest'
import { batchChanges } from './batch-changes.js'
import { pauseMs } from './stream.js'
import { throttle } from './throttle.js'

/** A clock that stands until it is moved. */
function handClock() {
  let nowMs = 0
  let waiting: { atMs: number; act: () => void }[] = []
  return {
    nowMs: () => nowMs,
    after(ms: number, act: () => void) {
      const one = { atMs: nowMs + ms, act }
      waiting.push(one)
      return () => void (waiting = waiting.filter((other) => other !== one))
    },
    go(ms: number) {
      const untilMs = nowMs + ms
      for (;;) {
        const next = waiting.filter(({ atMs }) => atMs <= untilMs).sort((one, other) => one.atMs - other.atMs)[0]
        if (next === undefined) break
        waiting = waiting.filter((other) => other !== next)
        nowMs = Math.max(nowMs, next.atMs)
        next.act()
      }
      nowMs = untilMs
    },
  }
}

describe('batching', () => {
  it('turns 200 events per second into four updates per second without losing one', () => {
    const clock = handClock()
    const batches: number[] = []
    const batched = batchChanges<number>({
      everyMs: 250,
      most: 1_000,
      clock,
      flush: (items) => batches.push(items.length),
    })
    for (let at = 0; at < 400; at += 1) {
      batched.push([at])
      clock.go(5)
    }
    clock.go(250)
    expect(batches.length).toBeLessThanOrEqual(10)
    expect(batches.reduce((sum, size) => sum + size, 0)).toBe(400)
  })

  it('drops the oldest beyond its bound and reports the cut', () => {
    const clock = handClock()
    const flushed: [number, boolean][] = []
    const batched = batchChanges<number>({
      everyMs: 250,
      most: 10,
      clock,
      flush: (items, isCut) => flushed.push([items.length, isCut]),
    })
    batched.push(Array.from({ length: 50 }, (_, at) => at))
    clock.go(0)
    batched.push([1])
    clock.go(250)
    expect(flushed).toEqual([
      [10, true],
      [1, false],
    ])
  })
})

describe('refetching', () => {
  it('runs at once, then at a bounded rate, and once more after the last change', () => {
    const clock = handClock()
    let asked = 0
    const again = throttle(1_000, clock)
    for (let at = 0; at < 30; at += 1) {
      again.touch('x', () => (asked += 1))
      clock.go(100)
    }
    clock.go(1_000)
    expect(asked).toBe(4)
  })

  it('the pause before a reconnection grows to a bound and has a minimum', () => {
    expect(pauseMs(0, 0)).toBe(300)
    expect(pauseMs(0, 1)).toBe(500)
    expect(pauseMs(50, 1)).toBe(15_000)
    for (let failures = 0; failures < 12; failures += 1)
      expect(pauseMs(failures + 1, 0.5)).toBeGreaterThanOrEqual(pauseMs(failures, 0.5))
  })
})
