/**
 * One HTTP request of a tool. Always: the signal ends it, also in the middle of an answer that drips; the body is read up to its
 * bound and no further; nothing is followed to another origin; nothing is kept between two requests. What the answer means is left
 * to the caller.
 */
import { request as overHttp, type IncomingMessage, type RequestOptions } from 'node:http'
import { request as overHttps } from 'node:https'
import { isIP } from 'node:net'
import { errorMessage } from '@bellwether/base'
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
  /** As much as was read. */
  readonly body: Buffer
  readonly truncated: boolean
}

// A chain of three is a misconfigured server already.
const redirectsMax = 3

export async function httpRequest(request: HttpRequest): Promise<HttpResponse> {
  let { url } = request
  for (let followed = 0; ; followed += 1) {
    const answer = await once({ ...request, url })
    const to = answer.headers.location
    if (answer.status < 300 || answer.status >= 400 || answer.status === 304 || to === undefined) return answer
    const next = URL.canParse(to, url.href) ? new URL(to, url) : undefined
    const reading = request.method === 'GET' || request.method === 'HEAD'
    if (next?.origin !== url.origin || !reading || followed === redirectsMax) {
      const where = next === undefined ? 'nowhere' : next.origin
      throw new ToolFailure(`the server redirects to ${where} (${answer.status}), which is not followed`, {
        code: 'redirect_refused',
      })
    }
    url = next
  }
}

async function once(request: HttpRequest): Promise<HttpResponse> {
  const { url, method, headers, body, allowPrivate, responseMaxBytes, signal } = request
  const host = url.hostname.replace(/^\[|\]$/g, '')
  // A literal address is never looked up.
  if (!allowPrivate && isIP(host) !== 0 && !isPublic(host)) throw refusedAddress(host, host)
  const lookup = request.lookup ?? (allowPrivate ? undefined : guardedLookup())
  const options: RequestOptions = {
    method,
    signal,
    // No connection is shared: another tool's may lead where this one may not.
    agent: false,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }) },
    ...(lookup === undefined ? {} : { lookup }),
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
      incoming.once('aborted', () => fail(Object.assign(new Error('the answer was cut off'), { code: 'ECONNRESET' })))
    })
    outgoing.once('error', fail)
    outgoing.end(body)
  })
}

const abortedCall = (cause: unknown) => new ToolFailure('the call was ended', { code: 'ended', inDoubt: true, cause })

function toFailure(error: unknown, host: string): ToolFailure {
  if (error instanceof ToolFailure) return error
  const { why, inDoubt, retryable } = classify(error)
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : undefined
  const message = errorMessage(error)
  const unknownName = code === 'ENOTFOUND'
  return new ToolFailure(`${host} cannot be reached: ${message}`, {
    code: unknownName ? 'unknown_host' : `http_${why}`,
    // What nobody can classify may have been heard.
    inDoubt: !unknownName && (inDoubt || why === 'unknown'),
    retryable: retryable,
    cause: error,
  })
}
