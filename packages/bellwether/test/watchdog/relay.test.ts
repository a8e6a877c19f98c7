/** The relay on a real nats-server (hazard 10): it publishes each event once and in cursor order, also after losses. */
import { deferred, systemClock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { StoredMsg } from '@nats-io/jetstream'
import { jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { connect } from '@nats-io/transport-node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openRelay } from '../../src/pmo/relay.js'
import { eventStream, natsStream } from '../../src/ports/stream/nats.js'
import type { EventStream } from '../../src/ports/stream/stream.js'
import { kernelPerTest } from '../support/kernel.js'
import { startNats, type NatsServer } from '../support/nats.js'
import { quietLog } from '../support/quiet-log.js'
import { eventsPerTurn, outbox, produce, relayed } from '../support/relay.js'
import { until } from '../support/until.js'

const t = kernelPerTest()
beforeEach(async () => {
  await t.agents('ann')
})

describe('on NATS', () => {
  let server: NatsServer
  let observer: NatsConnection
  const streams: EventStream[] = []

  beforeEach(async () => {
    server = await startNats()
    observer = await connect({ servers: server.url, timeout: 60_000, maxReconnectAttempts: -1, reconnectTimeWait: 50 })
  })
  afterEach(async () => {
    await Promise.all(streams.splice(0).map((stream) => stream.close()))
    await observer.close()
    await server.stop()
  })

  function open(): EventStream {
    const stream = natsStream({ servers: server.url, log: quietLog })
    streams.push(stream)
    return stream
  }
  async function storedMessages(): Promise<StoredMsg[]> {
    const manager = await jetstreamManager(observer, { timeout: 60_000 })
    const { state } = await manager.streams.info(eventStream)
    const messages: StoredMsg[] = []
    for (let seq = state.first_seq; seq <= state.last_seq && state.messages > 0; seq += 1) {
      const message = await manager.streams.getMessage(eventStream, { seq })
      if (message !== null) messages.push(message)
    }
    return messages
  }
  /** The stored events, and the events of the outbox, which must be equal. */
  const whole = async () =>
    (await storedMessages()).map((message) => [
      message.header.get('Bw-Cursor'),
      message.header.get('Nats-Msg-Id'),
      message.subject,
    ])
  const expected = async () =>
    (await outbox(t))
      .filter((event) => event.kind !== 'command')
      .map((event) => [
        event.cursor,
        event.kind === 'task' ? `task:${event.agent_turn_id}` : String(event.event_id),
        event.subject,
      ])
  /** Shorter than the outage, so that JetStream has forgotten the message ids. */
  const forgetful = async (windowMs: number) => {
    const manager = await jetstreamManager(observer)
    await manager.streams.add({ name: eventStream, subjects: ['bw.v1.*.*.evt.>'], duplicate_window: windowMs * 1e6 })
  }
  const after = async (ms: number) => {
    const fromMs = systemClock.monotonicMs()
    await until('the duplicate window is over', async () => systemClock.monotonicMs() - fromMs > ms || undefined)
  }

  it('publishes events once each in cursor order with their ids, and sends commands to their hosts', async () => {
    await produce(t, 150)
    const turn = await t.running('ann')
    await t.kernel.suspend({ ...turn, stepId: 's', calls: [{ toolCallId: 'c1', toolName: 'grep', args: {} }] }, 30)
    const commands: string[] = []
    observer.subscribe('bw.v1.*.*.cmd.tool.>', {
      callback: (_error, message) => void commands.push(message.json<{ tool_call_id: string }>().tool_call_id),
    })
    await observer.flush()
    const relay = openRelay({ db: t.db, log: quietLog, stream: open() })
    await relayed(relay, (await outbox(t)).length)
    expect(await whole()).toEqual(await expected())
    await until('the command', async () => (commands.length > 0 ? true : undefined))
    expect(commands).toEqual(['c1'])
  })

  it('a restarted relay continues at the stream’s position', async () => {
    await produce(t, 5)
    await relayed(openRelay({ db: t.db, log: quietLog, stream: open() }), 5 * eventsPerTurn)
    await produce(t, 5)
    await relayed(openRelay({ db: t.db, log: quietLog, stream: open() }), 5 * eventsPerTurn)
    expect(await whole()).toEqual(await expected())
  })

  it('publishes each event once with two relays, one of them paused between reading and publishing', async () => {
    await forgetful(100)
    await produce(t, 3)
    const way = deferred<void>()
    const reached = deferred<void>()
    const inner = open()
    let first = true
    const paused: EventStream = {
      ...inner,
      publish: async (events) => {
        if (first) {
          first = false
          reached.resolve()
          await way.promise
        }
        return inner.publish(events)
      },
    }
    const slow = openRelay({ db: t.db, log: quietLog, stream: paused })
    const fast = openRelay({ db: t.db, log: quietLog, stream: open() })
    const slowStep = slow.step()
    await reached.promise
    await relayed(fast, 3 * eventsPerTurn)
    await produce(t, 3)
    await relayed(fast, 3 * eventsPerTurn)
    await after(150)
    way.resolve()
    await slowStep
    expect(await whole()).toEqual(await expected())
    await produce(t, 2)
    await relayed(slow, 2 * eventsPerTurn)
    await fast.step()
    expect(await whole()).toEqual(await expected())
  })

  it('publishes each event once with two relays that race for every page', async () => {
    const relays = [
      openRelay({ db: t.db, log: quietLog, stream: open() }),
      openRelay({ db: t.db, log: quietLog, stream: open() }),
    ]
    for (let round = 0; round < 8; round += 1) {
      await produce(t, 3)
      await Promise.all(relays.map((relay) => relay.step()))
    }
    await Promise.all(relays.map((relay) => relay.step()))
    expect(await whole()).toEqual(await expected())
  })

  it('publishes each event once after an outage longer than the duplicate window with a lost acknowledgement', async () => {
    await forgetful(100)
    const inner = open()
    let loseAnswer = false
    const lossy: EventStream = {
      ...inner,
      publish: async (events) => {
        const answer = await inner.publish(events)
        if (loseAnswer) throw new Retryable('the answer was lost', { code: 'stream_unavailable' })
        return answer
      },
    }
    const relay = openRelay({ db: t.db, log: quietLog, stream: lossy })
    await produce(t, 4)
    await relayed(relay, 4 * eventsPerTurn)
    // The server stores these events, but the relay gets no acknowledgement, and the server soon forgets their ids.
    await produce(t, 4)
    loseAnswer = true
    await expect(relay.step()).rejects.toThrow('the answer was lost')
    loseAnswer = false
    await after(150)
    await relayed(relay, 0)
    expect(await whole()).toEqual(await expected())
    // The same, followed by an outage that is longer than the duplicate window.
    await produce(t, 4)
    loseAnswer = true
    await expect(relay.step()).rejects.toThrow('the answer was lost')
    loseAnswer = false
    await server.kill()
    await produce(t, 4)
    await expect(relay.step()).rejects.toMatchObject({ code: 'stream_unavailable' })
    await server.restart()
    await after(150)
    await relayed(relay, 4 * eventsPerTurn)
    expect(await whole()).toEqual(await expected())
  })
})
