/**
 * Connects a sensor to a view of the same process: its requests go to the pipe routes directly, without a socket and without an
 * API key. The routes and their checks are those of the HTTP server.
 */
import { defined, type Log, systemClock } from '@bellwether/base'
import type { Http } from '@bellwether/sensor'
import { apiOf } from '../../http/api.js'
import { bareApp } from '../../http/app.js'
import type { Grant } from '../../http/auth.js'
import { pipeRoutes } from '../../http/routes/pipe.js'
import { withTimeout } from '../../ports/retry.js'
import type { Fusion } from '../../view/fusion.js'

export interface InProcessPipeOptions {
  readonly fusion: Fusion
  /** The view that the sensor feeds. */
  readonly view: string
  readonly log: Log
  /** Ends waiting heartbeats when the process stops. */
  readonly signal: AbortSignal
}

export function inProcessPipe({ fusion, view, log, signal: stopping }: InProcessPipeOptions): Http {
  const grant: Grant = {
    keyId: 'in-process',
    role: 'sensor',
    view,
    may: (other) => other === view,
    reaches: () => false,
    isLive: () => true,
  }
  const app = bareApp({
    log,
    admit: async (request) => {
      request.grant = grant
    },
  })
  pipeRoutes(apiOf(app), { fusion, signal: stopping, inProcess: true })
  return {
    async request({ method, url, headers, body, timeoutMs, signal }) {
      const payload = body === undefined ? {} : { payload: Buffer.from(body.buffer, body.byteOffset, body.byteLength) }
      const response = app.inject({
        method,
        url: `${url.pathname}${url.search}`,
        headers,
        remoteAddress: 'in-process',
        ...defined({ signal }),
        ...payload,
      })
      const { statusCode, rawPayload } = await withTimeout(systemClock, timeoutMs, 'the view of this process', response)
      return { status: statusCode, body: rawPayload }
    },
    close: () => void app.close(),
  }
}
