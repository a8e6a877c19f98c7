/** Tests tasks that fail, hang and are paused. */
import type { Clock } from '@bellwether/base'
import { describe, expect, it } from 'vitest'
import { startTask, type Progress } from './task.js'

/** Time passes only in sleeps: each sleep takes its duration, or a jump instead. */
function steppedClock() {
  let nowMs = 0
  const jumps: number[] = []
  const clock: Clock = {
    wallMs: () => nowMs,
    monotonicMs: () => nowMs,
    async sleep(ms, signal) {
      await new Promise((resolve) => setImmediate(resolve))
      if (signal?.aborted !== true) nowMs += jumps.shift() ?? ms
    },
  }
  return { clock, jumps }
}

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** One progress check. */
const judgedMs = 1_000

describe('a task', () => {
  const hang = () => new Promise<never>(() => undefined)

  async function run(step: (progress: Progress, count: number) => Promise<number | undefined>, jumps: number[] = []) {
    const stepped = steppedClock()
    stepped.jumps.push(...jumps)
    const over = new AbortController()
    let tries = 0
    const task = startTask(
      { name: 't', clock: stepped.clock, log: silent, signal: over.signal, stuckMs: 60_000 },
      (progress) => step(progress, (tries += 1)),
    )
    await task.ended
    return { health: task.health, tries, elapsedMs: stepped.clock.monotonicMs() }
  }

  it('[V5.1] a crashed task is counted and started again after a pause', async () => {
    const { health, tries, elapsedMs } = await run(async (_, count) => {
      if (count < 3) throw new Error('broken')
      return undefined
    })
    expect(tries).toBe(3)
    expect(health).toMatchObject({ restarts: 2, consecutive: 0 })
    expect(elapsedMs).toBeGreaterThanOrEqual(15_000)
  })

  it('[V5.5] a task without progress for 60 s is cancelled and started again, even if it ignores the cancellation', async () => {
    let cancelled = false
    const { health, tries } = await run(async (progress, count) => {
      if (count > 1) return undefined
      progress.signal.addEventListener('abort', () => (cancelled = true))
      return hang()
    })
    expect(tries).toBe(2)
    expect(cancelled).toBe(true)
    expect(health).toMatchObject({ stuck: 1, restarts: 1 })
  })

  it('[V5.5] a task that makes progress or idles is not cancelled', async () => {
    const { clock } = steppedClock()
    const { health } = await run(async (progress) => {
      for (let turn = 0; turn < 100; turn += 1) {
        await clock.sleep(judgedMs)
        progress.moved()
      }
      await progress.idle(clock.sleep(judgedMs))
      return undefined
    })
    expect(health).toMatchObject({ stuck: 0, restarts: 0 })
  })

  it('[V5.5] a pause of the process does not count as a lack of progress', async () => {
    const { health } = await run(async () => {
      for (let turn = 0; turn < 6; turn += 1) await new Promise((resolve) => setImmediate(resolve))
      return undefined
    }, [10_000_000, 10_000_000])
    expect(health).toMatchObject({ stuck: 0, restarts: 0 })
  })

  it('[V1.6] a task whose step was cancelled continues unless it is stopping', async () => {
    const { tries, health } = await run(async (_, count) => {
      if (count === 1) throw new DOMException('cancelled', 'AbortError')
      return undefined
    })
    expect(tries).toBe(2)
    expect(health.consecutive).toBe(0)
  })

  it('[V5.2] a task that always fails never ends and logs critical from the fifth time on', async () => {
    const { clock } = steppedClock()
    const loud: string[] = []
    const over = new AbortController()
    const log = { ...silent, fatal: (_: object, message: string) => void loud.push(message) }
    let tries = 0
    const task = startTask({ name: 't', clock, log, signal: over.signal, stuckMs: 60_000 }, async () => {
      tries += 1
      if (tries === 20) over.abort()
      throw new Error('broken')
    })
    await task.ended
    expect(tries).toBe(20)
    expect(loud).toHaveLength(15)
  })
})
