import { type Clock, systemClock } from '@bellwether/base'
import { describe, expect, it } from 'vitest'
import { readEvents, type ServerEvent } from './events.js'

const never = new AbortController().signal
function stream(pieces: readonly (string | Uint8Array)[], open = false): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces)
        controller.enqueue(typeof piece === 'string' ? new TextEncoder().encode(piece) : piece)
      if (!open) controller.close()
    },
  })
}
async function all(body: ReadableStream<Uint8Array> | null, clock: Clock = systemClock): Promise<ServerEvent[]> {
  const found: ServerEvent[] = []
  for await (const event of readEvents(body, clock, never)) found.push(event)
  return found
}

describe('readEvents', () => {
  it('reads every event, however the bytes are split, with pings and any line ends between', async () => {
    const text =
      ': hello\n\nid: 1\nevent: task\ndata: {"a":"ü"}\n\n: ping 2\nid: 2\n\nid: 3\r\ndata: {"b":\r\ndata: 2}\r\n\r\n'
    const bytes = new TextEncoder().encode(text)
    const expected = [
      { id: '1', event: 'task', data: { a: 'ü' } },
      { id: '3', event: 'message', data: { b: 2 } },
    ]
    expect(await all(stream([bytes]))).toEqual(expected)
    expect(await all(stream([...bytes].map((byte) => Uint8Array.of(byte))))).toEqual(expected)
    expect(await all(null)).toEqual([])
  })

  it('treats a stream without data for a minute as lost', async () => {
    const clock: Clock = { ...systemClock, sleep: async () => undefined }
    await expect(all(stream([], true), clock)).rejects.toMatchObject({ code: 'server_away' })
  })

  it('rejects a stream that is not from a Bellwether server', async () => {
    await expect(all(stream(['data: nonsense\n\n']))).rejects.toMatchObject({ code: 'not_bellwether' })
  })
})
