/** The events of a board after a cursor, on a real log. */
import { appendFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { openFeed } from '../../../src/board/log/feed.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'

const line = (n: number, change: object = {}) =>
  `${JSON.stringify({ eventId: `e${n}`, taskId: `T-${n}`, type: 'task_created', messageType: '[TASK]', actor: 'a', at: '2026-01-01T00:00:00Z', payload: {}, ...change })}\n`

async function logFile(): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'bellwether-feed-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
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
