/**
 * Keeps one connection to a server open: connects in the background, detects the loss and reconnects with backoff. There is
 * at most one connection at a time, and every failure is logged. The caller's `open` sets its own timeout.
 */
import { type Clock, deferred, type Log, type Random } from '@bellwether/base'
import { backoffMs, reconnectBackoff } from '../retry.js'

export interface Connection {
  /** Resolves with the reason when the connection is over; never rejects. */
  readonly closed: Promise<unknown>
  close(): Promise<void>
}

/** The reason of a connection that ended as planned, because the process at its other end shut down. It is not logged. */
export class PeerEnded extends Error {}

export interface ConnectionKeeper<C extends Connection> {
  current(): C | undefined
  /** Resolves when connected, or when the current try has failed. Never rejects. */
  settled(): Promise<void>
  close(): Promise<void>
}

export interface ConnectionKeeperOptions<C extends Connection> {
  /** Names the connection in the log. */
  readonly what: string
  readonly open: () => Promise<C>
  /** Called after each connection, before `current()` returns it to anyone else. */
  readonly onOpen?: (connection: C) => void
  readonly log: Log
  readonly clock: Clock
  readonly random: Random
}

// A connection that closes sooner than this does not reset the backoff.
const stableMs = 10_000

export function keepConnected<C extends Connection>(options: ConnectionKeeperOptions<C>): ConnectionKeeper<C> {
  const { what, log, clock, random } = options
  const stop = new AbortController()
  let current: C | undefined
  let settled = Promise.resolve()
  let reported = false

  /** Logs the first failure of an outage. */
  function report(error: unknown, message: string): void {
    if (!reported) log.warn({ what, err: error }, message)
    reported = true
  }

  async function connectOnce(): Promise<C | undefined> {
    try {
      return await options.open()
    } catch (error) {
      report(error, 'cannot connect, retrying in the background')
      return undefined
    }
  }

  /** Returns how long the connection was open, after it has closed. */
  async function untilClosed(connection: C, outcome: () => void): Promise<number> {
    const sinceMs = clock.monotonicMs()
    current = connection
    options.onOpen?.(connection)
    outcome()
    const reason = await connection.closed
    current = undefined
    if (!stop.signal.aborted && !(reason instanceof PeerEnded)) report(reason, 'connection lost, reconnecting')
    return clock.monotonicMs() - sinceMs
  }

  async function run(): Promise<void> {
    let failures = 0
    while (!stop.signal.aborted) {
      const outcome = deferred<void>()
      settled = outcome.promise
      const connection = await connectOnce()
      if (stop.signal.aborted) await connection?.close()
      else if (connection !== undefined) {
        if (reported) log.info({ what, failures }, 'connected')
        reported = false
        if ((await untilClosed(connection, outcome.resolve)) > stableMs) failures = 0
      }
      outcome.resolve()
      failures += 1
      await clock.sleep(backoffMs({ backoff: reconnectBackoff }, failures, random.next()), stop.signal)
    }
  }

  const running = run()
  return {
    current: () => current,
    settled: () => settled,
    async close() {
      stop.abort()
      await current?.close()
      await running
    },
  }
}
