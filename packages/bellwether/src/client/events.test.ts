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

describe('a stream of events', () => {
  it('is read whole however it is cut, with pings and line ends of any kind between', async () => {
    const text =
      ': hello\n\nid: 1\nevent: task\ndata: {"a":"ü"}\n\n: ping 2\nid: 2\n\nid: 3\r\ndata: {"b":\r\ndata: 2}\r\n\r\n'
    const bytes = new TextEncoder().encode(text)
    const wanted = [
      { id: '1', event: 'task', data: { a: 'ü' } },
      { id: '3', event: 'message', data: { b: 2 } },
    ]
    expect(await all(stream([bytes]))).toEqual(wanted)
    expect(await all(stream([...bytes].map((byte) => Uint8Array.of(byte))))).toEqual(wanted)
    expect(await all(null)).toEqual([])
  })

  it('is taken for lost when it says nothing for a minute', async () => {
    const clock: Clock = { ...systemClock, sleep: async () => undefined }
    await expect(all(stream([], true), clock)).rejects.toMatchObject({ code: 'server_away' })
  })

  it('is refused when it is none of ours', async () => {
    await expect(all(stream(['data: nonsense\n\n']))).rejects.toMatchObject({ code: 'not_bellwether' })
  })
})
