/**
 * A small server with the product's routes over fixture data: real HTTP, real streams, the product's headers. Tests
 * can make a route fail, hang or return nothing, cut the streams, and send events.
 */
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { transcriptText } from '@bellwether/protocol'
import { problem as problemBody, problemType, routes } from '@bellwether/protocol/http'
import type { TranscriptEntry } from '../../src/api/types.js'
import { home } from './build.js'
import { answerTo } from './routes.js'
import { entryOf } from './transcript-data.js'
import { makeWorld, type World, type WorldOptions } from './world.js'

/** `odd`: JSON of an unexpected form. */
type Mood = 'ok' | 'empty' | 'error' | 'rejected' | 'hang' | 'odd'

export interface FixtureOptions extends Partial<Omit<WorldOptions, 'nowMs'>> {
  readonly key?: string
}

export interface Fixture {
  readonly url: string
  world: World
  /** The accepted key; undefined accepts every request. */
  key: string | undefined
  /** How routes respond; streams are not affected. */
  mood: Mood
  /** False cuts and rejects streams. */
  streams: boolean
  /** False: answers have no time, so that the page shows that of its own clock. */
  hasDate: boolean
  /** The requests received: method, path and body. */
  readonly posted: { readonly method: string; readonly path: string; readonly body: unknown }[]
  /** The positions from which streams resumed. */
  readonly resumedFrom: string[]
  emit(kind: 'task' | 'state' | 'step', payload: Readonly<Record<string, unknown>>): void
  /** Adds entries to the transcript of every turn and sends them to its readers. */
  say(contents: readonly string[]): void
  /** Ends the streams of transcripts, as the end of the turn does. */
  endTranscript(): void
  cut(): void
  /** Ends requests that hang. */
  release(): void
  /** Starts again with new data: for tests that share one server. */
  reset(options: FixtureOptions): void
  /** Fails if a request or an answer broke the HTTP contract. */
  close(): Promise<void>
}

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

const { events } = routes['GET /projects/:project/events']
const { events: transcriptEvents } = routes['GET /projects/:project/turns/:turn/transcript/events']

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}

const worldOf = ({ agents = 24, hostile = false }: FixtureOptions) => makeWorld({ agents, hostile, nowMs: Date.now() })

