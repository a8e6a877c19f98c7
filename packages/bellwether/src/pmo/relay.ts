/**
 * The relay publishes the outbox: events to the stream, tool commands to their hosts, in the order of the cursor. Several
 * relays may run: a stream that remembers refuses the one that is behind (hazard 10), and where the stream keeps nothing
 * the position is a row of the database. A repeated publication is recognised by its id.
 */
import type { Log } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { beginning, readEvents, type OutboxEvent } from '../kernel/verbs/events.js'
import type { Database } from '../ports/database/database.js'
import type { EventStream, StreamEvent } from '../ports/stream/stream.js'

export interface Relay {
  /** Publishes what is there; answers how many events went. */
  step(): Promise<number>
}

// One page is one pipelined publication.
const pageMax = 256

export function openRelay({
  db,
  stream,
  log,
  name = 'relay',
}: {
  db: Database
  stream: EventStream
  log: Log
  name?: string
}): Relay {
  let cursor: string | undefined

  async function position(): Promise<string> {
    if (stream.remembers) return (await stream.lastCursor()) ?? (await oldest(db))
    const [row] = await db.query<{ cursor: string }>({
      text: "select xid::text || ':' || event_id as cursor from state.event_cursors where name = $1",
      values: [name],
    })
    return row?.cursor ?? (await oldest(db))
  }

  async function page(from: string): Promise<OutboxEvent[] | 'reset'> {
    try {
      return await readEvents(db, from, pageMax)
    } catch (error) {
      if (!(error instanceof Terminal && error.code === 'cursor_reset')) throw error
      // Retention has overtaken a stream that was away for longer than events are kept: the gap is said aloud.
      log.error({ err: error, cursor: from }, 'events were removed by retention before they were published')
      return 'reset'
    }
  }

  /** An event that the stream can never take is said aloud and left out: it must not hold up all the others. */
  async function publishOrSkip(events: readonly OutboxEvent[]): Promise<'ok' | 'conflict'> {
    try {
      return await publish(stream, events)
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      if (events.length === 1) {
        log.error(
          { err: error, cursor: events[0]!.cursor, subject: events[0]!.subject },
          'an event cannot be published and is left out',
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
        cursor ??= await position()
        const events = await page(cursor)
        if (events === 'reset') {
          cursor = await oldest(db)
          continue
        }
        if (events.length === 0) return published
        const answer = await publishOrSkip(events).catch((error: unknown) => {
          // What the stream took before it failed is known only to the stream.
          cursor = undefined
          throw error
        })
        if (answer === 'conflict') {
          cursor = undefined
          continue
        }
        cursor = events.at(-1)!.cursor
        published += events.length
        if (!stream.remembers) await keep(db, name, cursor)
      }
    },
  }
}

async function publish(stream: EventStream, events: readonly OutboxEvent[]): Promise<'ok' | 'conflict'> {
  return stream.publish(events.map(streamEvent))
}

function streamEvent(event: OutboxEvent): StreamEvent {
  const { traceparent, ...payload } = event.payload
  return {
    cursor: event.cursor,
    subject: event.subject,
    payload,
    // A task event is one per turn, for ever: its id must outlive any window in which the stream remembers ids.
    msgId: event.kind === 'task' ? `task:${event.agent_turn_id}` : String(event.event_id),
    durable: event.kind !== 'command',
    ...(typeof traceparent === 'string' ? { traceparent } : {}),
  }
}

/** Where a new relay begins: behind what retention has removed. */
async function oldest(db: Database): Promise<string> {
  const [row] = await db.query<{ cursor: string }>({
    text: "select xid::text || ':' || event_id as cursor from state.event_cursors where name = 'pruned'",
  })
  return row?.cursor ?? beginning
}

async function keep(db: Database, name: string, cursor: string): Promise<void> {
  const [xid, eventId] = cursor.split(':')
  await db.query({
    name: 'bw_keep_cursor',
    text: `insert into state.event_cursors as c (name, xid, event_id, updated_at) values ($1, $2::text::xid8, $3, state.now())
      on conflict (name) do update set xid = excluded.xid, event_id = excluded.event_id, updated_at = excluded.updated_at
      where (excluded.xid, excluded.event_id) > (c.xid, c.event_id)`,
    values: [name, xid, eventId],
  })
}
