/**
 * The demo as any client of the HTTP API. Always: a call has a timeout; a request that was not answered may be sent again, because
 * what must happen once carries an idempotency key. A refusal is told in the server's own words.
 */
import type { Clock } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { withTimeout } from '../ports/retry.js'

export interface Client {
  ask<T>(method: string, path: string, body?: object, idempotencyKey?: string): Promise<T>
  /** The same, again and again while the server is away, until it answers or the signal fires. */
  insist<T>(method: string, path: string, body?: object, idempotencyKey?: string): Promise<T>
}

export interface ClientOptions {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Where the house is now: it may come back elsewhere. */
  readonly reach: () => { readonly url: string; readonly key: string }
}

const callMs = 10_000
const pauseMs = 250

export function openClient({ clock, signal, reach }: ClientOptions): Client {
  async function send<T>(method: string, path: string, body: object | undefined, key: string | undefined): Promise<T> {
    const house = reach()
    const over = new AbortController()
    const stop = () => over.abort()
    signal.addEventListener('abort', stop, { once: true })
    try {
      return await withTimeout(
        clock,
        callMs,
        `${method} ${path}`,
        fetched<T>(house, method, path, body, key, over.signal),
      )
    } finally {
      signal.removeEventListener('abort', stop)
      stop()
    }
  }

  async function fetched<T>(
    { url, key: apiKey }: { readonly url: string; readonly key: string },
    method: string,
    path: string,
    body: object | undefined,
    idempotencyKey: string | undefined,
    over: AbortSignal,
  ): Promise<T> {
    let response: Response
    let text: string
    try {
      response = await fetch(`${url}/api/v1${path}`, {
        method,
        headers: {
          'x-api-key': apiKey,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: over,
      })
      text = await response.text()
    } catch (error) {
      throw new Retryable(`${method} ${path}: the house does not answer`, { code: 'house_away', cause: error })
    }
    if (response.ok) return JSON.parse(text) as T
    const told = `${method} ${path}: ${response.status} ${text.slice(0, 500)}`
    if (response.status === 429 || response.status > 500) throw new Retryable(told, { code: 'house_busy' })
    throw new Terminal(told, { code: `http_${response.status}` })
  }

  return {
    ask: send,
    async insist<T>(method: string, path: string, body?: object, idempotencyKey?: string) {
      for (;;) {
        try {
          return await send<T>(method, path, body, idempotencyKey)
        } catch (error) {
          if (!(error instanceof Retryable) || signal.aborted) throw error
          await clock.sleep(pauseMs, signal)
        }
      }
    },
  }
}
