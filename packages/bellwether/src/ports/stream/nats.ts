/**
 * Publishes the outbox to JetStream: stream BW_EVENTS, one message per event, with its cursor. The server stores a message only
 * directly behind its known predecessor (expected last sequence and, within a batch, expected last message id), so two relays
 * neither duplicate nor skip an event, however long one of them was suspended. After any failure the known end of the stream
 * is discarded and the next publish returns `conflict`. position.ts finds the position.
 */
import { errorMessage } from '@bellwether/base'
import { InvalidInput, matches, Retryable, subjects, Terminal } from '@bellwether/protocol'
import type { JetStreamClient, PubAck } from '@nats-io/jetstream'
import { jetstream, jetstreamManager, RetentionPolicy, StorageType } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { isSubject, isTraceparent } from '../bell/ring.js'
import type { NatsOptions, NatsSession } from '../connections/nats.js'
import { keepNatsConnected } from '../connections/nats.js'
import { exchangeTimeoutMs } from '../retry.js'
import { cursorHeader, ensureStream, findCursor, hasApiCode, savePosition } from './position.js'
import type { EventStream, StreamEvent } from './stream.js'
import { isCursor, pointer } from './stream.js'

export interface NatsStreamOptions extends NatsOptions {
  readonly timeoutMs?: number
}

export const eventStream = 'BW_EVENTS'
// Unacknowledged publishes: enough to hide the round trip, few enough to limit what a failure leaves unknown.
const pipelineMax = 256
const duplicateWindowSeconds = 120
// The limits of a stream that has to be created; an existing stream keeps the operator's limits.
const maxAgeSeconds = 7 * 86_400
const streamMaxBytes = 1024 ** 3
const wrongLastSequence = 10_071
const wrongLastMsgId = 10_070
// The server's message limit includes the headers.
const headerRoomBytes = 8 * 1024
const nanosPerSecond = 1e9

/** The known end of the stream. */
interface End {
  readonly created: string
  readonly seq: number
}

