/**
 * The bell wakes processes that wait for work. A lost, late, repeated or forged ring changes nothing, because a woken process
 * reads the inbox. A ring is sent after the commit that it announces, never inside the transaction.
 */
export interface Ring {
  readonly subject: string
  /** Pointers only; the adapter limits the size (a notify payload must stay below 8,000 bytes). */
  readonly payload: Readonly<Record<string, unknown>>
  readonly traceparent?: string
}

export interface Listening {
  stop(): Promise<void>
}

export interface Bell {
  readonly kind: 'notify' | 'nats'
  /** Best effort: counts and logs failures, never throws. */
  ring(rings: readonly Ring[]): Promise<void>
  /**
   * Calls `onRing` for each ring whose subject matches (`*` one token, `>` the rest). After every connection it calls
   * `onRing(undefined)` once: rings may have been missed, so the listener must read the database.
   */
  listen(pattern: string, onRing: (ring: Ring | undefined) => void): Promise<Listening>
  close(): Promise<void>
}
