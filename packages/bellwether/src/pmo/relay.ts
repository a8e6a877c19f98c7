/**
 * Publishes the outbox in cursor order: events to the stream, tool commands to their hosts. Several relays may run: a stream that stores its
 * position refuses a relay that is behind (hazard 10); for other streams the position is a row of the database. The message id lets
 * receivers recognise a repeated publication.
 */
import { defined, type Log } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { advanceCursor, oldestCursor, readCursor, readEvents, type OutboxEvent } from '../kernel/verbs/events.js'
import type { Database } from '../ports/database/database.js'
import type { EventStream, StreamEvent } from '../ports/stream/stream.js'

export interface Relay {
  /** Publishes everything that is readable and returns the number of events. */
  step(): Promise<number>
}

export interface RelayOptions {
  readonly db: Database
  readonly stream: EventStream
  readonly log: Log
  readonly name?: string
}

// One page is one pipelined publication.
const pageMax = 256

export function openRelay({ db, stream, log, name = 'relay' }: RelayOptions): Relay {
  let cursor: string | undefined

  async function storedCursor(): Promise<string> {
    const stored = stream.remembers ? await stream.lastCursor() : await readCursor(db, name)
    return stored ?? (await oldestCursor(db))
  }

  async function readPage(from: string): Promise<OutboxEvent[] | 'reset'> {
    try {
      return await readEvents(db, from, pageMax)
    } catch (error) {
      if (!(error instanceof Terminal && error.code === 'cursor_reset')) throw error
      // The stream was unavailable for longer than the retention period.
      log.error({ err: error, cursor: from }, 'events were removed by retention before they were published')
      return 'reset'
    }
  }

  /** Logs and skips an event that the stream can never accept, so that it does not block the others. */
  async function publishOrSkip(events: readonly OutboxEvent[]): Promise<'ok' | 'conflict'> {
    try {
      return await stream.publish(events.map(streamEvent))
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      if (events.length === 1) {
        log.error(
          { err: error, cursor: events[0]!.cursor, subject: events[0]!.subject },
          'event skipped: the stream rejected it',
        )
        return 'ok'
      }
    }
    for (const event of events) if ((await publishOrSkip([event])) === 'conflict') return 'conflict'
    return 'ok'
  }

  return {
    async step() {
      let published = 0
      for (;;) {
        cursor ??= await storedCursor()
        const events = await readPage(cursor)
        if (events === 'reset') {
          cursor = await oldestCursor(db)
          continue
        }
        if (events.length === 0) return published
        const result = await publishOrSkip(events).catch((error: unknown) => {
          // Only the stream knows how many events it accepted before it failed.
          cursor = undefined
          throw error
        })
        if (result === 'conflict') {
          cursor = undefined
          continue
        }
        cursor = events.at(-1)!.cursor
        published += events.length
        if (!stream.remembers) await advanceCursor(db, name, cursor)
      }
    },
  }
}

function streamEvent(event: OutboxEvent): StreamEvent {
  const { traceparent, ...payload } = event.payload
  return {
    cursor: event.cursor,
    subject: event.subject,
    payload,
    // A turn has one task event: its message id must outlive every window in which the stream remembers ids.
    msgId: event.kind === 'task' ? `task:${event.agent_turn_id}` : String(event.event_id),
    durable: event.kind !== 'command',
    ...defined({ traceparent: typeof traceparent === 'string' ? traceparent : undefined }),
  }
}
