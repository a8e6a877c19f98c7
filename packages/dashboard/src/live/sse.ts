/**
 * Parses server-sent events from text in any pieces; the browser's own EventSource cannot send a key. A ping of the
 * server updates the position from which the stream resumes.
 */
import { createParser } from 'eventsource-parser'

export interface Message {
  readonly event: string
  readonly data: string
}

// A larger message cannot be one of our events: close the stream instead of filling the tab's memory.
const bufferMax = 8 * 1_024 * 1_024

export interface Parser {
  /** Throws when a message grows without end. */
  push(text: string): Message[]
  lastId(): string | undefined
}

export function makeParser(): Parser {
  let messages: Message[] = []
  let lastId: string | undefined
  const parser = createParser({
    maxBufferSize: bufferMax,
    onEvent({ id, event = 'message', data }) {
      lastId = id ?? lastId
      messages.push({ event, data })
    },
    // The parser does not report the id of a ping, which has no data: its comment repeats the id.
    onComment: (text) => (lastId = /^ping (\S+)$/.exec(text)?.[1] ?? lastId),
    onError(error) {
      if (error.type === 'max-buffer-size-exceeded') throw error
    },
  })
  return {
    lastId: () => lastId,
    push(text) {
      messages = []
      parser.feed(text)
      return messages
    },
  }
}
