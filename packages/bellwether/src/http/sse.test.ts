/** Pings of an idle stream. */
import { PassThrough } from 'node:stream'
import { defined, systemClock } from '@bellwether/base'
import type { FastifyReply } from 'fastify'
import { describe, expect, it } from 'vitest'
import { quietLog } from '../../test/support/quiet-log.js'
import { serveStream } from './sse.js'

async function idle(position: string | undefined, isLive = () => true): Promise<string> {
  const stop = new AbortController()
  let nowMs = 0
  const clock = { ...systemClock, monotonicMs: () => nowMs, sleep: async (ms: number) => void (nowMs += ms) }
  const raw = Object.assign(new PassThrough(), { writeHead: () => undefined })
  const reply = { raw, sent: true, hijack: () => undefined, request: { grant: { isLive } } } as unknown as FastifyReply
  let rounds = 0
  await serveStream('test', { clock, log: quietLog, signal: stop.signal })(reply, () => ({
    next: async () => {
      if (++rounds === 2) stop.abort()
      return { events: [], more: false }
    },
    wait: () => new Promise(() => {}),
    ...defined({ position }),
  }))
  return String(raw.read())
}

describe('a ping', () => {
  it('carries the position as an id, and in its comment for parsers that report only events with data', async () => {
    expect(await idle('7:9')).toBe(': hello\n\n: ping 7:9\nid: 7:9\n\n')
    expect(await idle(undefined)).toBe(': hello\n\n: ping\n\n')
  })

  it('a ping is not sent to a key that was revoked: the stream ends', async () => {
    let questions = 0
    expect(await idle('7:9', () => ++questions === 1)).toBe(': hello\n\n')
  })
})
