/** The sensor's HTTP client: keeps connections alive and limits the time of each request, response included. */
import { Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { onAbort } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'

interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

interface HttpResponse {
  readonly status: number
  readonly body: Buffer
}

export interface Http {
  request(request: HttpRequest): Promise<HttpResponse>
  close(): void
}

// Responses of the pipe protocol are small; a longer one comes from the wrong server.
const responseBytesMax = 8 * 1_024 * 1_024
// Heartbeat, realtime, a scan and commands, for a few views at once.
const connectionsMax = 32

export function openHttp(): Http {
  const settings = { keepAlive: true, maxSockets: connectionsMax }
  const agents = { http: new HttpAgent(settings), https: new HttpsAgent(settings) }
  return {
    request({ method, url, headers, body, timeoutMs, signal }) {
      return new Promise((resolve, reject) => {
        const secure = url.protocol === 'https:'
        const start = secure ? httpsRequest : httpRequest
        const agent = secure ? agents.https : agents.http
        const length = body === undefined ? {} : { 'content-length': String(body.length) }
        const request = start(url, { method, headers: { ...headers, ...length }, agent }, (response) => {
          const chunks: Buffer[] = []
          let bytes = 0
          response.on('data', (chunk: Buffer) => {
            bytes += chunk.length
            if (bytes > responseBytesMax)
              request.destroy(new Error(`the response is longer than ${responseBytesMax} bytes`))
            else chunks.push(chunk)
          })
          response.on('end', () =>
            finish(() => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) })),
          )
          response.on('error', fail)
          response.on('aborted', () =>
            fail(new Error('the server closed the connection before the response was complete')),
          )
        })
        let release = () => {}
        const timer = setTimeout(() => request.destroy(new Error(`no response within ${timeoutMs} ms`)), timeoutMs)
        const cancel = () => {
          request.destroy()
          finish(() => reject(new DOMException('cancelled', 'AbortError')))
        }
        const finish = (end: () => void) => {
          clearTimeout(timer)
          release()
          end()
        }
        const fail = (error: Error) =>
          finish(() => reject(new Retryable(`${url.host}: ${error.message}`, { code: 'unreachable', cause: error })))
        request.on('error', fail)
        release = onAbort(signal, cancel)
        if (signal?.aborted !== true) request.end(body)
      })
    },
    close() {
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}
