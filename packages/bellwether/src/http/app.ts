/**
 * The HTTP server without routes: limits, admission and problems. Every API request is admitted before its body is read,
 * however its URL is spelled; every body, header, connection and silence has a limit; an error never stops the server.
 * `makeApp` serves views only; server.ts serves everything.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { isIP, type Socket } from 'node:net'
import type { Log } from '@bellwether/base'
import { apiBase, Terminal } from '@bellwether/protocol'
import { bodyBytes, problemType, type Problem } from '@bellwether/protocol/http'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Fusion } from '../view/fusion.js'
import { apiOf } from './api.js'
import { authorize, mustReach, type Grant, type Keys } from './auth.js'
import { readJson, valuesMax } from './body.js'
import { problemOf, retryAfter } from './problem.js'
import { parseQuery } from './query.js'
import { clientAt } from './rate-limit.js'
import { healthRoutes } from './routes/health.js'
import { pipeRoutes } from './routes/pipe.js'
import { viewRoutes } from './routes/views.js'

export interface AppOptions {
  readonly fusion: Fusion
  readonly keys: Keys
  readonly log: Log
  /** Ends long polls and streams when the server stops. */
  readonly signal: AbortSignal
  readonly limits?: Partial<ServerLimits> | undefined
}

export interface BareOptions extends Pick<AppOptions, 'log' | 'limits'>, NetworkOptions {
  /** Runs for each API request before its body is read; sets the grant or throws. */
  readonly admit: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  /** Runs for each other request: pages, health, sign-in, unknown paths. */
  readonly admitOutside?: (request: FastifyRequest) => void
}

/** How clients reach the server. */
export interface NetworkOptions {
  /** The certificate chain and its key, in PEM; absent: plain HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string } | undefined
  /** Addresses and networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` count. */
  readonly trustedProxies?: readonly string[] | undefined
}

export interface ServerLimits {
  /** Time for headers and body: a client that sends slowly on purpose is disconnected. */
  readonly requestMs: number
  /** A silent connection is closed; longer than any allowed wait. */
  readonly silenceMs: number
  readonly connections: number
  /** One address cannot use up all connections. */
  readonly connectionsPerAddress: number
  /** Connections that only this machine can use: its workers, commands and health checks. */
  readonly connectionsLocal: number
  /** Requests that a connection may send before it has read the responses. */
  readonly pipelined: number
}

export const serverLimits: ServerLimits = {
  requestMs: 15_000,
  silenceMs: 60_000,
  connections: 4_096,
  connectionsPerAddress: 1_024,
  connectionsLocal: 256,
  // Browsers and our clients send one at a time. Node handles all requests of 64 KiB before it looks at another connection.
  pipelined: 16,
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set for every request under /api/v1 before its handler runs. */
    grant: Grant
    /** The code of the problem that was sent. */
    refusal: string | null
  }
}

/** A server of views only. */
export function makeApp(options: AppOptions): FastifyInstance {
  const app = bareApp({
    ...options,
    admit: async (request) => {
      request.grant = await authorize(options.keys, request.headers)
      const { view } = request.params as { readonly view?: string }
      if (view !== undefined) mustReach(request.grant, view)
    },
  })
  const api = apiOf(app)
  healthRoutes(api, options)
  pipeRoutes(api, options)
  viewRoutes(api, options)
  return app
}

export function bareApp(options: BareOptions): FastifyInstance {
  const { log } = options
  const limits = { ...serverLimits, ...options.limits }
  const connections = {
    headersTimeout: limits.requestMs,
    connectionsCheckingInterval: Math.min(5_000, limits.requestMs),
    maxHeaderSize: 16_384,
  }
  const proxies = options.trustedProxies ?? []
  // The type of the app does not depend on TLS: handlers see the same requests.
  const transport = (
    options.tls === undefined
      ? { http: connections }
      : { https: { ...options.tls, ...connections, minVersion: 'TLSv1.2', handshakeTimeout: limits.requestMs } }
  ) as { http: typeof connections }
  const app = fastify({
    ...transport,
    trustProxy: proxies.length === 0 ? false : [...proxies],
    logger: false,
    bodyLimit: bodyBytes.small,
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    requestTimeout: limits.requestMs,
    connectionTimeout: limits.silenceMs,
    // Sensors keep their connection between heartbeats; proxies close it after 60 s.
    keepAliveTimeout: 65_000,
    forceCloseConnections: true,
    // URLs that cannot be decoded, and parameters that are too long, fail before any hook, and get a problem too.
    frameworkErrors: (error, request, reply) => {
      void sendError(reply as unknown as FastifyReply, refusalOf(request as unknown as FastifyRequest) ?? error)
    },
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 512, querystringParser: parseQuery },
  })
  limitConnections(app, limits)
  limitPipelining(app, limits)
  if (proxies.length > 0)
    app.server.prependListener('request', ({ headers }: IncomingMessage) => checkForwarded(headers))
  /** Why a request is refused that fails before any hook: it counts like every other one. */
  function refusalOf(request: FastifyRequest): unknown {
    try {
      options.admitOutside?.(request)
      return undefined
    } catch (error) {
      return error
    }
  }

  app.decorateRequest('grant')
  app.decorateRequest('refusal', null)
  app.decorateRequest('actor', null)
  app.decorateRequest('auditedChanges', null)
  app.removeAllContentTypeParsers()
  // Every body is parsed as JSON, whatever its content type; an empty body counts as absent.
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async (request: FastifyRequest, body: Buffer) => {
    const encoding = request.headers['content-encoding']
    const { bodyLimit: bytesMax, url = '' } = request.routeOptions
    // Rows of sensors have many values and a reader of their own.
    const isPipe = url.startsWith(`${apiBase}/pipe/`)
    return readJson(body, { encoding, bytesMax, valuesMax: isPipe ? undefined : valuesMax })
  })
  app.addHook('onSend', async (request, reply) => {
    makeSafe(reply)
    if (request.protocol === 'https') void reply.header('strict-transport-security', `max-age=${hstsSeconds}`)
  })
  // Checks the matched route, not the URL: the router also accepts `/%61pi/…` and `http://host/api/…`.
  app.addHook('onRequest', async (request, reply) => {
    const route = request.routeOptions.url
    if (route === undefined ? request.url.startsWith(apiBase) : route.startsWith(apiBase))
      await options.admit(request, reply)
    else options.admitOutside?.(request)
  })
  app.setNotFoundHandler(async (request) => {
    throw new Terminal(`${request.method} ${request.url.split('?')[0]!.slice(0, 200)} does not exist`, {
      code: 'not_found',
    })
  })
  app.setErrorHandler((error, request, reply) => {
    const problem = problemOf(error)
    request.refusal = problem.code
    if (problem.status >= 500 && problem.code === 'internal')
      log.error({ err: error, method: request.method, path: request.routeOptions.url }, 'request failed')
    if (problem.status === 401) void reply.header('www-authenticate', 'Bearer')
    // The body was not read to its end, so the connection cannot be reused.
    if (problem.status === 413 || problem.status === 415) void reply.header('connection', 'close')
    return sendError(reply, error)
  })
  return app
}

