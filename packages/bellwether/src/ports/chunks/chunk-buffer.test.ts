import { expect, it } from 'vitest'
import { handClock, settle } from '../../../test/support/hand-clock.js'
import { quietLog } from '../../../test/support/quiet-log.js'
import type { OutgoingChunk } from './chunks.js'
import { openChunkBuffer, type ChunkBufferOptions } from './chunk-buffer.js'

const turnOf = (agentTurnId: string) => ({ projectId: 'p', agentId: 'ann', agentTurnId, turnEpoch: 1 })
const ann = turnOf('t1')

function open(more: Partial<ChunkBufferOptions> = {}) {
  const clock = handClock()
  const batches: (readonly OutgoingChunk[])[] = []
  const send = async (batch: readonly OutgoingChunk[]) => (batches.push(batch), true)
  const buffer = openChunkBuffer({ clock, log: quietLog, waitMs: 50, textMaxBytes: 100, batchMax: 10, send, ...more })
  const texts = () => batches.flat().map(({ chunk }) => chunk.text)
  return { buffer, clock, batches, texts }
}

it('joins pieces by kind and turn and numbers the chunks per turn', async () => {
  const { buffer, clock, batches } = open()
  for (const text of ['he', 'l', 'lo']) buffer.add(ann, { kind: 'text', text })
  buffer.add(ann, { kind: 'stderr', text: '!' })
  buffer.add(turnOf('t2'), { kind: 'text', text: 'other' })
  buffer.add(ann, { kind: 'text', text: '' })
  await clock.advance(49)
  expect(batches).toEqual([])
  await clock.advance(1)
  expect(batches[0]!.map(({ chunk: { agent_turn_id, kind, text, seq } }) => [agent_turn_id, kind, text, seq])).toEqual([
    ['t1', 'text', 'hello', 1],
    ['t1', 'stderr', '!', 2],
    ['t2', 'text', 'other', 1],
  ])
  expect(batches[0]![0]!.subject).toBe('bw.v1.p.public.str.agent.ann.chunk')
  buffer.add({ ...ann, channelId: 'quiet' }, { kind: 'text', text: 'later' })
  await clock.advance(50)
  expect(batches[1]!.map(({ chunk }) => chunk.seq)).toEqual([3])
  expect(clock.sleepers).toBe(0)
})

it('splits long text between characters into chunks that fit as JSON', async () => {
  const { buffer, clock, texts } = open()
  const text = `${'x'.repeat(99)}${'😀'.repeat(60)}${'\u0001'.repeat(50)}`
  buffer.add(ann, { kind: 'text', text })
  await clock.advance(500)
  expect(texts().join('')).toBe(text)
  for (const one of texts()) expect(Buffer.byteLength(JSON.stringify(one)) - 2).toBeLessThanOrEqual(100)
})

it('drops and counts the oldest text of a turn that writes faster than chunks are sent', async () => {
  let go: (arrived: boolean) => void = () => undefined
  const sent: OutgoingChunk[] = []
  const send = (batch: readonly OutgoingChunk[]) => {
    sent.push(...batch)
    return new Promise<boolean>((resolve) => (go = resolve))
  }
  const { buffer, clock } = open({ send, textMaxBytes: 100_000 })
  buffer.add(ann, { kind: 'text', text: 'first' })
  await clock.advance(50)
  // The first send has not returned, so everything below waits.
  for (let line = 0; line < 10_000; line += 1)
    buffer.add(ann, { kind: 'text', text: `${String(line).padStart(19, '0')}\n` })
  go(true)
  await settle()
  await clock.advance(50)
  const last = sent.at(-1)!.chunk
  expect(last).toMatchObject({ seq: 2, dropped: 200_000 - 65_536 })
  expect(last.text).toHaveLength(65_536)
  expect(last.text.endsWith('9999\n')).toBe(true)
  expect(buffer.counts()).toEqual({ sent: 1, dropped: 200_000 - 65_536 })
})

it('counts in the next chunk what was lost while sending failed', async () => {
  let arrives = false
  const sent: OutgoingChunk[] = []
  const send = async (batch: readonly OutgoingChunk[]) => {
    if (arrives) sent.push(...batch)
    if (sent.length === 0 && batch[0]!.chunk.text === 'thrown') throw new Error('broken')
    return arrives
  }
  const { buffer, clock } = open({ send })
  for (const text of ['lost', 'thrown']) {
    buffer.add(ann, { kind: 'text', text })
    await clock.advance(50)
  }
  arrives = true
  buffer.add(ann, { kind: 'text', text: 'arrived' })
  await clock.advance(50)
  expect(sent.map(({ chunk }) => chunk)).toMatchObject([{ text: 'arrived', seq: 3, dropped: 10 }])
})

it('stays within its memory limits and sends the rest when it closes', async () => {
  const { buffer, clock, texts } = open({ batchMax: 2 })
  for (let turn = 0; turn < 6_000; turn += 1) buffer.add(turnOf(`many-${turn}`), { kind: 'text', text: 'x' })
  expect(buffer.counts().dropped).toBe(6_000 - 4_096)
  await clock.advance(100)
  expect(texts()).toHaveLength(4)
  await buffer.close()
  expect(texts()).toHaveLength(6)
  buffer.add(ann, { kind: 'text', text: 'too late' })
  expect(clock.sleepers).toBe(0)
})
