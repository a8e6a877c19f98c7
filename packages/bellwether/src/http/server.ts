/**
 * The complete server: kernel, board, views, worker API and keys. A request is admitted by rate, key, role and reach before
 * its body is read; audited writes are in the audit log before they are answered. A part that is not passed in has no
 * routes.
 */
import type { Random } from '@bellwether/base'
import { apiBase, InvalidInput, Retryable } from '@bellwether/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { writeAudit, type AuditEntry } from '../kernel/access/audit-log.js'
import { pingDatabase } from '../kernel/reads/database.js'
import { targetsWithoutWorkers } from '../kernel/reads/gauges.js'
import { coalesce } from '../kernel/coalesce.js'
import type { Fusion } from '../view/fusion.js'
import { withTimeout } from '../ports/retry.js'
import { apiOf } from './api.js'
import { bareApp, type ServerLimits } from './app.js'
import { authorize, keyIn, type Grant } from './auth.js'
import type { KeyStore } from './key-store.js'
import { sessionGrant, type BrowserSessions } from './browser-sessions.js'
import { makeBuckets, type Buckets, type Rate } from './rate-limit.js'
import { isAudited, mustReachProject, permit } from './roles.js'
import { agentRoutes } from './routes/agents.js'
import { batchRoutes } from './routes/batches.js'
import { boardRoutes, type BoardParts } from './routes/board.js'
import { cardRoutes } from './routes/cards.js'
import { eventRoutes } from './routes/events.js'
import { healthRoutes, type HealthParts } from './routes/health.js'
import { keyRoutes } from './routes/keys.js'
import { browserSessionRoutes, loginPath } from './routes/browser-sessions.js'
import { pipeRoutes } from './routes/pipe.js'
import { toolCallRoutes } from './routes/tool-calls.js'
import { turnRoutes } from './routes/turns.js'
import { viewRoutes } from './routes/views.js'
import { workerRoutes, type WorkerParts } from './routes/workers.js'

export interface ServerOptions extends WorkerParts {
  readonly keys: KeyStore
  readonly browserSessions: BrowserSessions
  readonly random: Random
  /** Whether other machines can reach the server. */
  readonly isPublic: boolean
  /** Whether the server accepts connections. */
  readonly isReceiving?: (() => boolean) | undefined
  readonly board?: BoardParts | undefined
  readonly fusion?: Fusion | undefined
  readonly parts?: HealthParts['parts']
  readonly metrics?: HealthParts['metrics']
  /** The dashboard: routes outside the API, without a key, with their own browser policy. */
  readonly pages?: ((app: FastifyInstance) => Promise<void>) | undefined
  readonly rate?: Rate
  readonly limits?: Partial<ServerLimits>
}

export interface RouteName {
  readonly method: string
  /** For example `/api/v1/projects/:project/turns`. */
  readonly url: string
}

export interface Server {
  readonly app: FastifyInstance
  /** All routes, once the app is ready. */
  readonly routes: readonly RouteName[]
  /** Refuses new requests; resolves when all open requests were answered, or after `graceMs`. */
  drain(graceMs: number): Promise<void>
}

// Ten times the rate of a busy dashboard and a fleet's client; stops a runaway loop.
const defaultRate: Rate = { perSecond: 1_000, burst: 2_000 }
// An address may use several keys, or be a proxy.
const addressFactor = 5
// A key of 256 bits cannot be guessed; the limit keeps the log quiet.
const wrongKeys: Rate = { perSecond: 20, burst: 200 }
// Deeper than any real body; protects PostgreSQL and every recursive function.
const depthMax = 70
const audits = { max: 500, inFlight: 2, queueMax: 10_000 }
const pathMax = 1_000
// A database that answers more slowly cannot serve requests either.
const probeMs = 2_000
/** Needs no key: the description of the API is public. */
const description = `${apiBase}/openapi.json`

