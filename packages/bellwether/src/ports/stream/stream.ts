/**
 * The stream that the relay publishes the outbox to. Events are published in the given order. `ok` means that the stream holds
 * all of them; after `conflict` or an error it may hold some, and the relay continues from `lastCursor()`.
 */
export interface StreamEvent {
  /** The outbox's cursor of this event, `era:event_id`. */
  readonly cursor: string
  readonly subject: string
  readonly payload: object
  /** Identifies a duplicate: the event's id, or `task:{turn}` for task events. */
  readonly msgId: string
  readonly traceparent?: string
  /** The stream stores `evt.*` events; `cmd.*` are only sent, and watchdogs send lost ones again. */
  readonly durable: boolean
}

export interface EventStream {
  readonly kind: 'notify' | 'nats'
  /** False: the stream stores no position, so the relay must store its cursor. */
  readonly remembers: boolean
  /** The cursor up to which the stream holds everything; undefined if it is empty or stores no position. */
  lastCursor(): Promise<string | undefined>
  /**
   * `conflict`: the stream has moved (another relay, or an earlier failure). Nothing is duplicated; continue from
   * lastCursor(). Throws Retryable `stream_unavailable` if the server cannot be reached.
   */
  publish(events: readonly StreamEvent[]): Promise<'ok' | 'conflict'>
  close(): Promise<void>
}

const cursorPattern = /^\d+:\d+$/

export function isCursor(text: string): boolean {
  return cursorPattern.test(text)
}

/** Replaces the payload of an event: enough to read the event from the outbox. */
export function pointer(event: StreamEvent): { readonly event_id: string; readonly cursor: string } {
  return { event_id: event.cursor.slice(event.cursor.indexOf(':') + 1), cursor: event.cursor }
}