export function natsStream(options: NatsStreamOptions): EventStream {
  const { log, timeoutMs = exchangeTimeoutMs } = options
  const keeper = keepNatsConnected({ name: 'bellwether relay', ...options })
  let end: End | undefined

  function unavailable(error: unknown): Error {
    if (error instanceof Terminal || (error instanceof Retryable && error.code === 'stream_unavailable')) return error
    const text = errorMessage(error)
    return new Retryable(`The event stream is unavailable: ${text}`, {
      code: 'stream_unavailable',
      cause: error,
      afterMs: 500,
      hint: 'Check that nats-server runs with JetStream enabled and has free disk space.',
    })
  }

  async function connected(): Promise<NatsSession> {
    if (keeper.current() === undefined) await keeper.settled()
    const session = keeper.current()
    if (session === undefined) throw unavailable(new Error('not connected'))
    return session
  }

  function encode(session: NatsSession, event: StreamEvent): Uint8Array {
    const bytes = Buffer.from(JSON.stringify(event.payload))
    const maxBytes = (session.nats.info?.max_payload ?? 1024 ** 2) - headerRoomBytes
    if (bytes.length <= maxBytes) return bytes
    log.warn({ cursor: event.cursor, bytes: bytes.length }, 'event too large for NATS, published its pointer')
    return Buffer.from(JSON.stringify({ ...pointer(event), payload_omitted: true }))
  }

  function envelope(event: StreamEvent) {
    const fields = headers()
    if (isTraceparent(event.traceparent)) fields.set('traceparent', event.traceparent)
    if (event.durable) fields.set(cursorHeader, event.cursor)
    return fields
  }

  function store(client: JetStreamClient, event: StreamEvent, data: Uint8Array, seq: number, previous?: string) {
    const behind = { streamName: eventStream, lastSequence: seq }
    const expect = previous === undefined ? behind : { ...behind, lastMsgID: previous }
    return client.publish(event.subject, data, {
      msgID: event.msgId,
      headers: envelope(event),
      timeout: timeoutMs,
      expect,
    })
  }

  /** Sends a batch without waiting in between, then waits for all acknowledgements, also if sending failed. */
  async function publishBatch(session: NatsSession, client: JetStreamClient, batch: readonly StreamEvent[], from: End) {
    const acks: Promise<PubAck>[] = []
    let previous: string | undefined
    try {
      for (const event of batch) {
        const data = encode(session, event)
        if (event.durable) {
          acks.push(store(client, event, data, from.seq + acks.length, previous))
          previous = event.msgId
        } else {
          session.nats.publish(event.subject, data, { headers: envelope(event) })
        }
      }
      if (acks.length === 0) await session.flush(timeoutMs)
    } finally {
      await Promise.allSettled(acks)
    }
    return await Promise.allSettled(acks)
  }

  /** The new end, or `conflict`. The first unexpected acknowledgement decides, because the later ones depend on it. */
  function newEnd(acks: readonly PromiseSettledResult<PubAck>[], from: End): End | 'conflict' {
    for (const [index, ack] of acks.entries()) {
      if (ack.status === 'rejected') {
        const { reason } = ack as { reason: unknown }
        if (hasApiCode(reason, wrongLastSequence) || hasApiCode(reason, wrongLastMsgId)) return 'conflict'
        throw unavailable(reason)
      }
      // A duplicate was stored earlier, not behind its predecessor.
      if (ack.value.duplicate || ack.value.seq !== from.seq + index + 1) return 'conflict'
    }
    return { created: from.created, seq: from.seq + acks.length }
  }

  async function trySavePosition(client: JetStreamClient, at: End, cursor: string): Promise<void> {
    try {
      await savePosition(client, { ...at, cursor }, timeoutMs)
    } catch (error) {
      log.warn({ err: error }, 'relay position not saved, commands may be sent again')
    }
  }

  return {
    kind: 'nats',
    remembers: true,
    async lastCursor() {
      end = undefined
      const session = await connected()
      try {
        const manager = await jetstreamManager(session.nats, { timeout: timeoutMs, checkAPI: false })
        const info = await ensureStream(manager, {
          name: eventStream,
          subjects: [subjects.anyEvent],
          storage: StorageType.File,
          retention: RetentionPolicy.Limits,
          max_age: maxAgeSeconds * nanosPerSecond,
          max_bytes: streamMaxBytes,
          duplicate_window: duplicateWindowSeconds * nanosPerSecond,
        })
        const cursor = await findCursor(manager, info)
        end = { created: info.created, seq: info.state.last_seq }
        return cursor
      } catch (error) {
        throw unavailable(error)
      }
    },
    async publish(events) {
      for (const event of events) check(event)
      let from = end
      if (from === undefined) return 'conflict'
      end = undefined
      const session = await connected()
      const client = jetstream(session.nats, { timeout: timeoutMs })
      for (const batch of batches(events)) {
        let acks: PromiseSettledResult<PubAck>[]
        try {
          acks = await publishBatch(session, client, batch, from)
        } catch (error) {
          throw unavailable(error)
        }
        const next = newEnd(acks, from)
        if (next === 'conflict') return 'conflict'
        from = next
      }
      const last = events.at(-1)
      if (last !== undefined) await trySavePosition(client, from, last.cursor)
      end = from
      return 'ok'
    },
    close: () => keeper.close(),
  }
}

/** Rejects an event that the server would always refuse, so that it does not look like an outage. */
function check(event: StreamEvent): void {
  const fits = isSubject(event.subject) && (!event.durable || matches(subjects.anyEvent, event.subject))
  if (fits && isCursor(event.cursor) && /^[!-~]{1,256}$/.test(event.msgId)) return
  throw new InvalidInput(
    `Cannot publish event ${event.cursor}: invalid subject "${event.subject}", cursor or message id`,
    { code: 'invalid_event' },
  )
}

/** Splits events into batches of at most pipelineMax. */
function* batches(events: readonly StreamEvent[]): Generator<readonly StreamEvent[]> {
  for (let start = 0; start < events.length; start += pipelineMax) yield events.slice(start, start + pipelineMax)
}
