/**
 * The whole server: kernel, board, views, worker API and keys behind one door. Always: a request is admitted by rate, key, role and
 * reach before its body is read; writes that people make are in the audit log before they are answered; what the server cannot
 * store or follow is refused at the edge. Parts that were not handed in have no routes.
 */
import type { Random } from '@bellwether/base'
import swagger, { type SwaggerTransform } from '@fastify/swagger'
import { InvalidInput, Retryable } from '@bellwether/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod'
import { writeAudit, type AuditEntry } from '../kernel/access/audit-log.js'
import { coalesce } from '../kernel/coalesce.js'
import type { Fusion } from '../view/fusion.js'
import { base, bareApp, type ServerLimits } from './app.js'
import { authorize, keyIn, type Grant } from './auth.js'
import type { KeyStore } from './key-store.js'
import { sessionCookie, sessionGrant, type Logins } from './browser-sessions.js'
import { makeBuckets, type Buckets, type Rate } from './rate-limit.js'
import { isAudited, permit } from './roles.js'
import { agentRoutes } from './routes/agents.js'
import { batchRoutes } from './routes/batches.js'
import { boardRoutes, type BoardParts } from './routes/board.js'
import { cardRoutes } from './routes/cards.js'
import { eventRoutes } from './routes/events.js'
import { componentRoutes, type ComponentParts } from './routes/health.js'
import { keyRoutes } from './routes/keys.js'
import { loginPage, loginPath, loginRoutes } from './routes/browser-sessions.js'
import { pipeRoutes } from './routes/pipe.js'
import { statusRoutes } from './routes/status.js'
import { toolCallRoutes } from './routes/tool-calls.js'
import { turnRoutes } from './routes/turns.js'
import { viewRoutes } from './routes/views.js'
import { workerRoutes, type WorkerParts } from './routes/workers.js'

export interface ServerOptions extends WorkerParts {
  readonly keys: KeyStore
  readonly logins: Logins
  readonly random: Random
  readonly isPublic: boolean
  readonly board?: BoardParts | undefined
  readonly fusion?: Fusion | undefined
  /** The processes of this house that are supervised, for whoever asks how it is. */
  readonly parts?: ComponentParts['parts']
  /** The house's own numbers, as Prometheus reads them. */
  readonly metrics?: () => Promise<string>
  /** Pages for people: routes outside the API, which need no key and say their own policy for browsers. */
  readonly pages?: ((app: FastifyInstance) => Promise<void>) | undefined
  readonly rate?: Rate
  readonly limits?: Partial<ServerLimits>
}

export interface RouteName {
  readonly method: string
  /** As declared: `/api/v1/projects/:project/…`. */
  readonly url: string
}

export interface Server {
  readonly app: FastifyInstance
  /** Every route there is, once the app is ready. */
  readonly routes: readonly RouteName[]
  /** Nothing new is taken in; resolves when what is under way has been answered, or after `graceMs`. */
  drain(graceMs: number): Promise<void>
}

// Ten times what a busy dashboard and a fleet's client ask; one runaway loop is stopped by it.
const usualRate: Rate = { perSecond: 1_000, burst: 2_000 }
// An address may hold several keys, or be a proxy.
const addressFactor = 5
// Nobody guesses 256 bits; whoever tries is only kept from making noise.
const wrongKeys: Rate = { perSecond: 20, burst: 200 }
// Deeper than any honest body; PostgreSQL, and every recursion behind it, is spared the rest.
const depthMax = 70
const audits = { max: 500, inFlight: 2, queueMax: 10_000 }
const pathMax = 1_000
/** What the API is like is no secret. */
const description = `${base}/openapi.json`

