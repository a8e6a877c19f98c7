/** The demo as a client of the HTTP API: the product's public client, and a call that waits for a server that is down. */
import type { Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { ApiKey } from '@bellwether/protocol/http'
import { openClient, type Client, type Request } from 'bellwether/client'
import { projectId } from './actors.js'
import type { UpInfo } from './up-process.js'

type Ask = Client['ask']

export interface DemoClient {
  readonly ask: Ask
  /** Repeats the request while the server is down, until it answers or the signal aborts. */
  readonly insist: Ask
  readonly follow: Client['follow']
}

const timeoutMs = 10_000
const pauseMs = 250

/** A restarted server keeps its port and its key, so one address serves the whole run. */
export function openDemoClient({ url, adminKey }: UpInfo, clock: Clock, signal: AbortSignal): DemoClient {
  const client = openClient({ url, key: adminKey, project: projectId }, clock)
  const ask = (key: ApiKey, request?: object) => client.ask(key, { signal, timeoutMs, ...request } as Request<ApiKey>)
  const insist = async (key: ApiKey, request?: object) => {
    for (;;) {
      try {
        return await ask(key, request)
      } catch (error) {
        if (!(error instanceof Retryable) || signal.aborted) throw error
        await clock.sleep(pauseMs, signal)
      }
    }
  }
  return { ask: ask as Ask, insist: insist as Ask, follow: (key, request) => client.follow(key, request) }
}
