/**
 * The events of the board for readers of a stream. A change of the board wakes all streams, also a change that another process made;
 * the poll is for filesystems that do not report changes.
 */
import { type Clock, makeWake } from '@bellwether/base'
import type { Feed } from '../board/log/feed.js'
import type { Board } from '../board/log/task.js'
import type { Stream, StreamEvent } from './sse.js'

export interface BoardStreamParts {
  readonly dispatcher: { readonly board: Pick<Board, 'onChange'> }
  readonly feed: Feed
  readonly clock: Clock
}

const pollMs = 5_000 // the default interval of the autopilot, which polls for the same reason

/** Opens streams over one reader of the log. `cursor` null: from now on. */
export function boardStreams({ dispatcher, feed, clock }: BoardStreamParts): (cursor: number | null) => Stream {
  // The reader answers one question at a time.
  let queue: Promise<unknown> = Promise.resolve()
  const since = (cursor: number | null) => {
    const page = queue.then(() => feed.since(cursor))
    queue = page.catch(() => undefined) // the reader of this page gets the error; the next page is read all the same
    return page
  }
  return (from) => {
    let cursor = from
    const wake = makeWake(clock)
    const release = dispatcher.board.onChange(() => wake.now())
    return {
      async next() {
        if (cursor === null) {
          cursor = (await since(null)).cursor
          return { events: [{ id: String(cursor), event: 'hello', data: { cursor } }], more: true }
        }
        const page = await since(cursor)
        const first = page.cursor - page.events.length + 1
        const events: StreamEvent[] = page.events.map((event, at) => ({
          id: String(first + at),
          event: event.type,
          data: event,
        }))
        if (page.reset) events.unshift({ id: '0', event: 'reset', data: { cursor: 0 } })
        cursor = page.cursor
        return { events, more: page.more }
      },
      wait: (signal) => wake.wait(pollMs, signal),
      close: release,
    }
  }
}
