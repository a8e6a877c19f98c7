/**
 * The event streams. JetStream runs for real: order, positions and conflicts are judged by what the server then holds,
 * never by what was answered. The relay of these tests is the smallest one that keeps the stream's promise.
 */
import type { Socket } from 'node:net'
import { connect as dial, createServer } from 'node:net'
import { Retryable } from '@bellwether/protocol'
import type { StoredMsg } from '@nats-io/jetstream'
import { jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { connect } from '@nats-io/transport-node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Bell, Ring } from '../../src/ports/bell/bell.js'
import { eventStream, natsStream } from '../../src/ports/stream/nats.js'
import { notifyStream } from '../../src/ports/stream/notify.js'
import { positionStream } from '../../src/ports/stream/position.js'
import type { EventStream, StreamEvent } from '../../src/ports/stream/stream.js'
import type { NatsServer } from '../support/nats.js'
import { freePort, startNats } from '../support/nats.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'

const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const task = 'bw.v1.p1.public.evt.agent.a1.task'
const call = 'bw.v1.p1.public.cmd.tool.search.call'

const event = (n: number): StreamEvent => ({
  cursor: `700:${n}`,
  subject: task,
  payload: { n },
  msgId: `task:turn-${n}`,
  traceparent: trace,
  durable: true,
})
const command = (n: number): StreamEvent => ({ ...event(n), subject: call, durable: false })
const events = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => event(from + index))

/** Continues at the stream's position until the stream holds the complete outbox. */
async function relay(stream: EventStream, outbox: readonly StreamEvent[], batch = 100): Promise<void> {
  let at = await stream.lastCursor()
  for (;;) {
    const start = outbox.findIndex((one) => one.cursor === at) + 1
    const some = outbox.slice(start, start + batch)
    if (some.length === 0) return
    at = (await stream.publish(some).catch(unavailable)) === 'ok' ? some.at(-1)?.cursor : await stream.lastCursor()
  }
}

/** A stream that another client has just created can be visible before the server accepts messages for it. */
function unavailable(error: unknown): 'unavailable' {
  if (error instanceof Retryable) return 'unavailable'
  throw error
}

/** A proxy that pauses once, before the second `mark` of a burst, and awaits `betweenWrites`. */
async function startPausingProxy(to: number, mark: string, betweenWrites: () => Promise<void>) {
  let cut = false
  const sockets: Socket[] = []
  const proxy = createServer((client) => {
    const onward = dial(to, '127.0.0.1')
    sockets.push(client, onward)
    onward.pipe(client)
    client.on('data', (data) => {
      const second = data.indexOf(mark, data.indexOf(mark) + 1)
      if (cut || second < 0) return void onward.write(data)
      cut = true
      client.pause()
      onward.write(data.subarray(0, second))
      void betweenWrites().then(() => {
        onward.write(data.subarray(second))
        client.resume()
      })
    })
  })
  const port = await freePort()
  await new Promise<void>((resolve) => proxy.listen(port, '127.0.0.1', resolve))
  return {
    port,
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => proxy.close(resolve))
    },
  }
}

