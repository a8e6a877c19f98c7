/**
 * A small server with the product's routes over fixture data: real HTTP, real streams, the product's headers. Tests
 * can make a route fail, hang or return nothing, cut the streams, and send events.
 */
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { home } from './build.js'
import { makeWorld, type World, type WorldOptions } from './world.js'

/** `odd`: JSON of an unexpected form. */
export type Mood = 'ok' | 'empty' | 'error' | 'hang' | 'odd'

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
  /** The requests received: method, path and body. */
  readonly posted: { readonly method: string; readonly path: string; readonly body: unknown }[]
  /** The positions from which streams resumed. */
  readonly resumedFrom: string[]
  emit(kind: string, payload: Readonly<Record<string, unknown>>): void
  cut(): void
  followers(): number
  close(): Promise<void>
}

export const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}

export async function openFixture({ agents = 24, hostile = false, key }: FixtureOptions = {}): Promise<Fixture> {
  const lines = new Set<ServerResponse>()
  const hanging = new Set<ServerResponse>()
  let sent = 0
  const server = createServer((request, response) => {
    void answer(request, response).catch((error: unknown) => response.destroy(error as Error))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  const fixture: Fixture = {
    url: `http://127.0.0.1:${port}`,
    world: makeWorld({ agents, hostile, nowMs: Date.now() }),
    key,
    mood: 'ok',
    streams: true,
    posted: [],
    resumedFrom: [],
    emit(kind, payload) {
      sent += 1
      const data = {
        event_id: sent,
        kind,
        payload,
        agent_turn_id: payload['agent_turn_id'] ?? null,
        created_at: new Date().toISOString(),
      }
      for (const line of lines) line.write(`id: 1:${sent}\nevent: ${kind}\ndata: ${JSON.stringify(data)}\n\n`)
    },
    cut() {
      for (const line of lines) line.destroy()
      lines.clear()
    },
    followers: () => lines.size,
    async close() {
      for (const one of [...lines, ...hanging]) one.destroy()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', fixture.url)
    if (url.pathname === '/login') return login(url, response)
    if (!url.pathname.startsWith('/api/v1/')) return page(url.pathname, response)
    if (!isKnown(request)) return problem(response, 401, 'unauthorized', 'this needs a key')
    const path = url.pathname.slice('/api/v1'.length)
    if (path.endsWith('/events')) return follow(path, request, response)
    let text = ''
    for await (const piece of request) text += String(piece)
    if (request.method !== 'GET') {
      // A form on another site cannot send this header.
      if (request.headers['x-requested-with'] === undefined)
        return problem(response, 403, 'forbidden', 'a header is missing')
      fixture.posted.push({ method: request.method ?? '', path, body: text === '' ? undefined : JSON.parse(text) })
    }
    const isPage = path !== '/me' && path !== '/projects'
    if (isPage && fixture.mood === 'hang') return void hanging.add(response)
    if (isPage && fixture.mood === 'error') return problem(response, 500, 'internal', 'something went wrong inside')
    if (isPage && fixture.mood === 'odd') return send(response, 200, {})
    const found = routes(path, url.searchParams)
    if (found === undefined) return problem(response, 404, 'not_found', `there is no ${path}`)
    send(response, 200, found)
  }

  function isKnown({ headers }: IncomingMessage): boolean {
    return (
      fixture.key === undefined ||
      headers['x-api-key'] === fixture.key ||
      (headers.cookie ?? '').includes('bw_session=once')
    )
  }

  function login(url: URL, response: ServerResponse): void {
    const isGood = url.searchParams.get('token') === 'once'
    response.writeHead(303, {
      location: '/',
      ...(isGood ? { 'set-cookie': 'bw_session=once; HttpOnly; SameSite=Strict; Path=/' } : {}),
    })
    response.end()
  }

  function follow(path: string, request: IncomingMessage, response: ServerResponse): void {
    if (!fixture.streams) return void request.socket.destroy()
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' })
    response.write(': hello\n\n')
    if (!path.startsWith('/projects/')) return
    lines.add(response)
    response.once('close', () => lines.delete(response))
    const last = request.headers['last-event-id']
    if (typeof last === 'string') fixture.resumedFrom.push(last)
    else response.write(`id: 1:${sent}\nevent: hello\ndata: {}\n\n`)
  }

  function routes(path: string, query: URLSearchParams): unknown {
    const { world } = fixture
    const isEmpty = fixture.mood === 'empty'
    const list = <T>(items: readonly T[]): readonly T[] => (isEmpty ? [] : items)
    const [, ofProject] = /^\/projects\/[^/]+(\/.*)$/.exec(path) ?? []
    if (path === '/logins') return { status: 'signed_out' }
    if (path === '/me') return { key_id: 'k', role: 'admin', name: 'test', project: null, view: null }
    if (path === '/projects') return { projects: [{ project_id: 'demo' }, { project_id: 'second' }] }
    if (ofProject === '/agents') return agentPage(list(world.agents), query)
    if (ofProject === '/workers') return { workers: list(workersNow()) }
    if (ofProject === '/turns') return turnPage(list(world.turns), query)
    if (ofProject === '/questions')
      return { questions: list(world.questions.filter((one) => !isAnswered(one.tool_call_id))) }
    const [, turn] = /^\/turns\/([^/]+)(?:\/stop)?$/.exec(ofProject ?? '') ?? []
    if (turn !== undefined) return world.detail(turn)
    const [, card] = /^\/cards\/(.+)$/.exec(ofProject ?? '') ?? []
    if (card !== undefined) return world.card(card)
    if (ofProject?.endsWith('/result') === true) return { status: 'accepted' }
    if (path === '/watchdog/interventions') {
      const kind = query.get('kind')
      return {
        interventions: list(world.interventions).filter((one) => kind === null || one.kind === kind),
        cursor: null,
      }
    }
    if (path === '/board/tasks') return taskPage(list(world.tasks), query)
    const [, task] = /^\/board\/tasks\/(.+)$/.exec(path) ?? []
    if (task !== undefined) return world.tasks.find((one) => one.taskId === decodeURIComponent(task))
    if (path === '/health/components')
      return isEmpty
        ? { summary: { status: 'ok', units: 0, restarts: 0, changes: 0 }, components: [] }
        : world.components
    return viewRoutes(path, query)
  }

  function viewRoutes(path: string, query: URLSearchParams): unknown {
    const { world } = fixture
    if (path === '/views')
      return { views: fixture.mood === 'empty' ? [] : [{ view_id: 'shared', ready: true, total_files: 5_007 }] }
    if (path === '/views/shared/stats') return statsNow()
    if (path === '/views/shared/sessions') return { sessions: sessionsNow() }
    if (path === '/views/shared/blind-spots') return world.blindSpots
    if (path === '/views/shared/tree') return world.folder(query.get('path') ?? '/')
    if (path !== '/views/shared/search') return undefined
    const words = (query.get('pattern') ?? '').replaceAll('*', '')
    const results = ['/', '/src', '/many']
      .flatMap((folder) => world.folder(folder).children ?? [])
      .filter(({ name }) => name.includes(words))
    return { results: results.slice(0, 500), count: Math.min(500, results.length), truncated: results.length > 500 }
  }

  const isAnswered = (call: string) => fixture.posted.some(({ path }) => path.includes(`/tool-calls/${call}/`))
  return fixture
}

const workersNow = () => {
  const worker = (worker_id: string, worker_target: string, concurrency: number, free: number, silentMs = 0) => ({
    worker_id,
    worker_target,
    started_at: new Date(Date.now() - 4_000_000).toISOString(),
    last_claim_at: null,
    seen_at: new Date(Date.now() - silentMs).toISOString(),
    concurrency,
    free,
  })
  return [
    worker('worker-7f3a', 'default', 16, 9),
    worker('worker-91bc', 'coding', 4, 0),
    worker('worker-dead', 'gpu', 4, 4, 400_000),
  ]
}

const statsNow = () => {
  const seconds = Date.now() / 1_000
  const stats = {
    item_count: 5_012,
    total_files: 5_007,
    total_directories: 5,
    total_size: 81_234_567,
    staleness_seconds: 3.2,
    has_blind_spot: true,
    suspect_file_count: 2,
    tombstone_count: 4,
    logical_now: seconds,
    last_audit_finished_at: seconds - 3_000,
    audit_cycle_count: 12,
    is_auditing: false,
    ready: true,
    full: false,
  }
  return { ...stats, sources: { main: stats }, sessions: 2 }
}

const sessionsNow = () => [
  {
    session_id: 's1',
    agent_id: 'host-a',
    source_id: 'main',
    source_uri: 'file://host-a/mnt/data',
    role: 'leader',
    can_realtime: true,
    silent_seconds: 0.8,
  },
  {
    session_id: 's2',
    agent_id: 'host-b',
    source_id: 'main',
    source_uri: 'file://host-b/mnt/data',
    role: 'follower',
    can_realtime: true,
    silent_seconds: 7,
  },
]

function agentPage(agents: readonly { readonly agent_id: string }[], query: URLSearchParams) {
  const from = Number(query.get('cursor') ?? '0') || 0
  const limit = Number(query.get('limit') ?? '100')
  const page = agents.slice(from, from + limit)
  return { agents: page, cursor: from + limit < agents.length ? String(from + limit) : null }
}

function turnPage(turns: readonly World['turns'][number][], query: URLSearchParams) {
  const [status, agent, cursor] = [query.get('status'), query.get('agent'), Number(query.get('cursor') ?? '0')]
  const fitting = turns.filter(
    (turn) => (status === null || turn.status === status) && (agent === null || turn.agent_id === agent),
  )
  const page = fitting.slice(cursor, cursor + 100)
  return { turns: page, cursor: cursor + 100 < fitting.length ? String(cursor + 100) : null }
}

function taskPage(tasks: readonly World['tasks'][number][], query: URLSearchParams) {
  const status = query.get('status')
  const chosen = tasks.filter((task) => (status === null ? task.status !== 'done' : task.status === status))
  const choice = {
    taskId: 'T-1',
    assignee: 'coder',
    because: 'it has the highest priority of 2 that are ready',
    others: [],
    ready: 2,
  }
  return {
    tasks: chosen,
    total: chosen.length,
    cursor: null,
    ...(status === null && chosen.length > 0 ? { choice } : {}),
  }
}

function page(path: string, response: ServerResponse): void {
  const isFile = /^\/(?:assets\/[\w.-]+|bell\.svg)$/.test(path)
  const name = isFile ? path : '/index.html'
  response.writeHead(200, {
    'content-type': types[extname(name)] ?? 'application/octet-stream',
    'content-security-policy': policy,
    'x-content-type-options': 'nosniff',
  })
  response.end(readFileSync(join(home, 'dist', name)))
}

function problem(response: ServerResponse, status: number, code: string, detail: string): void {
  send(
    response,
    status,
    {
      type: `urn:bellwether:problem:${code}`,
      title: code,
      status,
      code,
      detail,
      hint: 'look at the log of the server',
    },
    'application/problem+json',
  )
}

function send(response: ServerResponse, status: number, body: unknown, type = 'application/json; charset=utf-8'): void {
  response.writeHead(status, { 'content-type': type })
  response.end(JSON.stringify(body))
}
