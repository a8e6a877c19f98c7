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
  const carry = async (parcels: readonly OutgoingChunk[]) => (batches.push(parcels), true)
  const pile = openChunkBuffer({
    clock,
    log: quietLog,
    waitMs: 50,
    textMaxBytes: 100,
    batchMax: 10,
    send: carry,
    ...more,
  })
  const texts = () => batches.flat().map(({ chunk }) => chunk.text)
  return { pile, clock, batches, texts }
}

it('puts pieces of a moment together, apart by kind and turn, numbered for each turn', async () => {
  const { pile, clock, batches } = open()
  for (const text of ['he', 'l', 'lo']) pile.add(ann, { kind: 'text', text })
  pile.add(ann, { kind: 'stderr', text: '!' })
  pile.add(turnOf('t2'), { kind: 'text', text: 'other' })
  pile.add(ann, { kind: 'text', text: '' })
  await clock.advance(49)
  expect(batches).toEqual([])
  await clock.advance(1)
  expect(batches[0]!.map(({ chunk: { agent_turn_id, kind, text, seq } }) => [agent_turn_id, kind, text, seq])).toEqual([
    ['t1', 'text', 'hello', 1],
    ['t1', 'stderr', '!', 2],
    ['t2', 'text', 'other', 1],
  ])
  expect(batches[0]![0]!.subject).toBe('bw.v1.p.public.str.agent.ann.chunk')
  pile.add({ ...ann, channelId: 'quiet' }, { kind: 'text', text: 'later' })
  await clock.advance(50)
  expect(batches[1]!.map(({ chunk }) => chunk.seq)).toEqual([3])
  expect(clock.sleepers).toBe(0)
})

it('cuts long words into chunks that fit as JSON, between characters', async () => {
  const { pile, clock, texts } = open()
  const text = `${'x'.repeat(99)}${'😀'.repeat(60)}${'\u0001'.repeat(50)}`
  pile.add(ann, { kind: 'text', text })
  await clock.advance(500)
  expect(texts().join('')).toBe(text)
  for (const one of texts()) expect(Buffer.byteLength(JSON.stringify(one)) - 2).toBeLessThanOrEqual(100)
})

it('drops the oldest words of a turn that says more than the way can carry, and counts them', async () => {
  let go: (arrived: boolean) => void = () => undefined
  const sent: OutgoingChunk[] = []
  const carry = (parcels: readonly OutgoingChunk[]) => {
    sent.push(...parcels)
    return new Promise<boolean>((resolve) => (go = resolve))
  }
  const { pile, clock } = open({ send: carry, textMaxBytes: 100_000 })
  pile.add(ann, { kind: 'text', text: 'first' })
  await clock.advance(50)
  // The way is blocked from here on.
  for (let line = 0; line < 10_000; line += 1)
    pile.add(ann, { kind: 'text', text: `${String(line).padStart(19, '0')}\n` })
  go(true)
  await settle()
  await clock.advance(50)
  const last = sent.at(-1)!.chunk
  expect(last).toMatchObject({ seq: 2, dropped: 200_000 - 65_536 })
  expect(last.text).toHaveLength(65_536)
  expect(last.text.endsWith('9999\n')).toBe(true)
  expect(pile.counts()).toEqual({ sent: 1, dropped: 200_000 - 65_536 })
})

it('tells in the next chunk what was lost while the way was closed', async () => {
  let arrives = false
  const sent: OutgoingChunk[] = []
  const carry = async (parcels: readonly OutgoingChunk[]) => {
    if (arrives) sent.push(...parcels)
    if (sent.length === 0 && parcels[0]!.chunk.text === 'thrown') throw new Error('broken')
    return arrives
  }
  const { pile, clock } = open({ send: carry })
  for (const text of ['lost', 'thrown']) {
    pile.add(ann, { kind: 'text', text })
    await clock.advance(50)
  }
  arrives = true
  pile.add(ann, { kind: 'text', text: 'heard' })
  await clock.advance(50)
  expect(sent.map(({ chunk }) => chunk)).toMatchObject([{ text: 'heard', seq: 3, dropped: 10 }])
})

it('keeps within its bounds whoever talks, and sends what is left when it closes', async () => {
  const { pile, clock, texts } = open({ batchMax: 2 })
  for (let turn = 0; turn < 6_000; turn += 1) pile.add(turnOf(`many-${turn}`), { kind: 'text', text: 'x' })
  expect(pile.counts().dropped).toBe(6_000 - 4_096)
  await clock.advance(100)
  expect(texts()).toHaveLength(4)
  await pile.close()
  expect(texts()).toHaveLength(6)
  pile.add(ann, { kind: 'text', text: 'too late' })
  expect(clock.sleepers).toBe(0)
})
