/**
 * A link keeps one connection to a server alive: it tries until it connects, notices the loss, waits and tries again,
 * for the first connection and for every later one alike. Always: at most one connection at a time, every attempt
 * bounded by its opener's own timeout, no error kept from the log. What the connection is, and what to do once it
 * stands, is left to the opener.
 */
import { type Clock, deferred, type Log, type Random } from '@bellwether/base'
import { backoffMs, reconnectBackoff } from '../retry.js'

export interface Connection {
  /** Resolves with the reason when the connection is over; never rejects. */
  readonly closed: Promise<unknown>
  close(): Promise<void>
}

export interface ConnectionKeeper<C extends Connection> {
  current(): C | undefined
  /** Resolves when connected, or when the attempt under way has failed. Never rejects. */
  settled(): Promise<void>
  close(): Promise<void>
}

export interface ConnectionKeeperOptions<C extends Connection> {
  /** Names the connection in the log. */
  readonly what: string
  readonly open: () => Promise<C>
  /** Called at once after each connection, before anyone else can see it. */
  readonly onOpen?: (connection: C) => void
  readonly log: Log
  readonly clock: Clock
  readonly random: Random
}

// A connection that lived shorter than this did not prove that the server is well: the backoff goes on growing.
const stableMs = 10_000

export function keepConnected<C extends Connection>(options: ConnectionKeeperOptions<C>): ConnectionKeeper<C> {
  const { what, log, clock, random } = options
  const stop = new AbortController()
  let current: C | undefined
  let settled = Promise.resolve()

  async function attempt(quiet: boolean): Promise<C | undefined> {
    try {
      return await options.open()
    } catch (error) {
      if (!quiet) log.warn({ what, err: error }, 'cannot connect, trying again in the background')
      return undefined
    }
  }

  /** Returns when the connection is over, with the time it stood. */
  async function live(connection: C, outcome: () => void): Promise<number> {
    const sinceMs = clock.monotonicMs()
    current = connection
    options.onOpen?.(connection)
    outcome()
    const reason = await connection.closed
    current = undefined
    if (!stop.signal.aborted) log.warn({ what, err: reason }, 'connection lost, reconnecting')
    return clock.monotonicMs() - sinceMs
  }

  async function run(): Promise<void> {
    let failures = 0
    while (!stop.signal.aborted) {
      const outcome = deferred<void>()
      settled = outcome.promise
      const connection = await attempt(failures > 0)
      if (stop.signal.aborted) await connection?.close()
      else if (connection !== undefined) {
        if (failures > 0) log.info({ what, failures }, 'connected')
        if ((await live(connection, outcome.resolve)) > stableMs) failures = 0
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