export function makeServer(options: ServerOptions): Server {
  const { clock, log, kernel, keys, fusion, board } = options
  const rate = options.rate ?? defaultRate
  const byKey = makeBuckets(rate)
  const byAddress = makeBuckets({ perSecond: rate.perSecond * addressFactor, burst: rate.burst * addressFactor })
  const wrongByAddress = makeBuckets(wrongKeys)
  let draining = false
  let open = 0
  let closed = () => {}
  const routes: RouteName[] = []

  function limit(buckets: Buckets, name: string): void {
    const waitMs = buckets.take(name, clock.monotonicMs())
    if (waitMs > 0) throw new Retryable('Too many requests', { code: 'rate_limited', afterMs: waitMs })
  }

  async function admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (draining) {
      void reply.header('connection', 'close')
      throw new Retryable('The server is shutting down', { code: 'draining', afterMs: 1_000 })
    }
    limit(byAddress, request.ip)
    const route = request.routeOptions.url
    if (route === description) return
    request.grant = await grantOf(request)
    limit(byKey, request.grant.keyId)
    if (route === undefined) return
    const params = request.params as Record<string, string>
    permit(request.grant, { method: request.method, route: route.slice(apiBase.length), params })
  }

  /** By the key, or for a browser by its session. */
  async function grantOf(request: FastifyRequest): Promise<Grant> {
    const { headers, method } = request
    const hasKey = keyIn(headers) !== undefined
    const session = hasKey
      ? undefined
      : sessionGrant(options.browserSessions, (keyId) => keys.byId(keyId), method, headers)
    if (session !== undefined) return session
    try {
      return await authorize(keys, headers)
    } catch (error) {
      if (hasKey) limit(wrongByAddress, request.ip)
      throw error
    }
  }

  const app = bareApp({ log, limits: options.limits, admit })
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

  const writeEntry = coalesce(async (entries: readonly AuditEntry[]) => {
    await writeAudit(kernel.db, entries)
    return entries
  }, audits)

  /** The request has taken effect: a failure to write the audit log is logged, and the response is still sent. */
  async function audit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const route = request.routeOptions.url
    if (route === undefined || request.grant === undefined) return
    if (route !== loginPath && !isAudited(request.method, route.slice(apiBase.length))) return
    const entry: AuditEntry = {
      actor: request.grant.keyId,
      role: request.grant.role,
      address: request.ip,
      method: request.method,
      path: request.url.split('?')[0]!.slice(0, pathMax),
      status: reply.statusCode,
      code: request.refusal,
    }
    await writeEntry(entry).catch((error: unknown) => log.error({ err: error, entry }, 'cannot write the audit log'))
  }

  const targets = () => withTimeout(clock, probeMs, 'reading targets', targetsWithoutWorkers(kernel.db))
  /** Whether the database answers, and which targets have no worker. */
  const readiness = async () => {
    const probe = withTimeout(clock, probeMs, 'the database probe', pingDatabase(kernel.db))
    const database = await probe.then(
      () => true,
      () => false,
    )
    const waiting = database ? await targets().catch(() => []) : []
    const receiver = options.isReceiving?.() ?? true
    return { database, draining, receiver, targets_without_workers: waiting.map((one) => one.worker_target) }
  }
  const admitMetrics = async (headers: FastifyRequest['headers']) => {
    if (options.isPublic) await authorize(keys, headers)
  }

  app.register(async (root) => {
    const api = apiOf(root)
    healthRoutes(api, { ...options, readiness, targets, admitMetrics })
    await options.pages?.(root)
    for (const routes of [agentRoutes, turnRoutes, toolCallRoutes, batchRoutes, cardRoutes, eventRoutes])
      routes(api, options)
    workerRoutes(api, options)
    keyRoutes(api, options)
    browserSessionRoutes(api, options)
    if (board !== undefined)
      await root.register(async (scope) => {
        scope.addHook('onRequest', async ({ grant }) => mustReachProject(grant, board.projectId))
        boardRoutes(apiOf(scope), board, kernel.db)
      })
    if (fusion !== undefined) {
      const parts = { fusion, signal: options.signal }
      pipeRoutes(api, parts)
      viewRoutes(api, parts)
    }
    const describe = async () => {
      const { describeApi } = await import('./openapi.js')
      const served = new Set(routes.map(({ method, url }) => `${method} ${url.replace(apiBase, '')}`))
      return describeApi((key) => served.has(key))
    }
    api('GET /openapi.json', describe)
    root.get(description, describe)
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

/** File names may be any bytes, and rows come by the thousand: the pipe and the views check their own values. */
const unchecked = [`${apiBase}/pipe`, `${apiBase}/views`]

async function checkShape(request: FastifyRequest): Promise<void> {
  const route = request.routeOptions.url
  if (route === undefined || unchecked.some((part) => route.startsWith(part))) return
  for (const named of [request.params, request.query] as readonly Record<string, string>[])
    for (const [name, value] of Object.entries(named ?? {}))
      if (value.includes('\0') || !value.isWellFormed())
        throw new InvalidInput(`Invalid "${name.slice(0, 40)}": it contains NUL or an unpaired surrogate`, {
          code: 'invalid_request',
        })
  if (request.method === 'GET' || request.method === 'HEAD') return
  if (isDeeper(request.body, depthMax))
    throw new InvalidInput(`The body is nested more than ${depthMax} levels deep`, {
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
