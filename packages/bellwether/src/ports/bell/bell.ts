/**
 * The doorbell: it only wakes. A lost, late, repeated or lying ring changes nothing, because whoever is woken reads the
 * inbox. Rings are sent after the commit that they announce, never from inside a transaction.
 */
export interface Ring {
  readonly subject: string
  /** Pointers only; bounded by the adapter (a notify payload holds less than 8,000 bytes). */
  readonly payload: Readonly<Record<string, unknown>>
  readonly traceparent?: string
}

export interface Listening {
  stop(): Promise<void>
}

export interface Bell {
  readonly kind: 'notify' | 'nats'
  /** Best effort: a failure is counted and logged, and never reaches the caller's work. */
  ring(rings: readonly Ring[]): Promise<void>
  /**
   * Calls `onRing` for each ring whose subject matches (`*` one token, `>` the rest). After every (re)connection
   * `onRing(undefined)` is called once: rings may have been missed, so look at the truth.
   */
  listen(pattern: string, onRing: (ring: Ring | undefined) => void): Promise<Listening>
  close(): Promise<void>
}