export function makeServer(options: ServerOptions): Server {
  const { clock, log, kernel, keys, fusion, board } = options
  const rate = options.rate ?? usualRate
  const byKey = makeBuckets(rate)
  const byAddress = makeBuckets({ perSecond: rate.perSecond * addressFactor, burst: rate.burst * addressFactor })
  const wrongByAddress = makeBuckets(wrongKeys)
  let draining = false
  let open = 0
  let closed = () => {}
  let describe: SwaggerTransform | undefined
  const routes: RouteName[] = []

  function limit(buckets: Buckets, name: string): void {
    const waitMs = buckets.take(name, clock.monotonicMs())
    if (waitMs > 0) throw new Retryable('too many requests', { code: 'rate_limited', afterMs: waitMs })
  }

  async function admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (draining) {
      void reply.header('connection', 'close')
      throw new Retryable('the server is stopping', { code: 'draining', afterMs: 1_000 })
    }
    limit(byAddress, request.ip)
    const route = request.routeOptions.url
    if (route === description) return
    request.grant = await known(request)
    limit(byKey, request.grant.keyId)
    if (route === undefined) return
    const params = request.params as Record<string, string>
    permit(request.grant, { method: request.method, route: route.slice(base.length), params })
  }

  /** By its key; a browser without one by its session. */
  async function known(request: FastifyRequest): Promise<Grant> {
    const { headers, method } = request
    const hasKey = keyIn(headers) !== undefined
    const session = hasKey ? undefined : sessionGrant(options.logins, (keyId) => keys.byId(keyId), method, headers)
    if (session !== undefined) return session
    try {
      return await authorize(keys, headers)
    } catch (error) {
      if (hasKey) limit(wrongByAddress, request.ip)
      throw error
    }
  }

  const app = bareApp({ log, limits: options.limits, admit })
  app.setValidatorCompiler(validatorCompiler)
  app.addHook('onRoute', ({ method, url }) => void routes.push(...[method].flat().map((one) => ({ method: one, url }))))
  app.addHook('onRequest', async (_request, reply) => {
    open += 1
    reply.raw.once('close', () => {
      open -= 1
      if (open === 0) closed()
    })
  })
  app.addHook('preValidation', checkShape)
  app.addHook('onSend', (request, reply) => audit(request, reply))

  const writeDeed = coalesce(async (deeds: readonly AuditEntry[]) => {
    await writeAudit(kernel.db, deeds)
    return deeds
  }, audits)

  /** What was done is done: an audit log that cannot be written is told, and keeps nobody from the answer. */
  async function audit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const route = request.routeOptions.url
    if (route === undefined || request.grant === undefined) return
    if (route !== loginPath && !isAudited(request.method, route.slice(base.length))) return
    const deed: AuditEntry = {
      actor: request.grant.keyId,
      role: request.grant.role,
      address: request.ip,
      method: request.method,
      path: request.url.split('?')[0]!.slice(0, pathMax),
      status: reply.statusCode,
      code: request.refusal,
    }
    await writeDeed(deed).catch((error: unknown) => log.error({ err: error, deed }, 'the audit log cannot be written'))
  }

  app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Bellwether', version: '1', description: 'Runs a fleet of AI agents so that every turn ends.' },
      components: {
        securitySchemes: {
          key: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
          bearer: { type: 'http', scheme: 'bearer' },
          session: { type: 'apiKey', in: 'cookie', name: sessionCookie },
        },
      },
      security: [{ key: [] }, { bearer: [] }, { session: [] }],
    },
    transform: (document) => describe!(document),
  })
  // Behind the plugin above, which sees only routes that come after it.
  app.register(async (root) => {
    statusRoutes(root.withTypeProvider<ZodTypeProvider>(), {
      ...options,
      db: kernel.db,
      draining: () => draining,
    })
    loginPage(root.withTypeProvider<ZodTypeProvider>(), options)
    await options.pages?.(root)
    await root.register(
      async (scope) => {
        const api = scope.withTypeProvider<ZodTypeProvider>()
        for (const routes of [agentRoutes, turnRoutes, toolCallRoutes, batchRoutes, cardRoutes, eventRoutes])
          routes(api, options)
        workerRoutes(api, options)
        keyRoutes(api, options)
        loginRoutes(api, options.logins)
        if (board !== undefined)
          await api.register(async (inner) => boardRoutes(inner.withTypeProvider<ZodTypeProvider>(), board, kernel.db))
      },
      { prefix: base },
    )
    componentRoutes(root, base, options)
    if (fusion !== undefined) {
      const parts = { fusion, signal: options.signal }
      pipeRoutes(root, `${base}/pipe`, parts)
      viewRoutes(root, `${base}/views`, parts)
    }
    for (const path of ['/openapi.json', description])
      root.get(path, { schema: { hide: true } }, async () => {
        // Loaded by the first who asks: a house at rest does not carry it.
        describe ??= (await import('./openapi/describe.js')).describeRoute
        return root.swagger()
      })
  })

  return {
    app,
    routes,
    async drain(graceMs) {
      draining = true
      const over = new AbortController()
      const empty = new Promise<void>((resolve) => {
        closed = resolve
        if (open === 0) resolve()
      })
      await Promise.race([empty, clock.sleep(graceMs, over.signal)])
      over.abort()
    },
  }
}

/** The pipe and the views check their own: names there may be any bytes, and rows come by the thousand. */
const checksItself = [`${base}/pipe`, `${base}/views`]

async function checkShape(request: FastifyRequest): Promise<void> {
  const route = request.routeOptions.url
  if (route === undefined || checksItself.some((part) => route.startsWith(part))) return
  for (const named of [request.params, request.query] as readonly Record<string, string>[])
    for (const [name, value] of Object.entries(named ?? {}))
      if (value.includes('\0') || !value.isWellFormed())
        throw new InvalidInput(`${name.slice(0, 40)} is not text`, { code: 'invalid_request' })
  if (request.method === 'GET' || request.method === 'HEAD') return
  // Nothing is as good as an empty object: what is needed is then named as missing.
  request.body ??= {}
  if (isDeeper(request.body, depthMax))
    throw new InvalidInput(`the body is nested more than ${depthMax} levels deep`, {
      code: 'content_too_deep',
      hint: 'flatten it',
    })
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  for (const inner of Object.values(value)) if (isDeeper(inner, levels - 1)) return true
  return false
}
