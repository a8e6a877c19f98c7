/**
 * Where the relay publishes the outbox. Always: events are published in the order given; an answer of `ok` means that
 * the stream holds all of them; after `conflict` or an error some may be held, and the relay asks where the stream
 * stands and goes on from there. Reading the outbox and keeping the order of its rows is left to the relay.
 */
export interface StreamEvent {
  /** The outbox's cursor of this event, `xid:event_id`. */
  readonly cursor: string
  readonly subject: string
  readonly payload: object
  /** What the stream recognises a repetition by: the event's id, `task:{turn}` for task events. */
  readonly msgId: string
  readonly traceparent?: string
  /** `evt.*` events are kept by the stream; `cmd.*` are only sent, and sent again by watchdogs when lost. */
  readonly durable: boolean
}

export interface EventStream {
  readonly kind: 'notify' | 'nats'
  /** False: the stream keeps nothing, so the relay must keep its own cursor. */
  readonly remembers: boolean
  /** The cursor up to which the stream holds everything; undefined when it is empty or remembers nothing. */
  lastCursor(): Promise<string | undefined>
  /**
   * `conflict`: the stream is not where we left it (another relay, or an earlier failure): nothing is doubled; ask
   * lastCursor() and go on from there. Throws Retryable `stream_unavailable` when the server cannot be reached.
   */
  publish(events: readonly StreamEvent[]): Promise<'ok' | 'conflict'>
  close(): Promise<void>
}

const cursorPattern = /^\d+:\d+$/

export function isCursor(text: string): boolean {
  return cursorPattern.test(text)
}

/** What stands for an event whose payload is elsewhere: enough to read it from the outbox. */
export function pointer(event: StreamEvent): { readonly event_id: string; readonly cursor: string } {
  return { event_id: event.cursor.slice(event.cursor.indexOf(':') + 1), cursor: event.cursor }
}
