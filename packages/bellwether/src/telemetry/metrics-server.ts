/** Serves GET /metrics on loopback, for a process without an HTTP server. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Terminal } from '@bellwether/protocol'
import type { Metrics } from './metrics-page.js'

export interface MetricsServer {
  readonly url: string
  close(): Promise<void>
}

const loopback = '127.0.0.1'
// Enough for a few scrapers.
const connectionsMax = 16
const requestMs = 10_000
// The text format of Prometheus.
const pageType = 'text/plain; version=0.0.4; charset=utf-8'

export async function serveMetrics(metrics: Metrics, port: number): Promise<MetricsServer> {
  const server = createServer({ requestTimeout: requestMs, headersTimeout: requestMs }, (request, response) => {
    const path = request.url?.split('?')[0]
    if (request.method !== 'GET' || path !== '/metrics') {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('GET /metrics\n')
      return
    }
    metrics.text().then(
      (text) => response.writeHead(200, { 'content-type': pageType }).end(text),
      () => response.writeHead(500).end(),
    )
  })
  server.maxConnections = connectionsMax
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new Terminal(`Cannot serve /metrics on port ${port}: ${cause.message}`, {
          code: 'metrics_port_taken',
          cause,
          hint: 'set [telemetry] metrics_port to another port, or to 0 for a free one',
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
