/**
 * Calls a running server over HTTP, by route key of the HTTP contract, which gives every request and response its type. Every call has
 * a timeout and an abort signal, every response a size limit. The key is sent only to the configured address. Responses are not parsed
 * with the schemas: the contract test does that for every route, a newer server may add fields and words, and a tree has up to 64 MiB.
 */
import { type Clock, defined, linkAbort, objectOf, parseJson } from '@bellwether/base'
import { InvalidInput, requestLine, Retryable, Terminal } from '@bellwether/protocol'
import type {
  ResponseOf,
  ApiKey,
  BodyFor,
  Declared,
  EventName,
  EventOf,
  ParamsFor,
  QueryFor,
  StreamKey,
} from '@bellwether/protocol/http'
import { backoffMs, reconnectBackoff, withTimeout } from '../ports/retry.js'
import { readEvents, type ServerEvent } from './events.js'

export interface Address {
  readonly url: string
  readonly key: string
  /** Fills `:project` in routes. */
  readonly project: string
  /** The hint of the error if the server does not respond. */
  readonly awayHint?: string
}

type Params<Value> = 'project' extends keyof Value
  ? Omit<Value, 'project'> & { readonly project?: string | undefined }
  : Value

/** What a route takes, and how to send it. */
export type Request<Key extends ApiKey> = Declared<'params', Params<ParamsFor<Key>>> &
  Declared<'query', QueryFor<Key>> &
  Declared<'body', BodyFor<Key>> & {
    readonly signal?: AbortSignal | undefined
    /** Default: `responseMs`. */
    readonly timeoutMs?: number
    /** A repeated request with the same key has one effect. */
    readonly idempotencyKey?: string | undefined
  }
type Arguments<Value> = object extends Value ? [request?: Value] : [request: Value]

interface StreamOptions {
  readonly signal: AbortSignal
  /** The id of the last event that was read. */
  readonly after?: string | undefined
  /** Called once per outage, before the first retry. */
  readonly onOutage?: (error: Retryable) => void
}
export type StreamRequest<Key extends StreamKey> = Declared<'params', Params<ParamsFor<Key>>> &
  Declared<'query', QueryFor<Key>> &
  StreamOptions
export type StreamEvent<Key extends StreamKey> = {
  [Name in EventName<Key>]: {
    readonly id: string | undefined
    readonly event: Name extends '*' ? string : Name
    readonly data: EventOf<Key, Name>
  }
}[EventName<Key>]

export interface Client {
  readonly url: string
  readonly project: string
  ask<Key extends ApiKey>(key: Key, ...request: Arguments<Request<Key>>): Promise<ResponseOf<Key>>
  /** Reconnects after the last event, until the signal aborts. */
  follow<Key extends StreamKey>(key: Key, request: StreamRequest<Key>): AsyncGenerator<StreamEvent<Key>>
}

/** Long enough for a busy server, and short enough for a person who waits. */
export const responseMs = 30_000
// A larger tree is read in parts.
const responseBytesMax = 64 * 1024 * 1024
// A problem has a few lines; a proxy may send a page.
const problemChars = 2_000

type AnyValues = Readonly<Record<string, string | number | boolean | undefined>>
/** The union of all requests. */
interface AnyRequest {
  readonly params?: AnyValues | undefined
  readonly query?: AnyValues | undefined
  readonly body?: unknown
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number
  readonly idempotencyKey?: string | undefined
}

