/** The events of a board after a cursor, and those of one task, on a real log. */
import { appendFile, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { openFeed } from '../../../src/board/log/feed.js'
import { boardStreams } from '../../../src/http/board-stream.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'
import { handClock } from '../../support/hand-clock.js'
import { add, boardOf, testRoot } from './test-root.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

const line = (n: number, change: object = {}) =>
  `${JSON.stringify({ eventId: `e${n}`, taskId: `T-${n}`, type: 'task_created', messageType: '[TASK]', actor: 'a', at: '2026-01-01T00:00:00Z', payload: {}, ...change })}\n`

async function logFile(): Promise<string> {
  const root = tempFolder('feed')
  await mkdir(join(root, 'state'))
  return join(root, 'state', 'tasks.jsonl')
}

it('the feed returns each counted event once and in order, from any cursor, across pages and marks', async () => {
  const path = await logFile()
  const feed = await openFeed(path, systemDisk)
  onTestFinished(() => feed.close())
  expect(await feed.since(0)).toEqual({ events: [], cursor: 0, reset: false, more: false })
  const lines: string[] = []
  for (let n = 0; n < 1_500; n += 1) {
    lines.push(line(n))
    if (n % 7 === 0) lines.push('broken\n', line(n), line(n, { eventId: `x${n}` }), '\n')
  }
  await writeFile(path, lines.join(''))
  for (const start of [0, 1, 255, 256, 257, 1_000, 1_499, 1_500]) {
    const seen: string[] = []
    let cursor = start
    for (let more = true; more;) {
      const page = await feed.since(cursor, 400)
      seen.push(...page.events.map(({ eventId }) => eventId))
      ;({ cursor, more } = page)
    }
    expect(seen).toEqual(Array.from({ length: 1_500 - start }, (_, n) => `e${n + start}`))
  }
  expect((await feed.since(null)).cursor).toBe(1_500)
  await appendFile(path, line(1_500) + line(1_501).slice(0, 20))
  expect((await feed.since(1_500)).events.map(({ eventId }) => eventId)).toEqual(['e1500'])
  await appendFile(path, line(1_501).slice(20))
  expect((await feed.since(1_501)).events.map(({ eventId }) => eventId)).toEqual(['e1501'])
})

it('the feed says reset for a cursor that does not belong to the log, also after the log was replaced', async () => {
  const path = await logFile()
  await writeFile(path, line(1) + line(2))
  const feed = await openFeed(path, systemDisk)
  onTestFinished(() => feed.close())
  expect(await feed.since(99)).toMatchObject({ reset: true, cursor: 2 })
  await rm(path)
  await writeFile(path, line(3))
  const page = await feed.since(2)
  expect([page.reset, page.events.map(({ eventId }) => eventId)]).toEqual([true, ['e3']])
})

it('the history of a task has its creator and its newest lines that count', async () => {
  const root = await testRoot()
  const noted = (n: number, change: object = {}) =>
    line(n, { taskId: 'T-1', type: 'task_noted', payload: { other: 'T-2', n }, ...change })
  // A duplicate and a stale line do not count; a line of another task may contain the id.
  await root.writeLog(
    [
      line(1),
      line(2, { payload: { title: 'after "T-1"' } }),
      noted(3, { token: 5 }),
      noted(3),
      noted(4, { token: 4 }),
    ].join(''),
  )
  const board = await boardOf(root)
  await board.write(() => [{ taskId: 'T-1', type: 'task_noted', actor: 'ann', payload: { last: true } }])
  const history = await board.history('T-1', 10)
  expect(history).toMatchObject({ createdBy: 'a', left: 0 })
  expect(history.events.map(({ actor, payload }) => [actor, payload])).toEqual([
    ['a', {}],
    ['a', { other: 'T-2', n: 3 }],
    ['ann', { last: true }],
  ])
  expect(await board.history('T-1', 1)).toMatchObject({ createdBy: 'a', left: 2, events: [{ actor: 'ann' }] })
  expect(await board.history('T-9', 1)).toEqual({ createdBy: null, left: 0, events: [] })
})

it('the history finds a task whose id a writer escaped', async () => {
  const root = await testRoot()
  await root.writeLog(line(1, { taskId: 'Tür' }).replace('ü', '\\u00fc'))
  expect((await (await boardOf(root)).history('Tür', 5)).events).toMatchObject([{ eventId: 'e1' }])
})

it('a change of the board wakes its streams, by this process and by another one, before any poll', async () => {
  const root = await testRoot()
  const [board, foreign] = [await boardOf(root), await boardOf(root)]
  await board.write(() => [add('T-1')])
  const feed = await openFeed(root.log, systemDisk)
  onTestFinished(() => feed.close())
  // No sleep of this clock ends by itself.
  const stream = boardStreams({ dispatcher: { board }, feed, clock: handClock() })(null)
  onTestFinished(() => stream.close?.())
  const { signal } = new AbortController()
  expect(await stream.next(signal)).toMatchObject({ events: [{ event: 'hello', id: '1' }] })
  for (const [writer, id] of [
    [board, 'T-2'],
    [foreign, 'T-3'],
  ] as const) {
    await stream.next(signal)
    const woken = stream.wait(signal)
    await writer.write(() => [add(id)])
    await woken
    await expect.poll(async () => (await stream.next(signal)).events).toMatchObject([{ data: { taskId: id } }])
  }
})
