/** The demo as a client of the HTTP API: the product's public client, and a call that waits for a server that is down. */
import { defined, type Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { openClient } from 'bellwether/client'
import { projectId } from './actors.js'
import type { UpInfo } from './up-process.js'

export interface DemoClient {
  ask<T>(method: string, path: string, body?: object, idempotencyKey?: string): Promise<T>
  /** Repeats the request while the server is down, until it answers or the signal aborts. */
  insist<T>(method: string, path: string, body?: object, idempotencyKey?: string): Promise<T>
}

const timeoutMs = 10_000
const pauseMs = 250

/** A restarted server keeps its port and its key, so one address serves the whole run. */
export function openDemoClient({ url, adminKey }: UpInfo, clock: Clock, signal: AbortSignal): DemoClient {
  const client = openClient({ url, key: adminKey, project: projectId }, clock)
  const ask = <T>(method: string, path: string, body?: object, idempotencyKey?: string) =>
    client.ask<T>(method, path, defined({ body, idempotencyKey, signal, timeoutMs }))
  return {
    ask,
    async insist<T>(method: string, path: string, body?: object, idempotencyKey?: string) {
      for (;;) {
        try {
          return await ask<T>(method, path, body, idempotencyKey)
        } catch (error) {
          if (!(error instanceof Retryable) || signal.aborted) throw error
          await clock.sleep(pauseMs, signal)
        }
      }
    },
  }
}
