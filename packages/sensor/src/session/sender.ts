/**
 * The way to the server, shared by all pipes of one sensor. Always: every request has a time limit; what is large goes
 * zipped; an answer is one of three things: fine, "your session is over", or a failure that says whether trying again
 * may help. Order is kept by whoever sends: one request after the other. Retrying is left to the tasks.
 */
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { pipeLimits, Retryable, sessionObsolete, Terminal } from '@bellwether/protocol'
import type { Http } from '../ports/http.js'
import { SessionObsolete, textOf, persistentAt } from './recovery.js'

export interface SenderOptions {
  /** The server, with or without `/api/v1`. */
  readonly server: string
  readonly http: Http
  readonly timeoutMs?: number
  readonly zipAboveBytes?: number
}

export interface SendOptions {
  readonly key: string
  readonly signal?: AbortSignal
  readonly timeoutMs?: number
}

export interface Sender {
  send(method: 'GET' | 'POST' | 'DELETE', path: string, body: unknown, options: SendOptions): Promise<unknown>
  /** Failures in a row, how often it got over them, and the last one. */
  health(): { readonly failures: number; readonly restarts: number; readonly error: string | undefined }
}

const zip = promisify(gzip)
// Below it the zipping costs more than the bytes it saves.
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
    { key, signal, timeoutMs: longer }: SendOptions,
  ): Promise<unknown> {
    const headers: Record<string, string> = { 'x-api-key': key, accept: 'application/json' }
    let bytes = Buffer.isBuffer(body) ? body : body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    if (bytes !== undefined) headers['content-type'] = 'application/json'
    if (bytes !== undefined && bytes.length > zipAboveBytes) {
      bytes = await zip(bytes, { level: 1 })
      headers['content-encoding'] = 'gzip'
      if (bytes.length > pipeLimits.bodyBytesMax)
        throw new Terminal('a batch is too large', { code: 'batch_too_large' })
    }
    const url = new URL(path, base)
    const asked = { method, url, headers, timeoutMs: longer ?? timeoutMs }
    const answer = await http.ask({
      ...asked,
      ...(bytes === undefined ? {} : { body: bytes }),
      ...(signal === undefined ? {} : { signal }),
    })
    return read(answer.status, answer.body, path)
  }

  return {
    health: () => ({ failures, restarts, error }),
    async send(method, path, body, how) {
      try {
        const answer = await send(method, path, body, how)
        if (failures >= persistentAt) restarts += 1
        ;[failures, error] = [0, undefined]
        return answer
      } catch (problem) {
        // A refusal by the server shows that the way to it is fine.
        if (problem instanceof Retryable && problem.code === 'unreachable') {
          failures += 1
          error = textOf(problem)
        }
        throw problem
      }
    },
  }
}

function read(status: number, body: Buffer, path: string): unknown {
  if (status >= 200 && status < 300) return body.length === 0 ? {} : (JSON.parse(body.toString()) as unknown)
  const told = body.toString('utf8', 0, 300).replaceAll(/\s+/g, ' ')
  const message = `${path} answered ${status}: ${told}`
  // A server that was started anew knows nothing of the sessions before.
  const unknownSession = (status === 404 || status === 410) && /^pipe\/(?:session|ingest)\/./.test(path)
  if (status === sessionObsolete || unknownSession) throw new SessionObsolete(message)
  if (status === 401 || status === 403)
    throw new Terminal(message, { code: 'refused', hint: 'is the key one of a sensor, for this view?' })
  if (status >= 500 || status === 408 || status === 409 || status === 429)
    throw new Retryable(message, { code: 'server_refused' })
  throw new Terminal(message, { code: 'bad_request' })
}