/** No route has a schema of Fastify. Without this, Fastify loads two libraries for them, of 130 files. */
const noSchemas = () => {
  throw new Error('Routes are validated by the contract in @bellwether/protocol')
}

// A year: a browser that used TLS once does not accept plain HTTP from this host.
const hstsSeconds = 31_536_000

/** A browser must not display, frame, sniff or store responses of the API. */
const safeHeaders = {
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
} as const

function makeSafe(reply: FastifyReply): FastifyReply {
  for (const [name, value] of Object.entries(safeHeaders)) if (!reply.hasHeader(name)) void reply.header(name, value)
  return reply
}

/** Sends bytes, so that no charset is added, and sets the headers itself, because hooks may not have run. */
function sendError(reply: FastifyReply, error: unknown): FastifyReply {
  const problem: Problem = problemOf(error)
  const after = retryAfter(error)
  if (after !== undefined) void reply.header('retry-after', after)
  return makeSafe(reply)
    .code(problem.status)
    .type(problemType)
    .send(Buffer.from(JSON.stringify(problem)))
}

/**
 * A client chooses the beginning of `X-Forwarded-For`, and a proxy may pass on all of it. Only the addresses at its end count: nothing else
 * becomes the address of a client in limits and in the audit log.
 */
function checkForwarded(headers: IncomingMessage['headers']): void {
  const values = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',').map(addressIn)
  const known = values.slice(values.lastIndexOf(undefined) + 1)
  if (known.length > 0) headers['x-forwarded-for'] = known.join(', ')
  else delete headers['x-forwarded-for']
}

/** Some proxies send the port too. */
function addressIn(value: string): string | undefined {
  const [, v4, v6] = /^(?:([\d.]+):\d+|\[([^\]]*)\](?::\d+)?)$/.exec(value.trim()) ?? []
  const address = v4 ?? v6 ?? value.trim()
  return isIP(address) === 0 ? undefined : address
}

const isLocal = (address: string) => address === '::1' || /^(?:::ffff:)?127\./.test(address)

export interface ConnectionCount {
  /** Counts a connection; `isOver`: there are too many, and it must be closed. Call `leave` once when it is closed. */
  enter(address: string): { readonly isOver: boolean; readonly leave: () => void }
}

/** Connections of this machine have a part of the total for themselves. */
export function countConnections(limits: ServerLimits): ConnectionCount {
  const open = new Map<string, number>()
  let [all, remote] = [0, 0]
  return {
    enter(address) {
      const local = isLocal(address)
      const client = clientAt(address)
      const count = (open.get(client) ?? 0) + 1
      open.set(client, count)
      all += 1
      if (!local) remote += 1
      const isRemoteOver = !local && remote > limits.connections - limits.connectionsLocal
      return {
        isOver: isRemoteOver || count > limits.connectionsPerAddress || all > limits.connections,
        leave() {
          all -= 1
          if (!local) remote -= 1
          const left = (open.get(client) ?? 1) - 1
          if (left <= 0) open.delete(client)
          else open.set(client, left)
        },
      }
    },
  }
}

function limitConnections(app: FastifyInstance, limits: ServerLimits): void {
  const connections = countConnections(limits)
  app.server.on('connection', (socket: Socket) => {
    const { isOver, leave } = connections.enter(socket.remoteAddress ?? '')
    socket.once('close', leave)
    if (isOver) socket.destroy()
  })
}

/** Closes a connection that sends many requests without reading the responses. Runs before Fastify spends time on them. */
function limitPipelining(app: FastifyInstance, { pipelined }: ServerLimits): void {
  const handle = app.server.listeners('request')[0] as RequestListener
  const unanswered = new WeakMap<Socket, number>()
  const add = (socket: Socket, change: 1 | -1) => {
    const count = (unanswered.get(socket) ?? 0) + change
    unanswered.set(socket, count)
    return count
  }
  app.server.removeAllListeners('request').on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    if (socket.destroyed) return
    if (add(socket, 1) > pipelined) return void socket.destroy()
    response.once('close', () => add(socket, -1))
    handle(request, response)
  })
}
