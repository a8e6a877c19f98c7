/**
 * The outbox on JetStream: stream BW_EVENTS, one message an event, with its cursor. Always: a message is stored only
 * directly behind the one that we know to precede it (expected last sequence, and within a batch the expected last
 * message id, so that a stranger's message cannot fill a refused one's place), so two relays, one of them asleep for an
 * hour, neither double nor skip an event, however long the server's memory of message ids is. After any failure our idea
 * of the stream's end is void and the next publish answers `conflict`. Finding the position is left to position.ts.
 */
import { type Clock, errorMessage, type Log, type Random, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, matches, Retryable, subjects, Terminal } from '@bellwether/protocol'
import type { JetStreamClient, PubAck } from '@nats-io/jetstream'
import { jetstream, jetstreamManager, RetentionPolicy, StorageType } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { isSubject, isTraceparent } from '../bell/ring.js'
import type { NatsSession } from '../connections/nats.js'
import { keepNatsConnected } from '../connections/nats.js'
import { exchangeTimeoutMs } from '../retry.js'
import { cursorHeader, ensureStream, findCursor, hasApiCode, remember } from './position.js'
import type { EventStream, StreamEvent } from './stream.js'
import { isCursor, pointer } from './stream.js'

export interface NatsStreamOptions {
  readonly servers: string | readonly string[]
  readonly log: Log
  readonly name?: string
  readonly clock?: Clock
  readonly random?: Random
  /** Bounds of the stream when it has to be created; an existing stream is the operator's. */
  readonly maxAgeSeconds?: number
  readonly maxBytes?: number
  readonly timeoutMs?: number
}

export const eventStream = 'BW_EVENTS'
// Publishes under way without an answer: enough to hide the round trip, few enough to bound what a failure leaves open.
const pipelineMax = 256
const duplicateWindowSeconds = 120
const wrongLastSequence = 10_071
const wrongLastMsgId = 10_070
// Room for headers inside the server's limit on a message.
const headerRoomBytes = 8 * 1024
const nanosPerSecond = 1e9

/** Where the stream ends, as far as we know. */
interface End {
  readonly created: string
  readonly seq: number
}

export function natsStream(options: NatsStreamOptions): EventStream {
  const { log, clock = systemClock, random = systemRandom, timeoutMs = exchangeTimeoutMs } = options
  const { maxAgeSeconds = 7 * 86_400, maxBytes = 1024 ** 3, name = 'bellwether relay' } = options
  const link = keepNatsConnected({ servers: options.servers, name, log, clock, random })
  let end: End | undefined

  function unavailable(error: unknown): Error {
    if (error instanceof Terminal || (error instanceof Retryable && error.code === 'stream_unavailable')) return error
    const text = errorMessage(error)
    return new Retryable(`the event stream does not answer: ${text}`, {
      code: 'stream_unavailable',
      cause: error,
      afterMs: 500,
      hint: 'is nats-server running with JetStream on, and with room on its disk?',
    })
  }

  async function connected(): Promise<NatsSession> {
    if (link.current() === undefined) await link.settled()
    const session = link.current()
    if (session === undefined) throw unavailable(new Error('no connection'))
    return session
  }

  function encode(session: NatsSession, event: StreamEvent): Uint8Array {
    const bytes = Buffer.from(JSON.stringify(event.payload))
    const maxBytes = (session.nats.info?.max_payload ?? 1024 ** 2) - headerRoomBytes
    if (bytes.length <= maxBytes) return bytes
    log.warn({ cursor: event.cursor, bytes: bytes.length }, 'an event is too large for NATS; its pointer was published')
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

  /** Sends a chunk without waiting in between, then waits for all answers, also when sending broke off. */
  async function publishChunk(session: NatsSession, client: JetStreamClient, chunk: readonly StreamEvent[], from: End) {
    const answers: Promise<PubAck>[] = []
    let previous: string | undefined
    try {
      for (const event of chunk) {
        const data = encode(session, event)
        if (event.durable) {
          answers.push(store(client, event, data, from.seq + answers.length, previous))
          previous = event.msgId
        } else {
          session.nats.publish(event.subject, data, { headers: envelope(event) })
        }
      }
      if (answers.length === 0) await session.flush(timeoutMs)
    } finally {
      await Promise.allSettled(answers)
    }
    return await Promise.allSettled(answers)
  }

  /** The new end, or `conflict`. The first answer that is not the expected one decides: all later ones follow from it. */
  function judge(answers: readonly PromiseSettledResult<PubAck>[], from: End): End | 'conflict' {
    for (const [index, answer] of answers.entries()) {
      if (answer.status === 'rejected') {
        const { reason } = answer as { reason: unknown }
        if (hasApiCode(reason, wrongLastSequence) || hasApiCode(reason, wrongLastMsgId)) return 'conflict'
        throw unavailable(reason)
      }
      // A duplicate was not stored behind its predecessor: the stream holds it elsewhere.
      if (answer.value.duplicate || answer.value.seq !== from.seq + index + 1) return 'conflict'
    }
    return { created: from.created, seq: from.seq + answers.length }
  }

  async function savePosition(client: JetStreamClient, at: End, cursor: string): Promise<void> {
    try {
      await remember(client, { ...at, cursor }, timeoutMs)
    } catch (error) {
      log.warn({ err: error }, 'the position of the relay was not remembered; commands may be sent again')
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
          max_bytes: maxBytes,
          duplicate_window: Math.min(duplicateWindowSeconds, maxAgeSeconds) * nanosPerSecond,
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
      for (const chunk of chunks(events)) {
        let answers: PromiseSettledResult<PubAck>[]
        try {
          answers = await publishChunk(session, client, chunk, from)
        } catch (error) {
          throw unavailable(error)
        }
        const verdict = judge(answers, from)
        if (verdict === 'conflict') return 'conflict'
        from = verdict
      }
      const last = events.at(-1)
      if (last !== undefined) await savePosition(client, from, last.cursor)
      end = from
      return 'ok'
    },
    close: () => link.close(),
  }
}

/** An event that the server would refuse for ever must not look like an outage. */
function check(event: StreamEvent): void {
  const fits = isSubject(event.subject) && (!event.durable || matches(subjects.anyEvent, event.subject))
  if (fits && isCursor(event.cursor) && /^[!-~]{1,256}$/.test(event.msgId)) return
  throw new InvalidInput(`event ${event.cursor} (${event.subject}) cannot be published`, { code: 'invalid_event' })
}

/** Runs of events with at most pipelineMax durable ones each. */
function* chunks(events: readonly StreamEvent[]): Generator<readonly StreamEvent[]> {
  for (let start = 0; start < events.length; start += pipelineMax) yield events.slice(start, start + pipelineMax)
}
