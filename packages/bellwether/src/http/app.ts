/**
 * The HTTP server: limits, keys, problem+json. Always: every API request has a key before its body is read, whatever way its URL
 * is spelled; every body, header, connection and silence has a limit; an error never takes the server down. `makeApp` is the
 * server of views alone; the whole one is in server.ts. Listening is left to whoever composes it.
 */
import type { Socket } from 'node:net'
import type { Log } from '@bellwether/base'
import { pipeLimits, Terminal } from '@bellwether/protocol'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Fusion } from '../view/fusion.js'
import { authorize, type Grant, type Keys } from './auth.js'
import { readJson } from './body.js'
import { problemOf, problemType, retryAfter, type Problem } from './problem.js'
import { parseQuery } from './query.js'
import { healthRoutes } from './routes/health.js'
import { pipeRoutes } from './routes/pipe.js'
import { viewRoutes } from './routes/views.js'

export interface AppOptions {
  readonly fusion: Fusion
  readonly keys: Keys
  readonly log: Log
  /** Ends long waits and streams when the server stops. */
  readonly signal: AbortSignal
  readonly limits?: Partial<ServerLimits> | undefined
}

export interface BareOptions extends Pick<AppOptions, 'log' | 'limits'> {
  /** Called for each request to the API before its body is read; sets its grant or throws. */
  readonly admit: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

export interface ServerLimits {
  /** A request's headers and body must be here by then: a client that trickles them is cut off. */
  readonly requestMs: number
  /** A connection on which nothing moves is cut; longer than any wait that we allow. */
  readonly silenceMs: number
  readonly connections: number
  /** One address cannot take the connections of all others. */
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
    /** Set for every request under /api/v1 before its route runs. */
    grant: Grant
    /** The code of the problem that it was answered with. */
    refusal: string | null
  }
}

export const base = '/api/v1'

/** The server of views alone. */
export function makeApp(options: AppOptions): FastifyInstance {
  const app = bareApp({
    ...options,
    admit: async (request) => {
      request.grant = await authorize(options.keys, request.headers)
    },
  })
  healthRoutes(app, base, options)
  pipeRoutes(app, `${base}/pipe`, options)
  viewRoutes(app, `${base}/views`, options)
  return app
}

/** Everything but routes. */
export function bareApp(options: BareOptions): FastifyInstance {
  const { log } = options
  const limits = { ...serverLimits, ...options.limits }
  const app = fastify({
    logger: false,
    bodyLimit: pipeLimits.bodyBytesMax,
    requestTimeout: limits.requestMs,
    connectionTimeout: limits.silenceMs,
    // Sensors keep their connection between heartbeats; proxies in between give up after 60 s.
    keepAliveTimeout: 65_000,
    forceCloseConnections: true,
    // URLs that cannot be decoded, and parameters that are too long: before any hook, and not beyond the promise of one form.
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
  // Whatever a client calls it, the API speaks JSON; an empty body is no body.
  app.addContentTypeParser(
    '*',
    { parseAs: 'buffer' },
    async (request: { headers: Record<string, unknown> }, body: Buffer) => {
      const encoding = request.headers['content-encoding']
      return readJson(body, typeof encoding === 'string' ? encoding : undefined)
    },
  )
  app.addHook('onSend', async (_request, reply) => void makeSafe(reply))
  // By the route that was found, not by the URL: the router also takes `/%61pi/…` and `http://host/api/…`.
  app.addHook('onRequest', async (request, reply) => {
    const route = request.routeOptions.url
    if (route === undefined ? request.url.startsWith(base) : route.startsWith(base)) await options.admit(request, reply)
  })
  app.setNotFoundHandler(async (request) => {
    throw new Terminal(`there is no ${request.method} ${request.url.split('?')[0]!.slice(0, 200)}`, {
      code: 'not_found',
    })
  })
  app.setErrorHandler((error, request, reply) => {
    const problem = problemOf(error)
    request.refusal = problem.code
    if (problem.status >= 500 && problem.code === 'internal')
      log.error({ err: error, method: request.method, path: request.routeOptions.url }, 'a request failed')
    const after = retryAfter(error)
    if (after !== undefined) void reply.header('retry-after', after)
    if (problem.status === 401) void reply.header('www-authenticate', 'Bearer')
    // A client whose body was not read to its end cannot use this connection again.
    if (problem.status === 413 || problem.status === 415) void reply.header('connection', 'close')
    return sendProblem(reply, problem)
  })
  return app
}

/** An API answers programs: nothing of it is to be shown, framed, sniffed or kept by a browser. */
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

/** As bytes, so that nothing adds a charset, which this type does not have; and safe also where no hook has run. */
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
