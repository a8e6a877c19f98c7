/** An HTTP service that counts requests by their idempotency key. Each response takes 400 ms. */
import { createServer } from 'node:http'
import { systemClock } from '@bellwether/base'
import { listen } from '../servers/listen.js'

export interface Counter {
  readonly url: string
  /** Requests per key. */
  readonly counts: ReadonlyMap<string, number>
  /** Keys of requests in progress. */
  readonly pending: ReadonlySet<string>
  stop(): Promise<void>
}

const takesMs = 400

export async function startCounter(): Promise<Counter> {
  const counts = new Map<string, number>()
  const pending = new Set<string>()
  const server = createServer((request, response) => {
    const key = String(request.headers['idempotency-key'])
    counts.set(key, (counts.get(key) ?? 0) + 1)
    pending.add(key)
    request.resume()
    void systemClock.sleep(takesMs).then(() => {
      pending.delete(key)
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"counted":true}')
    })
  })
  const port = await listen(server)
  return {
    url: `http://127.0.0.1:${port}`,
    counts,
    pending,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
