/**
 * The only module that calls the server. A call names its route; the contract types its request and its answer. Every
 * request has a timeout and our headers; every failure is a `Problem` with a code, also if the server is unreachable. It
 * tracks the server's clock, because deadlines are in server time.
 */
import { defined, objectOf, parseJson } from '@bellwether/base'
import type { ResponseOf, ParamsFor, QueryFor, RequestFor, RouteKey } from '@bellwether/protocol/http'
import { requestLine } from '@bellwether/protocol/request-line'
import { clock } from '../ports/clock.js'
import { session } from './session.js'

// Longer than any response takes; the dashboard makes no long polls.
const timeoutMs = 20_000
// A Date header has whole seconds: a smaller difference is noise.
const skewLeastMs = 1_500

let skewMs = 0

/** The current time of the server. */
export const serverNowMs = (): number => clock.nowMs() + skewMs

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly hint?: string,
  ) {
    super(detail)
    this.name = 'Problem'
  }
}

type Options<Key extends RouteKey> = RequestFor<Key> & {
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
  /** The contract declares the route outside of the API's path. */
  readonly outside?: true
  /** A field that the answer must have, so that a proxy's answer is not mistaken for an empty list. */
  readonly expects?: ResponseOf<Key> extends infer Answer ? (Answer extends unknown ? keyof Answer : never) : never
}

export function headersFor(key = session.key()): Record<string, string> {
  const secret = key === undefined ? session.secret() : undefined
  // A form on another site cannot send these headers, so the server knows that the request comes from this page.
  return { 'x-requested-with': 'bellwether', ...defined({ 'x-api-key': key, 'x-bellwether-session': secret }) }
}

/** The URL of a route; undefined values of the query are left out. */
export function urlOf<Key extends RouteKey>(route: Key, params?: ParamsFor<Key>, query?: QueryFor<Key>): string {
  return requestLine(route, params as Readonly<Record<string, string>> | undefined, query).path
}

export async function ask<Key extends RouteKey>(route: Key, options: Options<Key>): Promise<ResponseOf<Key>> {
  const text = await askText(route, options)
  return shaped(read(text), options.expects) as ResponseOf<Key>
}

/** The response as text, for routes that do not respond with JSON. */
export async function askText<Key extends RouteKey>(route: Key, options: Options<Key>): Promise<string> {
  const { params, query, body, headers = {}, signal } = options
  const limit = clock.deadline(timeoutMs)
  let response: Response
  let text: string
  try {
    const [method, path] = route.split(' ') as [string, string]
    response = await fetch(options.outside === true ? path : urlOf(route, params, query), {
      method,
      credentials: 'same-origin',
      headers: {
        accept: 'application/json',
        ...headersFor(),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    })
    text = await response.text()
  } catch (error) {
    if (signal?.aborted === true) throw error
    throw unreachable(limit.aborted)
  }
  noteTime(response)
  if (response.ok) return text
  if (response.status === 401) session.refuse()
  throw problemOf(response.status, text)
}

/** Returns `instead` if the server has no such route or the key may not use it. */
export async function ifOffered<T, Instead>(answer: Promise<T>, instead: Instead): Promise<T | Instead> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof Problem && (error.status === 404 || error.status === 403)) return instead
    throw error
  }
}

interface QueryContext {
  readonly signal: AbortSignal
}

/** The function of a query that asks a route. The query's signal ends the request. */
export const asks =
  <Key extends RouteKey>(route: Key, options: Options<Key>) =>
  ({ signal }: QueryContext) =>
    ask(route, { ...options, signal })

/** The same, with what `ifOffered` returns in place of a route that the server does not offer. */
export const asksIfOffered =
  <Key extends RouteKey, Instead>(route: Key, options: Options<Key>, instead: Instead) =>
  ({ signal }: QueryContext) =>
    ifOffered(ask(route, { ...options, signal }), instead)

function read(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    throw new Problem(
      502,
      'unreadable',
      'The response is not JSON.',
      'A proxy may have answered instead of the server. Check what is between this page and the server.',
    )
  }
}

function shaped(answer: unknown, field: PropertyKey | undefined): unknown {
  if (field === undefined || (typeof answer === 'object' && answer !== null && field in answer)) return answer
  throw new Problem(
    502,
    'unreadable',
    `The response has no "${String(field)}".`,
    'The server may have another version; reload the page. Or a proxy answered instead of it.',
  )
}
function unreachable(isLate: boolean): Problem {
  return isLate
    ? new Problem(0, 'timeout', `The server did not answer within ${timeoutMs / 1_000} s.`, 'Try again.')
    : new Problem(0, 'unreachable', 'Cannot reach the server.', 'Check that `bellwether up` is running.')
}

export function problemOf(status: number, text: string): Problem {
  const { code, detail, title, hint } = objectOf(parseJson(text))
  const textOf = (value: unknown) => (typeof value === 'string' ? value : undefined)
  return new Problem(
    status,
    textOf(code) ?? 'rejected',
    textOf(detail) ?? textOf(title) ?? `The server responded with ${status}.`,
    textOf(hint),
  )
}

function noteTime(response: Response): void {
  const serverMs = Date.parse(response.headers.get('date') ?? '')
  if (Number.isNaN(serverMs)) return
  const difference = serverMs - clock.nowMs()
  if (Math.abs(difference - skewMs) > skewLeastMs) skewMs = difference
}
