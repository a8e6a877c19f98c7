/** A page for Prometheus in a process that has no HTTP server of its own: GET /metrics, on loopback, nothing else. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Terminal } from '@bellwether/protocol'
import type { Metrics } from './metrics.js'

export interface MetricsServer {
  readonly url: string
  close(): Promise<void>
}

const loopback = '127.0.0.1'
// A scraper or two, and somebody with curl.
const connectionsMax = 16
const requestMs = 10_000

export async function serveMetrics(metrics: Metrics, port: number): Promise<MetricsServer> {
  const server = createServer({ requestTimeout: requestMs, headersTimeout: requestMs }, (request, response) => {
    const path = request.url?.split('?')[0]
    if (request.method !== 'GET' || path !== '/metrics') {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('GET /metrics\n')
      return
    }
    metrics.text().then(
      (text) => response.writeHead(200, { 'content-type': metrics.contentType }).end(text),
      () => response.writeHead(500).end(),
    )
  })
  server.maxConnections = connectionsMax
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new Terminal(`/metrics cannot be served on port ${port}`, {
          code: 'metrics_port_taken',
          cause,
          hint: 'set [telemetry] metrics_port to another one, or to 0 for any',
        }),
      ),
    )
    server.listen(port, loopback, resolve)
  })
  return {
    url: `http://${loopback}:${(server.address() as AddressInfo).port}/metrics`,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}
