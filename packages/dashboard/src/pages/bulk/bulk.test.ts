/** Sends rows in parts: progress, a part that fails, and stopping. */
import { expect, it } from 'vitest'
import { linesWith, runInParts, type BulkLine } from './bulk.js'

const lineOf = (at: number, result: BulkLine['result'] = 'affected'): BulkLine => ({
  id: `t${at}`,
  title: `turn ${at}`,
  status: 'running',
  result,
  reason: null,
})
const rows = [...Array.from({ length: 120 }, (_, at) => lineOf(at)), lineOf(120, 'unaffected')]

async function run(act: Parameters<typeof runInParts>[0], isStopped = () => false) {
  const sent: number[] = []
  let last: readonly BulkLine[] = []
  await runInParts(
    async (lines) => {
      sent.push(lines.length)
      return act(lines)
    },
    rows,
    'affected',
    (lines) => (last = lines),
    isStopped,
  )
  return { sent, last, affected: linesWith(last, 'affected').length, failed: linesWith(last, 'failed').length }
}

const all = async (lines: readonly BulkLine[]) => ({ lines, more: false })

it('sends the affected rows in parts of 50, and no other', async () => {
  const { sent, affected, last } = await run(all)
  expect([sent, affected, last.at(-1)?.result]).toEqual([[50, 50, 20], 120, 'unaffected'])
})

it('after a part that fails, reports it and the rest as failed, and the parts before it as they are', async () => {
  let parts = 0
  const { sent, affected, failed, last } = await run((lines) => {
    parts += 1
    return parts === 2 ? Promise.reject(new Error('Cannot reach the server.')) : all(lines)
  })
  expect([sent, affected, failed, last[50]?.reason]).toEqual([[50, 50], 50, 70, 'Cannot reach the server.'])
})

it('sends nothing more after a person stops it', async () => {
  let parts = 0
  const { sent, failed, last } = await run(
    (lines) => {
      parts += 1
      return all(lines)
    },
    () => parts === 1,
  )
  expect([sent, failed, last[119]?.reason]).toEqual([[50], 70, 'not sent: you stopped'])
})

it('says of a row that was sent again and stays as it is that the first request may have changed it', async () => {
  const lines = [{ ...lineOf(0), result: 'failed' as const, reason: 'Cannot reach the server.' }]
  let last: readonly BulkLine[] = []
  const ended = async () => ({
    lines: [{ ...lineOf(0), result: 'unaffected' as const, reason: 'it has ended' }],
    more: false,
  })
  await runInParts(
    ended,
    lines,
    'failed',
    (now) => (last = now),
    () => false,
  )
  expect(last[0]?.reason).toBe('it has ended; the first request may have changed it')
})
