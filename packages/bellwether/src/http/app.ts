/**
 * The HTTP server without routes: limits, admission and problems. Every API request is admitted before its body is read,
 * however its URL is spelled; every body, header, connection and silence has a limit; an error never stops the server.
 * `makeApp` serves views only; server.ts serves everything.
 */
import type { Socket } from 'node:net'
import type { Log } from '@bellwether/base'
import { apiBase, pipeLimits, Terminal } from '@bellwether/protocol'
import { problemType, type Problem } from '@bellwether/protocol/http'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Fusion } from '../view/fusion.js'
import { apiOf } from './api.js'
import { authorize, mustReach, type Grant, type Keys } from './auth.js'
import { readJson } from './body.js'
import { problemOf, retryAfter } from './problem.js'
import { parseQuery } from './query.js'
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

export interface BareOptions extends Pick<AppOptions, 'log' | 'limits'> {
  /** Runs for each API request before its body is read; sets the grant or throws. */
  readonly admit: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

export interface ServerLimits {
  /** Time for headers and body: a client that sends slowly on purpose is disconnected. */
  readonly requestMs: number
  /** A silent connection is closed; longer than any allowed wait. */
  readonly silenceMs: number
  readonly connections: number
  /** One address cannot use up all connections. */
  readonly connectionsPerAddress: number
}

export const serverLimits: ServerLimits = {
  requestMs: 15_000,
  silenceMs: 60_000,
  connections: 4_096,
  connectionsPerAddress: 1_024,
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
  const app = fastify({
    logger: false,
    bodyLimit: pipeLimits.bodyBytesMax,
    requestTimeout: limits.requestMs,
    connectionTimeout: limits.silenceMs,
    // Sensors keep their connection between heartbeats; proxies close it after 60 s.
    keepAliveTimeout: 65_000,
    forceCloseConnections: true,
    // URLs that cannot be decoded, and parameters that are too long, fail before any hook, and get a problem too.
    frameworkErrors: (error, _request, reply) => {
      void sendProblem(reply as unknown as FastifyReply, problemOf(error))
    },
    http: {
      headersTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.min(5_000, limits.requestMs),
      maxHeaderSize: 16_384,
    },
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 512, querystringParser: parseQuery },
  })
  app.server.maxConnections = limits.connections
  limitPerAddress(app, limits.connectionsPerAddress)

  app.decorateRequest('grant')
  app.decorateRequest('refusal', null)
  app.removeAllContentTypeParsers()
  // Every body is parsed as JSON, whatever its content type; an empty body counts as absent.
  app.addContentTypeParser(
    '*',
    { parseAs: 'buffer' },
    async (request: { headers: Record<string, unknown> }, body: Buffer) => {
      const encoding = request.headers['content-encoding']
      return readJson(body, typeof encoding === 'string' ? encoding : undefined)
    },
  )
  app.addHook('onSend', async (_request, reply) => void makeSafe(reply))
  // Checks the matched route, not the URL: the router also accepts `/%61pi/…` and `http://host/api/…`.
  app.addHook('onRequest', async (request, reply) => {
    const route = request.routeOptions.url
    if (route === undefined ? request.url.startsWith(apiBase) : route.startsWith(apiBase))
      await options.admit(request, reply)
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
    const after = retryAfter(error)
    if (after !== undefined) void reply.header('retry-after', after)
    if (problem.status === 401) void reply.header('www-authenticate', 'Bearer')
    // The body was not read to its end, so the connection cannot be reused.
    if (problem.status === 413 || problem.status === 415) void reply.header('connection', 'close')
    return sendProblem(reply, problem)
  })
  return app
}

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
function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  return makeSafe(reply)
    .code(problem.status)
    .type(problemType)
    .send(Buffer.from(JSON.stringify(problem)))
}

function limitPerAddress(app: FastifyInstance, max: number): void {
  const open = new Map<string, number>()
  app.server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? ''
    const count = (open.get(address) ?? 0) + 1
    open.set(address, count)
    socket.once('close', () => {
      const left = (open.get(address) ?? 1) - 1
      if (left <= 0) open.delete(address)
      else open.set(address, left)
    })
    if (count > max) socket.destroy()
  })
}
