/**
 * The whole server over real HTTP on a fresh real database, in this process, with a bell that rings here and keys of every role.
 * Everything it opens is closed by `close`.
 */
import { setMaxListeners } from 'node:events'
import { Agent, request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemRandom } from '@bellwether/base'
import { keyRoles, type KeyRole } from '@bellwether/protocol'
import { openKeyStore, type KeyStore } from '../../src/http/key-store.js'
import { openBrowserSessions } from '../../src/http/browser-sessions.js'
import { openClaims } from '../../src/http/remote/claims.js'
import { openRemoteWatch, type RemoteWatch } from '../../src/http/remote/watch.js'
import { makeServer, type Server, type ServerOptions } from '../../src/http/server.js'
import { openTail, type Tail } from '../../src/http/tail.js'
import { createKey } from '../../src/kernel/access/api-keys.js'
import { openKernel, type Kernel } from '../../src/kernel/kernel.js'
import type { Bell } from '../../src/ports/bell/bell.js'
import { inProcessBell } from '../../src/ports/bell/in-process.js'
import { openFusion, type Fusion } from '../../src/view/fusion.js'
import { project, target, testKernel, type TestKernel } from '../support/kernel.js'
import { settings as viewDefaults } from '../view/pipe-client.js'
import { checkAnswer } from './contract.js'

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** What tests look at in answers. */
  readonly body: Body
}

export interface Body {
  readonly [field: string]: unknown
  readonly agent_turn_id?: string
  readonly status?: unknown
  readonly code?: string
  readonly cursor?: string | number | null
  readonly turns?: readonly Body[]
  readonly turn_epoch?: number
}

export interface Ask {
  readonly key?: string | null
  readonly headers?: Readonly<Record<string, string>>
}

export interface LogLine {
  readonly level: string
  readonly fields: Record<string, unknown>
  readonly message: string
}

export interface Door {
  readonly t: TestKernel
  readonly url: string
  readonly kernel: Kernel
  readonly server: Server
  readonly keys: Readonly<Record<KeyRole, string>>
  readonly store: KeyStore
  readonly tail: Tail
  readonly watch: RemoteWatch
  readonly fusion: Fusion
  readonly lines: LogLine[]
  ask(method: string, path: string, body?: unknown, options?: Ask): Promise<Answer>
  get(path: string, options?: Ask): Promise<Answer>
  post(path: string, body?: unknown, options?: Ask): Promise<Answer>
  /** A key with limits. */
  key(role: KeyRole, limits?: { readonly view?: string; readonly project?: string }): Promise<string>
  stop(): void
  close(): Promise<void>
}

const deaf: Bell = {
  kind: 'notify',
  ring: async () => undefined,
  listen: async () => ({ stop: async () => undefined }),
  close: async () => undefined,
}

export const view = 'v'

/** What a part of the server is made of, when a test brings one of its own. */
export interface DoorWorld {
  readonly t: TestKernel
  readonly kernel: Kernel
  readonly signal: AbortSignal
  /** Called when the door is closed. */
  readonly atEnd: (close: () => Promise<void>) => void
}

type Changes = Partial<ServerOptions>

export async function openDoor(changes: Changes | ((world: DoorWorld) => Promise<Changes>) = {}): Promise<Door> {
  const t = await testKernel()
  const ends: (() => Promise<void>)[] = []
  const bell = inProcessBell(deaf, systemRandom)
  const kernel = openKernel({ db: t.db, bell, ids: t.ids })
  const lines: LogLine[] = []
  const write = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, fields: fields as Record<string, unknown>, message })
  const log = { info: write('info'), warn: write('warn'), error: write('error') }
  const stop = new AbortController()
  setMaxListeners(0, stop.signal)
  const { clock, db } = t
  const store = openKeyStore({ db, clock, log, onlyView: view })
  const tail = openTail({ db, clock, log, pollMs: 20 })
  const watch = openRemoteWatch({
    kernel,
    clock,
    log,
    settings: { watchdogIntervalSeconds: 5, inboxProcessingTimeoutSeconds: 30, maxAttempts: 3 },
    onFreed: () => claims.wakeAll(),
  })
  const claims = openClaims({
    kernel,
    bell,
    clock,
    log,
    watch,
    settings: { pollSeconds: 5, resumeLeaseSeconds: 30 },
    onEnded: () => tail.wake(),
  })
  const fusion = openFusion({ views: { [view]: viewDefaults }, clock, ids: t.ids, random: systemRandom, log })
  const server = makeServer({
    kernel,
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
    workerSettings: { beatSeconds: 5, inboxProcessingTimeoutSeconds: 30, suspendTimeoutSeconds: 30 },
    ...(typeof changes === 'function'
      ? await changes({ t, kernel, signal: stop.signal, atEnd: (close) => void ends.push(close) })
      : changes),
  })
  const ports = { ids: t.ids, random: systemRandom }
  const key: Door['key'] = async (role, limits = {}) => {
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
  await server.app.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(server.app.server.address() as AddressInfo).port}`
  const loops = Promise.all([tail.run(stop.signal), store.run(stop.signal)])
  const agent = new Agent({ keepAlive: true })
  const ask: Door['ask'] = (method, path, body, options = {}) => {
    const { key: with_ = keys.admin, headers = {} } = options
    return send(
      `${url}${/^\/(api|healthz|readyz|metrics|openapi|login\?)/.test(path) ? '' : '/api/v1'}${path}`,
      method,
      body,
      agent,
      {
        ...(with_ === null ? {} : { 'x-api-key': with_ }),
        ...headers,
      },
    )
  }
  return {
    t,
    url,
    kernel,
    server,
    keys,
    store,
    tail,
    watch,
    fusion,
    lines,
    ask,
    get: (path, options) => ask('GET', path, undefined, options),
    post: (path, body, options) => ask('POST', path, body ?? {}, options),
    key,
    stop: () => stop.abort(),
    async close() {
      stop.abort()
      await loops
      fusion.close()
      agent.destroy()
      await server.app.close()
      await claims.close()
      for (const end of ends) await end()
      await t.drop()
    },
  }
}

/** An agent of the usual project and target. */
export const addAgent = (door: Door, agentId: string, more: object = {}) =>
  door.ask('PUT', `/projects/${project}/agents/${agentId}`, { worker_target: target, ...more })

export const addTurn = async (door: Door, agentId: string, body: object = { instruction: 'do it' }): Promise<string> =>
  (await door.post(`/projects/${project}/agents/${agentId}/turns`, body)).body.agent_turn_id!

async function send(
  url: string,
  method: string,
  body: unknown,
  agent: Agent,
  headers: Record<string, string>,
): Promise<Answer> {
  const bytes = body === undefined ? undefined : Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body))
  const length =
    bytes === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(bytes.length) }
  const response = await new Promise<IncomingMessage>((resolve, reject) =>
    request(url, { method, agent, headers: { ...length, ...headers } }, resolve)
      .on('error', reject)
      .end(bytes),
  )
  const pieces: Buffer[] = []
  for await (const piece of response) pieces.push(piece as Buffer)
  const text = Buffer.concat(pieces).toString()
  const type = String(response.headers['content-type'])
  const answer = {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text,
    body: (type.includes('json') && text !== '' ? JSON.parse(text) : {}) as Body,
  }
  if (method !== 'HEAD') checkAnswer({ method, url, type, ...answer })
  return answer
}
