/**
 * The HTTP server in this process on a fresh real database, with an in-process bell and a key of every role. `request` checks every
 * response against the contract. `close` closes everything that it opened.
 */
import { setMaxListeners } from 'node:events'
import { Agent } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemRandom } from '@bellwether/base'
import type { FastifyRequest } from 'fastify'
import { afterAll, beforeAll } from 'vitest'
import { keyRoles, type KeyRole } from '@bellwether/protocol'
import { openKeyStore, type KeyStore } from '../../src/http/key-store.js'
import { openBrowserSessions } from '../../src/http/sign-in/browser-sessions.js'
import { openClaims } from '../../src/http/remote/claims.js'
import { openRemoteWatch, type RemoteWatch } from '../../src/http/remote/watch.js'
import { makeServer, type Server, type ServerOptions } from '../../src/http/server.js'
import { openTail, type Tail } from '../../src/http/tail.js'
import { createKey, type NewKey } from '../../src/kernel/access/api-keys.js'
import { openKernel, type Kernel } from '../../src/kernel/kernel.js'
import { inProcessBell } from '../../src/ports/bell/in-process.js'
import { openFusion, type Fusion } from '../../src/view/fusion.js'
import { project, target, testKernel, type TestKernel } from '../support/kernel.js'
import { sendRequest, type TestResponse } from '../support/servers/http.js'
import { recordedLog, type LogLine } from '../support/recorded-log.js'
import { silentBell } from '../support/silent-bell.js'
import { settings as viewDefaults } from '../view/pipe-client.js'
import { checkResponse } from './contract.js'

export type Response = TestResponse<Body>

/** The response fields that tests read. */
export interface Body {
  readonly [field: string]: unknown
  readonly agent_turn_id?: string
  readonly status?: unknown
  readonly code?: string
  readonly cursor?: string | number | null
  readonly turns?: readonly Body[]
  readonly turn_epoch?: number | undefined
  readonly lease_token?: string | undefined
}

interface RequestOptions {
  readonly key?: string | null
  readonly headers?: Readonly<Record<string, string>>
}

