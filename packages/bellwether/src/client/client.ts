/**
 * A running house as its clients reach it: over HTTP, with a key. Always: a call has a timeout and can be called off; an answer has a
 * bound; the key goes to the address that was named and to no other; a refusal is told in the server's own words. How the address
 * and the key are found is left to whoever asks.
 */
import type { Clock } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { readEvents, type ServerEvent } from './events.js'
import { withTimeout } from '../ports/retry.js'

export interface Address {
  readonly url: string
  readonly key: string
  readonly project: string
  /** What to say besides when nobody answers there. */
  readonly awayHint?: string
}

export interface Asking {
  readonly body?: object
  readonly signal?: AbortSignal
  /** How long the answer may take; absent: a question that is answered at once. */
  readonly timeoutMs?: number
  /** Makes a repeated request the same request. */
  readonly idempotencyKey?: string
}

export interface Client {
  readonly url: string
  readonly project: string
  /** A path within the project: `of('/turns')`. */
  of(path: string): string
  /** Answers the parsed body; `path` is relative to the API's base. */
  ask<T>(method: string, path: string, asking?: Asking): Promise<T>
  /** An answer that goes on: the events of a stream, until the signal fires or the server ends it. `last` is where to go on. */
  follow(path: string, signal: AbortSignal, last?: string): AsyncGenerator<ServerEvent>
}

/** Long enough for a server that is busy; a person is still there after it. */
export const answerMs = 30_000
const base = '/api/v1'
// What a terminal or a model can be asked to look at, many times over; a tree of a million files is asked for in parts.
const answerBytesMax = 64 * 1024 * 1024
// Refusals are a few lines; what a proxy says may be a page.
const refusalChars = 2_000

export function openClient({ url, key, project, awayHint }: Address, clock: Clock): Client {
  const root = addressOf(url)
  const headers = { 'x-api-key': keyOf(key), accept: 'application/json' }

  async function send(method: string, path: string, asking: Asking, more: object, signal: AbortSignal) {
    const { body, idempotencyKey } = asking
    let response: Response
    try {
      response = await fetch(`${root}${base}${path}`, {
        method,
        headers: {
          ...headers,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
          ...more,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        // Followed, a redirect would carry the key to wherever it leads.
        redirect: 'manual',
        signal,
      })
    } catch (error) {
      if (signal.aborted) throw calledOff(error)
      throw new Retryable(`${root} does not answer`, {
        code: 'server_away',
        cause: error,
        hint: awayHint ?? 'is it running? bellwether up starts one here',
      })
    }
    if (!response.ok) throw await refusal(response, root)
    return response
  }

  return {
    url: root,
    project,
    of: (path) => `/projects/${encodeURIComponent(project)}${path}`,
    async ask<T>(method: string, path: string, asking: Asking = {}) {
      const over = linked(asking.signal)
      const answer = send(method, path, asking, {}, over.signal).then(async (response) => {
        const text = await textOf(response, over.signal)
        return parsed(text, root)
      })
      try {
        return (await withTimeout(clock, asking.timeoutMs ?? answerMs, `${method} ${path}`, answer)) as T
      } finally {
        over.release()
      }
    },
    async *follow(path, signal, last) {
      const over = linked(signal)
      const more = { accept: 'text/event-stream', ...(last === undefined ? {} : { 'last-event-id': last }) }
      try {
        const response = await withTimeout(clock, answerMs, `GET ${path}`, send('GET', path, {}, more, over.signal))
        yield* readEvents(response.body, clock, over.signal)
      } finally {
        over.release()
      }
    },
  }
}

/** A signal of one's own that follows another, and fires at last so that nothing is left open. */
function linked(outer: AbortSignal | undefined): { readonly signal: AbortSignal; release(): void } {
  const over = new AbortController()
  const stop = () => over.abort()
  outer?.addEventListener('abort', stop, { once: true })
  if (outer?.aborted === true) stop()
  return {
    signal: over.signal,
    release() {
      outer?.removeEventListener('abort', stop)
      over.abort()
    },
  }
}

const calledOff = (cause: unknown) => new Terminal('the request was called off', { code: 'aborted', cause })

async function textOf(response: Response, signal: AbortSignal): Promise<string> {
  const decoder = new TextDecoder()
  let [text, bytes] = ['', 0]
  try {
    for await (const chunk of response.body ?? []) {
      const piece = chunk as Uint8Array
      bytes += piece.length
      if (bytes > answerBytesMax)
        throw new Terminal(`the answer is larger than ${answerBytesMax / 1024 / 1024} MiB`, {
          code: 'answer_too_large',
          hint: 'ask for less: a path, a depth or a limit',
        })
      text += decoder.decode(piece, { stream: true })
    }
  } catch (error) {
    if (error instanceof Terminal) throw error
    if (signal.aborted) throw calledOff(error)
    throw new Retryable('the connection was lost in the middle of an answer', { code: 'server_away', cause: error })
  }
  return text + decoder.decode()
}

function parsed(text: string, url: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new Terminal(`${url} answers, but not as Bellwether does`, {
      code: 'not_bellwether',
      cause: error,
      hint: 'is this the address of the server itself, and not of something else?',
    })
  }
}

async function refusal(response: Response, url: string): Promise<Terminal | Retryable> {
  const { status } = response
  const problem = problemIn((await response.text()).slice(0, refusalChars))
  const words = problem['detail'] ?? problem['title'] ?? `${url} answered ${status}`
  const hint = problem['hint'] ?? hintFor(status)
  const details = { code: problem['code'] ?? `http_${status}`, ...(hint === undefined ? {} : { hint }) }
  if (status !== 429 && status < 500) return new Terminal(words, details)
  const afterSeconds = Number(response.headers.get('retry-after') ?? 0)
  return new Retryable(words, { ...details, ...(afterSeconds > 0 ? { afterMs: afterSeconds * 1_000 } : {}) })
}

function hintFor(status: number): string | undefined {
  if (status === 401) return 'this key is not known there, or it was revoked: give --key KEY, or set BELLWETHER_KEY'
  if (status >= 300 && status < 400) return 'it sends us elsewhere, where we do not go with a key: name that address'
  return undefined
}

/** What the server says is wrong; nothing where a proxy in between speaks its own language: the status has to do then. */
function problemIn(text: string): Readonly<Record<string, string>> {
  try {
    const told: unknown = JSON.parse(text)
    if (typeof told !== 'object' || told === null) return {}
    return Object.fromEntries(
      Object.entries(told).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
    )
  } catch (error) {
    if (error instanceof SyntaxError) return {}
    throw error
  }
}

function addressOf(url: string): string {
  if (/^https?:\/\/[^/]/.test(url) && URL.canParse(url)) return url.replace(/\/+$/, '')
  throw new InvalidInput(`${JSON.stringify(url)} is not an address of a server`, {
    code: 'bad_server',
    hint: 'give it as http://host:port',
  })
}

function keyOf(key: string): string {
  if (/^[\x21-\x7e]{1,500}$/.test(key)) return key
  throw new InvalidInput('the key holds characters that no key has', {
    code: 'bad_key',
    hint: 'a key looks like bw_…, in one line',
  })
}
