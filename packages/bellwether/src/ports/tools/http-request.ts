/**
 * Sends one HTTP request for a tool. The signal aborts it at any time, also during the response; the body is read up to its limit;
 * redirects to another origin are rejected; no connection is reused. The caller interprets the response.
 */
import { request as overHttp, type IncomingMessage, type RequestOptions } from 'node:http'
import { request as overHttps } from 'node:https'
import { isIP } from 'node:net'
import { defined, errorMessage } from '@bellwether/base'
import { classify } from '../retry.js'
import { ToolFailure } from './tool-failure.js'
import { guardedLookup, isPublic, refusedAddress } from './http-address.js'

export interface HttpRequest {
  readonly url: URL
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Whether private networks and this machine may be reached. */
  readonly allowPrivate: boolean
  readonly responseMaxBytes: number
  readonly signal: AbortSignal
  readonly lookup?: RequestOptions['lookup']
}

export interface HttpResponse {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  /** Up to the size limit. */
  readonly body: Buffer
  readonly truncated: boolean
}

// A longer chain means a misconfigured server.
const redirectsMax = 3

export async function httpRequest(request: HttpRequest): Promise<HttpResponse> {
  let { url } = request
  for (let followed = 0; ; followed += 1) {
    const response = await once({ ...request, url })
    const to = response.headers.location
    if (response.status < 300 || response.status >= 400 || response.status === 304 || to === undefined) return response
    const next = URL.canParse(to, url.href) ? new URL(to, url) : undefined
    const reading = request.method === 'GET' || request.method === 'HEAD'
    if (next?.origin !== url.origin || !reading || followed === redirectsMax) {
      const where = next === undefined ? 'nowhere' : next.origin
      throw new ToolFailure(
        `The server redirects to ${where} (status ${response.status}). Redirects to another origin or of a write are not followed.`,
        { code: 'redirect_refused' },
      )
    }
    url = next
  }
}

async function once(request: HttpRequest): Promise<HttpResponse> {
  const { url, method, headers, body, allowPrivate, responseMaxBytes, signal } = request
  const host = url.hostname.replace(/^\[|\]$/g, '')
  // A literal address is not resolved, so it is checked here.
  if (!allowPrivate && isIP(host) !== 0 && !isPublic(host)) throw refusedAddress(host, host)
  const lookup = request.lookup ?? (allowPrivate ? undefined : guardedLookup())
  const options: RequestOptions = {
    method,
    signal,
    // Connections are not shared: another tool may have other permissions.
    agent: false,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }) },
    ...defined({ lookup }),
  }
  return new Promise<HttpResponse>((resolve, reject) => {
    const fail = (error: unknown) => reject(signal.aborted ? abortedCall(error) : toFailure(error, host))
    const outgoing = (url.protocol === 'https:' ? overHttps : overHttp)(url, options, (incoming) => {
      const chunks: Buffer[] = []
      let bytes = 0
      const done = (truncated: boolean) => {
        const all = Buffer.concat(chunks)
        resolve({
          status: incoming.statusCode ?? 0,
          headers: incoming.headers,
          body: all.subarray(0, responseMaxBytes),
          truncated,
        })
      }
      incoming.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        bytes += chunk.length
        if (bytes <= responseMaxBytes) return
        done(true)
        incoming.destroy()
      })
      incoming.once('end', () => done(false))
      incoming.once('error', fail)
      incoming.once('aborted', () =>
        fail(Object.assign(new Error('The response was interrupted'), { code: 'ECONNRESET' })),
      )
    })
    outgoing.once('error', fail)
    outgoing.end(body)
  })
}

const abortedCall = (cause: unknown) => new ToolFailure('The call was aborted', { code: 'ended', inDoubt: true, cause })

function toFailure(error: unknown, host: string): ToolFailure {
  if (error instanceof ToolFailure) return error
  const { why, inDoubt, retryable } = classify(error)
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : undefined
  const message = errorMessage(error)
  const unknownName = code === 'ENOTFOUND'
  return new ToolFailure(`Cannot reach ${host}: ${message}`, {
    code: unknownName ? 'unknown_host' : `http_${why}`,
    // After an unknown error the call may have taken effect.
    inDoubt: !unknownName && (inDoubt || why === 'unknown'),
    retryable: retryable,
    cause: error,
  })
}