export interface TestServer {
  readonly t: TestKernel
  readonly url: string
  readonly kernel: Kernel
  readonly http: Server
  readonly keys: Readonly<Record<KeyRole, string>>
  readonly store: KeyStore
  readonly tail: Tail
  readonly watch: RemoteWatch
  readonly fusion: Fusion
  readonly lines: LogLine[]
  request(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Response>
  get(path: string, options?: RequestOptions): Promise<Response>
  post(path: string, body?: unknown, options?: RequestOptions): Promise<Response>
  /** Creates a key, optionally limited to a view, a project or worker targets. */
  key(role: KeyRole, limits?: KeyLimits): Promise<string>
  /** How many requests for a route of the contract were admitted and wait for their response. */
  waiting(route: string): number
  stop(): void
  close(): Promise<void>
}

type KeyLimits = Pick<NewKey, 'view' | 'project' | 'targets'>

export const view = 'v'

/** What a test gets to build a part of the server of its own. */
export interface PartContext {
  readonly t: TestKernel
  readonly kernel: Kernel
  readonly signal: AbortSignal
  /** Registers what `close` calls. */
  readonly atEnd: (close: () => Promise<void>) => void
}

type Changes = Partial<ServerOptions>

/** A server for all tests of a file. Its members exist from the first `beforeAll` hook on. */
export function serverPerFile(changes?: Parameters<typeof openTestServer>[0]): TestServer {
  const server = {} as TestServer
  beforeAll(async () => void Object.assign(server, await openTestServer(changes)))
  afterAll(() => server.close())
  return server
}

export async function openTestServer(
  changes: Changes | ((world: PartContext) => Promise<Changes>) = {},
): Promise<TestServer> {
  const t = await testKernel({ time: 'real' })
  const ends: (() => Promise<void>)[] = []
  const bell = inProcessBell(silentBell, systemRandom)
  const kernel = openKernel({ db: t.db, bell, ids: t.ids })
  const { log, lines } = recordedLog()
  const stop = new AbortController()
  setMaxListeners(0, stop.signal)
  const { clock, db } = t
  const store = openKeyStore({ db, clock, log, onlyView: view })
  const tail = openTail({ db, clock, log, pollMs: 20 })
  const watch = openRemoteWatch({
    kernel,
    clock,
    log,
    settings: { watchdogIntervalSeconds: 5, inboxProcessingTimeoutSeconds: 30, maxDeaths: 3 },
    onFreed: () => claims.wakeAll(),
  })
  const claims = openClaims({
    kernel,
    bell,
    clock,
    log,
    random: systemRandom,
    watch,
    // Longer than any wait: only a ring wakes a waiting claim.
    settings: { pollSeconds: 3_600, resumeLeaseSeconds: 30, suspendTimeoutSeconds: 30 },
    onHandled: () => tail.wake(),
  })
  const fusion = openFusion({ views: { [view]: viewDefaults }, clock, ids: t.ids, random: systemRandom, log })
  const http = makeServer({
    kernel,
    bell,
    tail,
    clock,
    log,
    signal: stop.signal,
    claims,
    keys: store,
    browserSessions: openBrowserSessions({ clock, random: systemRandom }),
    random: systemRandom,
    fusion,
    isPublic: false,
    workerSettings: {
      beatSeconds: 5,
      inboxProcessingTimeoutSeconds: 30,
      suspendTimeoutSeconds: 30,
      transcriptMaxBytes: 65_536,
    },
    ...(typeof changes === 'function'
      ? await changes({ t, kernel, signal: stop.signal, atEnd: (close) => void ends.push(close) })
      : changes),
  })
  const ports = { ids: t.ids, random: systemRandom }
  const key: TestServer['key'] = async (role, limits = {}) => {
    const made = await createKey(db, ports, { role, by: 'test', ...limits })
    await store.refresh()
    return made.key
  }
  const keys = Object.fromEntries(
    await Promise.all(
      keyRoles.map(async (role) => [role, await key(role, role === 'sensor' ? { view } : {})] as const),
    ),
  ) as Record<KeyRole, string>
  await store.refresh()
  const admitted = new Map<string, number>()
  const count = ({ routeOptions: { url: route = '' } }: FastifyRequest, change: number) =>
    void admitted.set(route, (admitted.get(route) ?? 0) + change)
  http.app.addHook('preHandler', async (request) => count(request, 1))
  http.app.addHook('onResponse', async (request) => count(request, -1))
  await http.app.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(http.app.server.address() as AddressInfo).port}`
  const loops = Promise.all([tail.run(stop.signal), store.run(stop.signal)])
  const agent = new Agent({ keepAlive: true })
  const send: TestServer['request'] = async (method, path, body, options = {}) => {
    const { key: apiKey = keys.admin, headers = {} } = options
    const base = /^\/(api|healthz|readyz|metrics|openapi|login(?!s))/.test(path) ? url : `${url}/api/v1`
    const ofKey = apiKey === null ? {} : { 'x-api-key': apiKey }
    const response = await sendRequest<Body>(`${base}${path}`, method, body, agent, { ...ofKey, ...headers })
    const type = String(response.headers['content-type'])
    if (method !== 'HEAD') checkResponse({ method, url: `${base}${path}`, type, ...response })
    return response
  }
  return {
    t,
    url,
    kernel,
    http,
    keys,
    store,
    tail,
    watch,
    fusion,
    lines,
    request: send,
    get: (path, options) => send('GET', path, undefined, options),
    post: (path, body, options) => send('POST', path, body ?? {}, options),
    key,
    waiting: (route) => admitted.get(`/api/v1${route}`) ?? 0,
    stop: () => stop.abort(),
    async close() {
      stop.abort()
      await loops
      fusion.close()
      agent.destroy()
      await http.app.close()
      await claims.close()
      for (const end of ends) await end()
      await t.drop()
    },
  }
}

/** Adds an agent of the default project and target. */
export const addAgent = (server: TestServer, agentId: string, more: object = {}) =>
  server.request('PUT', `/projects/${project}/agents/${agentId}`, { worker_target: target, ...more })

export const addTurn = async (
  server: TestServer,
  agentId: string,
  body: object = { instruction: 'do it' },
): Promise<string> => (await server.post(`/projects/${project}/agents/${agentId}/turns`, body)).body.agent_turn_id!

export interface BrowserTab {
  readonly status: number
  /** The Set-Cookie header; empty if the link was refused. */
  readonly set: string
  readonly cookie: string
  /** What the page sends with each request. */
  readonly headers: Readonly<Record<string, string>>
}

/** Opens a one-time link as the page does. */
export async function openLink(
  server: TestServer,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<BrowserTab> {
  const token = path.split('#token=')[1] ?? path
  const response = await server.post('/login', { token }, { key: null, headers })
  const [set = ''] = (response.headers['set-cookie'] ?? []) as string[]
  const cookie = set.split(';')[0]!
  const { secret = '' } = response.body as { readonly secret?: string }
  return { status: response.status, set, cookie, headers: { cookie, 'x-bellwether-session': secret } }
}
