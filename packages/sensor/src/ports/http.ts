/** HTTP as the sensor needs it: one request, one answer, a time limit on the whole, connections kept. */
import { Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { Retryable } from '@bellwether/protocol'

export interface Asked {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

export interface Answered {
  readonly status: number
  readonly body: Buffer
}

export interface Http {
  ask(request: Asked): Promise<Answered>
  close(): void
}

// Every answer of the pipe is small; a server that sends more is not the one we mean.
const answerBytesMax = 8 * 1_024 * 1_024
// Heartbeat, realtime, a scan and commands, for a few views at once.
const connectionsMax = 32

export function openHttp(): Http {
  const settings = { keepAlive: true, maxSockets: connectionsMax }
  const agents = { http: new HttpAgent(settings), https: new HttpsAgent(settings) }
  return {
    ask({ method, url, headers, body, timeoutMs, signal }) {
      return new Promise((resolve, reject) => {
        const secure = url.protocol === 'https:'
        const start = secure ? httpsRequest : httpRequest
        const agent = secure ? agents.https : agents.http
        const length = body === undefined ? {} : { 'content-length': String(body.length) }
        const request = start(url, { method, headers: { ...headers, ...length }, agent }, (answer) => {
          const chunks: Buffer[] = []
          let bytes = 0
          answer.on('data', (chunk: Buffer) => {
            bytes += chunk.length
            if (bytes > answerBytesMax) request.destroy(new Error('the answer is too long'))
            else chunks.push(chunk)
          })
          answer.on('end', () => finish(() => resolve({ status: answer.statusCode ?? 0, body: Buffer.concat(chunks) })))
          answer.on('error', fail)
          answer.on('aborted', () => fail(new Error('the answer was cut off')))
        })
        const timer = setTimeout(() => request.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
        const cancel = () => {
          request.destroy()
          finish(() => reject(new DOMException('cancelled', 'AbortError')))
        }
        const finish = (end: () => void) => {
          clearTimeout(timer)
          signal?.removeEventListener('abort', cancel)
          end()
        }
        const fail = (error: Error) =>
          finish(() => reject(new Retryable(`${url.host}: ${error.message}`, { code: 'unreachable', cause: error })))
        request.on('error', fail)
        if (signal?.aborted === true) return cancel()
        signal?.addEventListener('abort', cancel, { once: true })
        request.end(body)
      })
    },
    close() {
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}