export async function openFixture(options: FixtureOptions = {}): Promise<Fixture> {
  const lines = new Set<ServerResponse>()
  const transcripts = new Set<ServerResponse>()
  const hanging = new Set<ServerResponse>()
  const breaches: unknown[] = []
  let sent = 0
  const server = createServer((request, response) => {
    void answer(request, response).catch((error: unknown) => {
      breaches.push(error)
      response.destroy()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  const fixture: Fixture = {
    url: `http://127.0.0.1:${port}`,
    world: worldOf(options),
    key: options.key,
    mood: 'ok',
    streams: true,
    hasDate: true,
    posted: [],
    resumedFrom: [],
    emit(kind, payload) {
      sent += 1
      const data = events[kind].parse({
        event_id: sent,
        subject: `evt.${kind}`,
        kind,
        payload,
        agent_turn_id: payload['agent_turn_id'] ?? null,
        created_at: new Date().toISOString(),
      })
      for (const line of lines) line.write(`id: 1:${sent}\nevent: ${kind}\ndata: ${JSON.stringify(data)}\n\n`)
    },
    say(contents) {
      const { transcript } = fixture.world
      for (const content of contents) {
        const entry = entryOf({ seq: (transcript.at(-1)?.seq ?? 0) + 1, turn_epoch: 4, content })
        transcript.push(entry)
        for (const line of transcripts) line.write(entryEvent(entry))
      }
    },
    endTranscript() {
      const data = { agent_turn_id: 't', outcome: 'success', ended_at: new Date().toISOString() }
      const id = fixture.world.transcript.at(-1)?.seq ?? 0
      for (const line of transcripts)
        line.end(`id: ${id}\nevent: end\ndata: ${JSON.stringify(transcriptEvents.end.parse(data))}\n\n`)
    },
    cut() {
      for (const line of [...lines, ...transcripts]) line.destroy()
      lines.clear()
      transcripts.clear()
    },
    release() {
      for (const one of hanging) one.destroy()
      hanging.clear()
    },
    reset(next) {
      fixture.release()
      fixture.cut()
      Object.assign(fixture, { world: worldOf(next), key: next.key, mood: 'ok', streams: true, hasDate: true })
      fixture.posted.length = 0
      fixture.resumedFrom.length = 0
    },
    async close() {
      for (const one of [...lines, ...transcripts, ...hanging]) one.destroy()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      if (breaches.length > 0) throw new AggregateError(breaches, 'Requests or answers broke the HTTP contract')
    },
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.sendDate = fixture.hasDate
    const url = new URL(request.url ?? '/', fixture.url)
    if (url.pathname === '/login' && request.method === 'POST') return login(request, response)
    if (url.pathname === '/login/provider') return send(response, 200, { provider: null })
    if (!url.pathname.startsWith('/api/v1/')) return page(url.pathname, response)
    if (!isKnown(request)) return problem(response, 401, 'unauthorized', 'this needs a key')
    const path = url.pathname.slice('/api/v1'.length)
    if (path.endsWith('/events')) return follow(path, request, response)
    let text = ''
    for await (const piece of request) text += String(piece)
    const { method = '' } = request
    const body: unknown = text === '' ? undefined : JSON.parse(text)
    if (method !== 'GET') {
      // A form on another site cannot send this header.
      if (request.headers['x-requested-with'] === undefined)
        return problem(response, 403, 'forbidden', 'a header is missing')
      fixture.posted.push({ method, path, body })
    }
    const isPage = path !== '/me' && path !== '/projects'
    if (isPage && fixture.mood === 'hang') return void hanging.add(response)
    if (isPage && fixture.mood === 'error') return problem(response, 500, 'internal', 'something went wrong inside')
    if (isPage && fixture.mood === 'rejected') return problem(response, 409, 'conflict', 'something went wrong inside')
    if (isPage && fixture.mood === 'odd') return send(response, 200, {})
    if (path.endsWith('/transcript/text')) return sendText(response, fixture.world.transcript)
    const scene = { world: fixture.world, isEmpty: fixture.mood === 'empty', isAnswered }
    const found = answerTo(scene, method, url, path, body)
    if (found === undefined) return problem(response, 404, 'not_found', `${path} does not exist`)
    send(response, found.status, found.body)
  }

  function isKnown({ headers }: IncomingMessage): boolean {
    return (
      fixture.key === undefined ||
      headers['x-api-key'] === fixture.key ||
      ((headers.cookie ?? '').includes('bw_session=once') && headers['x-bellwether-session'] === 'page-secret')
    )
  }

  async function login(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = ''
    for await (const piece of request) text += String(piece)
    const { token } = routes['POST /login'].body.parse(JSON.parse(text))
    if (token !== 'once') return problem(response, 401, 'unauthorized', 'the link was used')
    response.setHeader('set-cookie', 'bw_session=once; HttpOnly; SameSite=Strict; Path=/')
    send(response, 200, { secret: 'page-secret', expires_in_seconds: 43_200 })
  }

  function follow(path: string, request: IncomingMessage, response: ServerResponse): void {
    if (!fixture.streams) return void request.socket.destroy()
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' })
    response.write(': hello\n\n')
    if (!path.startsWith('/projects/')) return
    if (path.endsWith('/transcript/events')) return followTranscript(request, response)
    lines.add(response)
    response.once('close', () => lines.delete(response))
    const last = request.headers['last-event-id']
    if (typeof last === 'string') fixture.resumedFrom.push(last)
    else
      response.write(
        `id: 1:${sent}\nevent: hello\ndata: ${JSON.stringify(events.hello.parse({ cursor: `1:${sent}` }))}\n\n`,
      )
  }

  function followTranscript(request: IncomingMessage, response: ServerResponse): void {
    const query = new URL(request.url ?? '/', fixture.url).searchParams
    const after = Number(request.headers['last-event-id'] ?? query.get('after') ?? 0)
    for (const entry of fixture.world.transcript) if (entry.seq > after) response.write(entryEvent(entry))
    transcripts.add(response)
    response.once('close', () => transcripts.delete(response))
  }

  const isAnswered = (call: string) =>
    fixture.posted.some(({ path }) => /\/(?:tool-calls|approvals)\//.test(path) && path.includes(`/${call}/`))
  return fixture
}

function page(path: string, response: ServerResponse): void {
  const isFile = /^\/(?:assets\/[\w.-]+|bell\.svg)$/.test(path)
  const name = isFile ? path : '/index.html'
  response.writeHead(200, {
    'content-type': types[extname(name)] ?? 'application/octet-stream',
    'cache-control': isFile ? 'max-age=31536000, immutable' : 'no-cache',
    'content-security-policy': policy,
    'x-content-type-options': 'nosniff',
  })
  response.end(readFileSync(join(home, 'dist', name)))
}

const entryEvent = (entry: TranscriptEntry) =>
  `id: ${entry.seq}\nevent: entry\ndata: ${JSON.stringify(transcriptEvents.entry.parse(entry))}\n\n`

function sendText(response: ServerResponse, entries: readonly TranscriptEntry[]): void {
  const text = transcriptText()
  response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' })
  response.end(text.add(entries) + text.end())
}

function problem(response: ServerResponse, status: number, code: string, detail: string): void {
  const type = `urn:bellwether:problem:${code}`
  const hint = 'look at the log of the server'
  send(response, status, problemBody.parse({ type, title: code, status, code, detail, hint }), problemType)
}

function send(response: ServerResponse, status: number, body: unknown, type = 'application/json; charset=utf-8'): void {
  response.writeHead(status, { 'content-type': type })
  response.end(JSON.stringify(body))
}