export function openClient({ url, key, project, awayHint }: Address, clock: Clock): Client {
  const root = checkedUrl(url)
  const authorization = { 'x-api-key': checkedKey(key) }

  async function send(route: string, request: AnyRequest, headers: object, signal: AbortSignal): Promise<Response> {
    const { params, query, body, idempotencyKey } = request
    const { method, path } = requestLine(route, { project, ...defined(params ?? {}) }, query)
    let response: Response
    try {
      response = await fetch(`${root}${path}`, {
        method,
        headers: {
          ...authorization,
          accept: 'application/json',
          ...defined({
            'content-type': body === undefined ? undefined : 'application/json',
            'idempotency-key': idempotencyKey,
          }),
          ...headers,
        },
        // A redirect would send the key to another address.
        redirect: 'manual',
        signal,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
    } catch (error) {
      if (signal.aborted) throw abortedRequest(error)
      throw new Retryable(`${root} does not respond`, {
        code: 'server_away',
        cause: error,
        hint: awayHint ?? 'check that it is running; `bellwether up` starts a server in this folder',
      })
    }
    if (!response.ok) throw await problemOf(response, root)
    return response
  }

  async function ask(route: string, request: AnyRequest = {}): Promise<unknown> {
    const link = linkAbort(request.signal)
    const response = send(route, request, {}, link.signal).then(async (received) =>
      parse(await readText(received, link.signal), root),
    )
    try {
      return await withTimeout(clock, request.timeoutMs ?? responseMs, route, response)
    } finally {
      link.abort()
    }
  }

  async function* connect(route: string, request: AnyRequest, after: string | undefined): AsyncGenerator<ServerEvent> {
    const link = linkAbort(request.signal)
    const headers = { accept: 'text/event-stream', ...defined({ 'last-event-id': after }) }
    try {
      const response = await withTimeout(clock, responseMs, route, send(route, request, headers, link.signal))
      yield* readEvents(response.body, clock, link.signal)
    } finally {
      link.abort()
    }
  }

  async function* follow(route: string, request: AnyRequest & StreamOptions): AsyncGenerator<ServerEvent> {
    const { signal, onOutage } = request
    let { after } = request
    for (let failures = 0; !signal.aborted;) {
      try {
        for await (const event of connect(route, request, after)) {
          failures = 0
          after = event.id ?? after
          yield event
        }
      } catch (error) {
        if (signal.aborted) return
        if (!(error instanceof Retryable)) throw error
        if (failures === 0) onOutage?.(error)
      }
      failures += 1
      await clock.sleep(backoffMs({ backoff: reconnectBackoff }, failures), signal)
    }
  }

  return { url: root, project, ask: ask as Client['ask'], follow: follow as Client['follow'] }
}

const abortedRequest = (cause: unknown) => new Terminal('The request was aborted', { code: 'aborted', cause })

async function readText(response: Response, signal: AbortSignal): Promise<string> {
  const decoder = new TextDecoder()
  let [text, bytes] = ['', 0]
  try {
    for await (const chunk of response.body ?? []) {
      const piece = chunk as Uint8Array
      bytes += piece.length
      if (bytes > responseBytesMax)
        throw new Terminal(`The response is larger than ${responseBytesMax / 1024 / 1024} MiB`, {
          code: 'response_too_large',
          hint: 'limit the request with a path, a depth or a limit',
        })
      text += decoder.decode(piece, { stream: true })
    }
  } catch (error) {
    if (error instanceof Terminal) throw error
    if (signal.aborted) throw abortedRequest(error)
    throw new Retryable('The connection was lost during a response', { code: 'server_away', cause: error })
  }
  return text + decoder.decode()
}

function parse(text: string, url: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new Terminal(`The response of ${url} is not JSON`, {
      code: 'not_bellwether',
      cause: error,
      hint: 'check that this is the address of a Bellwether server',
    })
  }
}

async function problemOf(response: Response, url: string): Promise<Terminal | Retryable> {
  const { status } = response
  const problem = problemFields((await response.text()).slice(0, problemChars))
  const message = problem['detail'] ?? problem['title'] ?? `${url} responded with ${status}`
  const details = {
    code: problem['code'] ?? `http_${status}`,
    ...defined({ hint: problem['hint'] ?? hintFor(status) }),
  }
  if (status !== 429 && status < 500) return new Terminal(message, details)
  const afterSeconds = Number(response.headers.get('retry-after') ?? 0)
  return new Retryable(message, { ...details, ...(afterSeconds > 0 ? { afterMs: afterSeconds * 1_000 } : {}) })
}

function hintFor(status: number): string | undefined {
  if (status === 401)
    return 'the server does not know this key, or it was revoked: give --key KEY, or set BELLWETHER_KEY'
  if (status >= 300 && status < 400)
    return 'the server redirects, and the key is not sent elsewhere: give the final address'
  return undefined
}

/** The text fields of a problem; none if the body is not JSON, for example from a proxy. */
function problemFields(text: string): Readonly<Record<string, string>> {
  const fields = Object.entries(objectOf(parseJson(text)))
  return Object.fromEntries(fields.filter((pair): pair is [string, string] => typeof pair[1] === 'string'))
}

/** The URL of a server, without slashes at its end; rejects anything else. */
export function checkedUrl(url: string): string {
  if (/^https?:\/\/[^/]/.test(url) && URL.canParse(url)) return url.replace(/\/+$/, '')
  throw new InvalidInput(`${JSON.stringify(url)} is not the URL of a server`, {
    code: 'bad_server',
    hint: 'write it as http://host:port',
  })
}

function checkedKey(key: string): string {
  if (/^[\x21-\x7e]{1,500}$/.test(key)) return key
  throw new InvalidInput('The key contains characters that a key cannot have', {
    code: 'bad_key',
    hint: 'a key looks like bw_… and has no spaces or line breaks',
  })
}
