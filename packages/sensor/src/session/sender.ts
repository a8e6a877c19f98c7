/**
 * Sends requests to the server, for all pipes of one sensor. Every request has a time limit; large bodies are compressed. The
 * result is a response, SessionObsolete, or an error that says whether a retry may help. Tasks retry, and keep the order by
 * sending one request at a time.
 */
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { defined } from '@bellwether/base'
import { pipeLimits, Retryable, sessionObsolete, Terminal } from '@bellwether/protocol'
import type { Http } from '../ports/http.js'
import { BatchTooLarge, SessionObsolete, shortMessage, persistentAt } from './recovery.js'

export interface SenderOptions {
  /** The URL of the server, with or without `/api/v1`. */
  readonly server: string
  readonly http: Http
  readonly timeoutMs?: number
  readonly zipAboveBytes?: number
}

interface SendOptions {
  readonly key: string
  readonly signal?: AbortSignal
  readonly timeoutMs?: number
}

export interface Sender {
  send(method: 'GET' | 'POST' | 'DELETE', path: string, body: unknown, options: SendOptions): Promise<unknown>
  /** Consecutive failures, recoveries from persistent failure, and the last error. */
  health(): { readonly failures: number; readonly restarts: number; readonly error: string | undefined }
}

const zip = promisify(gzip)
// Below it compression costs more than it saves.
const zipAboveDefault = 32_768
const timeoutDefaultMs = 30_000

export function openSender(options: SenderOptions): Sender {
  const { http, timeoutMs = timeoutDefaultMs, zipAboveBytes = zipAboveDefault } = options
  const base = options.server.replace(/\/+$/, '').replace(/(?:\/api\/v1)?$/, '/api/v1/')
  let [failures, restarts] = [0, 0]
  let error: string | undefined

  async function send(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    body: unknown,
    { key, signal, timeoutMs: override }: SendOptions,
  ): Promise<unknown> {
    const headers: Record<string, string> = { 'x-api-key': key, accept: 'application/json' }
    let bytes = Buffer.isBuffer(body) ? body : body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    if (bytes !== undefined) headers['content-type'] = 'application/json'
    if (bytes !== undefined && bytes.length > pipeLimits.inflatedBytesMax)
      throw new BatchTooLarge(`The request has ${bytes.length} bytes, more than ${pipeLimits.inflatedBytesMax}`)
    if (bytes !== undefined && bytes.length > zipAboveBytes) {
      bytes = await zip(bytes, { level: 1 })
      headers['content-encoding'] = 'gzip'
    }
    const url = new URL(path, base)
    const request = { method, url, headers, timeoutMs: override ?? timeoutMs, ...defined({ body: bytes, signal }) }
    const { status, body: responseBody } = await http.request(request)
    return readResponse(status, responseBody, path)
  }

  return {
    health: () => ({ failures, restarts, error }),
    async send(method, path, body, options) {
      try {
        const response = await send(method, path, body, options)
        if (failures >= persistentAt) restarts += 1
        ;[failures, error] = [0, undefined]
        return response
      } catch (problem) {
        // A rejection by the server proves that it is reachable.
        if (problem instanceof Retryable && problem.code === 'unreachable') {
          failures += 1
          error = shortMessage(problem)
        }
        throw problem
      }
    },
  }
}

function readResponse(status: number, body: Buffer, path: string): unknown {
  if (status >= 200 && status < 300) return body.length === 0 ? {} : (JSON.parse(body.toString()) as unknown)
  const text = body.toString('utf8', 0, 300).replaceAll(/\s+/g, ' ')
  const message = `${path} returned status ${status}: ${text}`
  // A restarted server does not know earlier sessions.
  const unknownSession = (status === 404 || status === 410) && /^pipe\/(?:session|ingest)\/./.test(path)
  if (status === sessionObsolete || unknownSession) throw new SessionObsolete(message)
  if (status === 413) throw new BatchTooLarge(message)
  if (status === 401 || status === 403)
    throw new Terminal(message, { code: 'refused', hint: 'Use a key with the role sensor for this view.' })
  if (status >= 500 || status === 408 || status === 409 || status === 429)
    throw new Retryable(message, { code: 'server_refused' })
  throw new Terminal(message, { code: 'bad_request' })
}