describe('the NATS stream', () => {
  let server: NatsServer
  let observer: NatsConnection
  const streams: EventStream[] = []

  beforeEach(async () => {
    server = await startNats()
    observer = await connect({ servers: server.url, timeout: 60_000 })
  })
  afterEach(async () => {
    await Promise.all(streams.splice(0).map((stream) => stream.close()))
    await observer.close()
    await server.stop()
  })

  function open(options: { servers?: string; timeoutMs?: number } = {}): EventStream {
    const stream = natsStream({ servers: server.url, log: quietLog, ...options })
    streams.push(stream)
    return stream
  }

  async function held(): Promise<StoredMsg[]> {
    const manager = await jetstreamManager(observer, { timeout: 60_000 })
    const { state } = await manager.streams.info(eventStream)
    const messages: StoredMsg[] = []
    if (state.messages === 0) return messages
    for (let seq = state.first_seq; seq <= state.last_seq; seq += 1) {
      const message = await manager.streams.getMessage(eventStream, { seq })
      if (message !== null) messages.push(message)
    }
    return messages
  }
  const numbers = async () => (await held()).map((message) => message.json<{ n?: number }>().n)
  const upTo = (n: number) => Array.from({ length: n }, (_, index) => index + 1)

  it('creates an empty stream with its limits', async () => {
    expect(await open().lastCursor()).toBeUndefined()
    const manager = await jetstreamManager(observer)
    const { config } = await manager.streams.info(eventStream)
    expect(config).toMatchObject({ subjects: ['bw.v1.*.*.evt.>'], storage: 'file', duplicate_window: 120e9 })
    expect([config.max_age > 0, config.max_bytes > 0]).toEqual([true, true])
  })

  it('stores events in order, each with its id, cursor and traceparent', async () => {
    const stream = open()
    await stream.lastCursor()
    expect(await stream.publish(events(1, 600))).toBe('ok')
    expect(await numbers()).toEqual(upTo(600))
    const last = (await held()).at(-1)
    const fields = ['Nats-Msg-Id', 'Bw-Cursor', 'traceparent'].map((name) => last?.header?.get(name))
    expect(fields).toEqual(['task:turn-600', '700:600', trace])
    expect(await open().lastCursor()).toBe('700:600')
  })

  it('reports a conflict if the position was not read before publishing', async () => {
    expect(await open().publish(events(1, 2))).toBe('conflict')
  })

  it('rejects a relay with an old position: no event is duplicated or lost (hazard 10)', async () => {
    const outbox = events(1, 30)
    const [sleeper, other] = [open(), open()]
    await sleeper.lastCursor()
    await relay(other, outbox.slice(0, 20), 7)
    // Long after the server forgot the message ids, as after an outage: only the sequence can protect the stream.
    const forgotten = outbox.slice(0, 10).map((one) => ({ ...one, msgId: `again:${one.msgId}` }))
    expect(await sleeper.publish(forgotten)).toBe('conflict')
    await relay(sleeper, outbox)
    expect(await numbers()).toEqual(upTo(30))
  })

  it('lets several relays race over one outbox without a duplicate or a gap (hazard 10)', async () => {
    const outbox = events(1, 1_000)
    await Promise.all([13, 29, 97].map((batch) => relay(open(), outbox, batch)))
    expect(await numbers()).toEqual(upTo(1_000))
  })

  it('leaves no gap if another client publishes during a batch', async () => {
    const stranger = async () => {
      await until('the first event', async () => (await held()).length === 1 || undefined)
      observer.publish('bw.v1.p1.public.evt.agent.stranger.task', '{"n":0}')
      await observer.flush()
    }
    // Between event 1 and event 2: event 2 is refused, and event 3 must not take the place that 2 was to have.
    const proxy = await startPausingProxy(server.port, 'HPUB bw.v1.', stranger)
    const stream = open({ servers: `nats://127.0.0.1:${proxy.port}` })
    await stream.lastCursor()
    expect(await stream.publish(events(1, 5))).toBe('conflict')
    expect(await numbers()).toEqual([1, 0])
    await relay(stream, events(1, 20), 6)
    expect(await numbers()).toEqual([1, 0, ...upTo(20).slice(1)])
    await stream.close()
    await proxy.stop()
  })

  it('finds its position after the server was killed and restarted', async () => {
    const stream = open()
    await relay(stream, events(1, 50))
    await server.restart()
    const cursor = await until('the position', async () => {
      try {
        return await stream.lastCursor()
      } catch (error) {
        if (error instanceof Retryable) return undefined
        throw error
      }
    })
    expect(cursor).toBe('700:50')
    await relay(stream, events(1, 80))
    observer = await connect({ servers: server.url, timeout: 60_000 })
    expect(await numbers()).toEqual(upTo(80))
  })

  it('throws stream_unavailable during an outage and then reports a conflict', async () => {
    const stream = open({ timeoutMs: 3_000 })
    await relay(stream, events(1, 5))
    await server.kill()
    await expect(stream.publish(events(6, 8))).rejects.toMatchObject({ name: 'Retryable', code: 'stream_unavailable' })
    await expect(stream.lastCursor()).rejects.toMatchObject({ name: 'Retryable', code: 'stream_unavailable' })
    expect(await stream.publish(events(6, 8))).toBe('conflict')
  })

  it('throws stream_unavailable without a server or without JetStream', async () => {
    const nowhere = open({ servers: `nats://127.0.0.1:${await freePort()}` })
    await expect(nowhere.lastCursor()).rejects.toMatchObject({ code: 'stream_unavailable' })
    const plain = await startNats({ jetstream: false })
    await expect(open({ servers: plain.url }).lastCursor()).rejects.toMatchObject({ code: 'stream_unavailable' })
    await plain.stop()
  })

  it('does not hang if the server stops responding', async () => {
    const stream = open({ timeoutMs: 5_000 })
    await stream.lastCursor()
    await server.freeze()
    await expect(stream.publish(events(1, 3))).rejects.toMatchObject({ code: 'stream_unavailable' })
    server.thaw()
    await relay(stream, events(1, 9))
    expect(await numbers()).toEqual(upTo(9))
  })

  it('sends commands without storing them and saves the position behind them', async () => {
    const heard: string[] = []
    observer.subscribe(call, { callback: (_, message) => void heard.push(message.string()) })
    await observer.flush()
    const stream = open()
    await stream.lastCursor()
    expect(await stream.publish([event(1), command(2), event(3), command(4)])).toBe('ok')
    expect(await stream.publish([command(5)])).toBe('ok')
    await until('the commands', async () => heard.length === 3 || undefined)
    expect(heard).toEqual(['{"n":2}', '{"n":4}', '{"n":5}'])
    expect(await numbers()).toEqual([1, 3])
    expect(await open().lastCursor()).toBe('700:5')
  })

  it('finds its position if every event has expired or been purged', async () => {
    const stream = open()
    await relay(stream, events(1, 10))
    const manager = await jetstreamManager(observer)
    await manager.streams.purge(eventStream)
    expect(await open().lastCursor()).toBe('700:10')
    await relay(stream, events(1, 12))
    expect(await numbers()).toEqual([11, 12])
  })

  it('starts over if the stream was deleted, and ignores the old position', async () => {
    const stream = open()
    await relay(stream, events(1, 10))
    const manager = await jetstreamManager(observer)
    await manager.streams.delete(eventStream)
    await expect(stream.publish(events(11, 12))).rejects.toMatchObject({ code: 'stream_unavailable' })
    expect(await stream.lastCursor()).toBeUndefined()
    await relay(stream, events(1, 12))
    expect(await numbers()).toEqual(upTo(12))
  })

  it('finds its own last event behind those of other clients, also without a saved position', async () => {
    const stream = open()
    await relay(stream, events(1, 3))
    for (let n = 0; n < 5; n += 1) observer.publish('bw.v1.p1.public.evt.agent.stranger.task', 'noise')
    await observer.flush()
    const manager = await jetstreamManager(observer)
    await manager.streams.purge(positionStream)
    expect(await open().lastCursor()).toBe('700:3')
  })

  it('publishes a pointer for an event that is too large for the server', async () => {
    const stream = open()
    await stream.lastCursor()
    const giant = { ...event(1), payload: { text: 'x'.repeat(3_000_000) } }
    expect(await stream.publish([giant, event(2)])).toBe('ok')
    expect((await held())[0]?.json()).toEqual({ event_id: '1', cursor: '700:1', payload_omitted: true })
  })

  it('rejects an event that the server would refuse, before anything is sent', async () => {
    const stream = open()
    await stream.lastCursor()
    const bad = [
      { ...event(2), subject: 'elsewhere.evt' },
      { ...event(2), cursor: 'x' },
      { ...event(2), msgId: 'a\r\nb' },
    ]
    for (const one of bad) {
      await expect(stream.publish([event(1), one])).rejects.toMatchObject({ code: 'invalid_event' })
    }
    expect(await numbers()).toEqual([])
  })
})

describe('the notify stream', () => {
  it('rings with pointers for events and payloads for commands, and stores no position', async () => {
    const rung: Ring[] = []
    const bell: Bell = {
      kind: 'notify',
      ring: async (rings) => void rung.push(...rings),
      listen: async () => ({ stop: async () => undefined }),
      close: async () => undefined,
    }
    const stream = notifyStream({ bell })
    expect(await stream.publish([event(1), command(2)])).toBe('ok')
    expect(rung).toEqual([
      { subject: task, payload: { event_id: '1', cursor: '700:1' }, traceparent: trace },
      { subject: call, payload: { n: 2 }, traceparent: trace },
    ])
    expect([stream.remembers, await stream.lastCursor()]).toEqual([false, undefined])
  })
})
