/** Pages of tasks for HTTP: made once per change, and never older than the board, its policies and the clock. */
import { describe, expect, it } from 'vitest'
import { openMoments, openTaskPages } from '../../../src/http/task-details.js'
import { created, dispatcherOf, makeWorld, policies, put } from '../../support/board/dispatcher.js'

function openPages(world = makeWorld()) {
  const dispatcher = dispatcherOf(world)
  const moment = openMoments(dispatcher, world.clock)
  const pageOf = openTaskPages()
  return { world, moment, page: async (limit = 100) => pageOf(await moment(), { limit }) }
}

describe('a page of tasks', () => {
  it('is made once while nothing changes, and per query', async () => {
    const { world, page } = openPages()
    await put(world, created('a'), created('b'))
    const first = await page()
    await world.clock.advance(60_000)
    expect(await page()).toBe(first)
    expect((await page(1)).lines.map(({ taskId }) => taskId)).toEqual(['a'])
    expect(await page()).toBe(first)
  })

  it('is made again when the board or a policy changes', async () => {
    const { world, page } = openPages()
    await put(world, created('a'))
    await page()
    await put(world, created('b', { dependencies: ['a'] }))
    expect((await page()).lines.map(({ taskId, waitCode }) => [taskId, waitCode])).toEqual([
      ['a', null],
      ['b', 'dependency'],
    ])
    const before = await page()
    world.policies = { ...policies }
    expect(await page()).not.toBe(before)
  })

  it('is made again when the time of a task comes, and when the clock is set back', async () => {
    const { world, page } = openPages()
    const sinceMs = world.clock.wallMs()
    const [since, until] = [sinceMs, sinceMs + 30_000].map((ms) => new Date(ms).toISOString())
    await put(world, created('a'), {
      taskId: 'a',
      type: 'task_claimed',
      actor: 'ann',
      payload: { claim: { id: 'c', by: 'ann', since, until } },
    })
    const waits = async () => (await page()).lines[0]!.waitCode
    expect(await waits()).toBe('claimed')
    await world.clock.advance(29_000)
    expect(await waits()).toBe('claimed')
    await world.clock.advance(1_000)
    expect(await waits()).toBe(null)
    world.clock.jumpWall(-20_000)
    expect(await waits()).toBe('claimed')
  })
})
