/**
 * The one place that talks to the server. Always: every request has a time limit and our headers; every failure is a `Problem` with
 * a code, also when the server cannot be reached; the server's clock is noted, because deadlines are its own.
 */
import { clock } from '../ports/clock.js'
import { session } from './session.js'

export const base = '/api/v1'
// Longer than any answer takes that is not a long poll; the dashboard makes none.
const timeoutMs = 20_000
// A Date header has whole seconds: a smaller difference says nothing.
const skewLeastMs = 1_500

let skewMs = 0

/** What time it is for the server. */
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

export interface Ask {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** A list that the answer must have: whatever else answers in the server's place is not taken for an empty one. */
  readonly list?: string
}

export function headersFor(key = session.key()): Record<string, string> {
  // A form on another site cannot send this header: with it the server knows that a cookie was not borrowed.
  return { 'x-requested-with': 'bellwether', ...(key === undefined ? {} : { 'x-api-key': key }) }
}

export function urlOf(path: string, query: Ask['query'] = {}): string {
  const told = Object.entries(query).filter(
    (pair): pair is [string, string | number | boolean] => pair[1] !== undefined,
  )
  const text = told.map(([name, value]) => `${encodeURIComponent(name)}=${encodePath(String(value))}`).join('&')
  return `${base}${path}${text === '' ? '' : `?${text}`}`
}

/** Names of files may hold bytes that are no text, carried as lone surrogates: those go back as bytes. */
export function encodePath(text: string): string {
  let out = ''
  for (const letter of text) {
    const point = letter.codePointAt(0) ?? 0
    if (point >= 0xdc80 && point <= 0xdcff) out += `%${(point - 0xdc00).toString(16).toUpperCase()}`
    else out += encodeURIComponent(letter.isWellFormed() ? letter : '\ufffd')
  }
  return out
}

export async function ask<T>(path: string, options: Ask = {}): Promise<T> {
  const { method = 'GET', query, body, headers = {}, signal } = options
  const limit = clock.deadline(timeoutMs)
  let response: Response
  let text: string
  try {
    response = await fetch(urlOf(path, query), {
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
  if (response.ok) return shaped(read(text), options.list) as T
  const problem = problemOf(response.status, text)
  if (response.status === 401) session.refuse()
  throw problem
}

/** Something else instead of an error where a server has no such route, or this key may not ask it. */
export async function ifOffered<T>(answer: Promise<T>, instead: T): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof Problem && (error.status === 404 || error.status === 403)) return instead
    throw error
  }
}

function read(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    throw new Problem(
      502,
      'unreadable',
      'the answer is not JSON',
      'something between this page and the server answers in its place',
    )
  }
}

function shaped(answer: unknown, list: string | undefined): unknown {
  if (list === undefined) return answer
  const told = typeof answer === 'object' && answer !== null ? (answer as Record<string, unknown>)[list] : undefined
  if (Array.isArray(told)) return answer
  throw new Problem(
    502,
    'unreadable',
    `the answer has no ${list}`,
    'the server is of another version, or something answers in its place',
  )
}

function unreachable(isLate: boolean): Problem {
  return isLate
    ? new Problem(0, 'timeout', `the server did not answer within ${timeoutMs / 1_000} s`, 'it may be busy: try again')
    : new Problem(0, 'unreachable', 'the server cannot be reached', 'is `bellwether up` running?')
}

export function problemOf(status: number, text: string): Problem {
  try {
    const told = JSON.parse(text) as { code?: unknown; detail?: unknown; title?: unknown; hint?: unknown }
    const say = (value: unknown) => (typeof value === 'string' ? value : undefined)
    return new Problem(
      status,
      say(told.code) ?? 'refused',
      say(told.detail) ?? say(told.title) ?? `status ${status}`,
      say(told.hint),
    )
  } catch {
    return new Problem(status, 'refused', `the server answered ${status}`)
  }
}

function noteTime(response: Response): void {
  const told = Date.parse(response.headers.get('date') ?? '')
  if (Number.isNaN(told)) return
  const difference = told - clock.nowMs()
  if (Math.abs(difference - skewMs) > skewLeastMs) skewMs = difference
}
