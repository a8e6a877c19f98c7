/**
 * The complete server: kernel, board, views, worker API and keys. A request is admitted by rate, key, role and reach before
 * its body is read; audited writes are in the audit log before they are answered. A part that is not passed in has no
 * routes.
 */
import { isIP } from 'node:net'
import type { Random } from '@bellwether/base'
import { apiBase, InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { writeAudit, type AuditEntry } from '../kernel/access/audit-log.js'
import { pingDatabase } from '../kernel/reads/database.js'
import { targetsWithoutWorkers } from '../kernel/reads/gauges.js'
import { coalesce } from '../kernel/coalesce.js'
import type { Database } from '../ports/database/database.js'
import type { Fusion } from '../view/fusion.js'
import { withTimeout } from '../ports/retry.js'
import { apiOf } from './api.js'
import { bareApp, type NetworkOptions, type ServerLimits } from './app.js'
import { authorize, keyIn, type Grant } from './auth.js'
import type { KeyStore } from './key-store.js'
import { sessionGrant, type BrowserSessions } from './sign-in/browser-sessions.js'
import { clientAt, makeBuckets, type Buckets, type Rate } from './rate-limit.js'
import { isAudited, isAuditedForgery, isFleetRequest, mustReachProject, permit } from './roles.js'
import { makeShares } from './shares.js'
import { agentRoutes } from './routes/agents.js'
import { approvalRoutes } from './routes/approvals.js'
import { batchRoutes } from './routes/batches.js'
import { boardRoutes, type BoardParts } from './routes/board.js'
import { cardRoutes } from './routes/cards.js'
import { evalRoutes } from './routes/evals.js'
import { eventRoutes } from './routes/events.js'
import { healthRoutes, type HealthParts } from './routes/health.js'
import { quotaRoutes } from './routes/quotas.js'
import { trendRoutes } from './routes/trends.js'
import { keyRoutes } from './routes/keys.js'
import { browserSessionRoutes, loginPath, type ProviderSignIn } from './routes/browser-sessions.js'
import { pipeRoutes } from './routes/pipe.js'
import { scheduleRoutes } from './routes/schedules.js'
import { toolCallRoutes } from './routes/tool-calls.js'
import { trailRoutes } from './routes/trails.js'
import { transcriptRoutes, type TranscriptParts } from './routes/transcript.js'
import { turnBulkRoutes } from './bulk/turn-bulk.js'
import { turnRoutes } from './routes/turns.js'
import { viewRoutes } from './routes/views.js'
import { workerRoutes, type WorkerParts } from './routes/workers.js'

export interface ServerOptions extends WorkerParts, NetworkOptions, Pick<TranscriptParts, 'bell'> {
  readonly keys: KeyStore
  /** For probes and the audit log, which do not wait behind requests. Default: the database of the kernel. */
  readonly ownDatabase?: Database | undefined
  readonly browserSessions: BrowserSessions
  /** The identity provider with which people sign in. */
  readonly signIn?: ProviderSignIn | undefined
  readonly random: Random
  /** Names in the Host header that requests without a key may have, beside IP addresses and localhost. Absent: every name. */
  readonly hosts?: readonly string[] | undefined
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
  /** Per address, for requests without a valid key. */
  readonly rates?: { readonly anonymous?: Rate; readonly signIns?: Rate }
  readonly limits?: Partial<ServerLimits>
}

interface RouteName {
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
// The class of requests that a fleet makes with one key: 200 workers that claim, beat and report, or sensors that send rows.
const fleetFactor = 10
// Without a valid key, per address: pages with their files, health checks, and keys that are not known.
const anonymous: Rate = { perSecond: 200, burst: 1_000 }
// Links that people open, per address.
const signIns: Rate = { perSecond: 1, burst: 50 }
// Bodies of requests that are being read or handled, and of responses that are being sent, in bytes. Compressed ones count as large as
// they may become.
const bodies = { total: 536_870_912, perKey: 67_108_864, perFleetKey: 268_435_456 } as const
// Smaller responses are not counted: all connections together hold few of them.
const countedBytes = 16_384
// Refused requests in the audit log: enough to see an attack, too few to fill the log.
const refusals = { perClient: { perSecond: 0.2, burst: 20 }, total: { perSecond: 2, burst: 200 } } as const
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
  const { clock, log, kernel, keys, fusion, board, ownDatabase = kernel.db } = options
  const rate = options.rate ?? defaultRate
  const byKey = makeBuckets(rate)
  const byFleetKey = makeBuckets({ perSecond: rate.perSecond * fleetFactor, burst: rate.burst * fleetFactor })
  const byAddress = makeBuckets(options.rates?.anonymous ?? anonymous)
  const wrongByAddress = makeBuckets(wrongKeys)
  const signInsByAddress = makeBuckets(options.rates?.signIns ?? signIns)
  const refusedByClient = makeBuckets(refusals.perClient)
  const refusedInTotal = makeBuckets(refusals.total)
  const inFlight = makeShares('bytes of bodies', bodies.total, 1_000)
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
    const route = request.routeOptions.url
    if (route === description) return limit(byAddress, clientAt(request.ip))
    request.grant = await grantOf(request)
    const path = route?.slice(apiBase.length) ?? ''
    const isFleet = isFleetRequest(request.grant, path)
    limit(isFleet ? byFleetKey : byKey, request.grant.keyId)
    if (route === undefined) return
    permit(request.grant, { method: request.method, route: path, params: request.params as Record<string, string> })
    holdBody(request, reply, isFleet ? bodies.perFleetKey : bodies.perKey)
  }

  function admitOutside(request: FastifyRequest): void {
    const { ip, method, routeOptions } = request
    mustKnowHost(request)
    limit(isSignIn(method, routeOptions.url) ? signInsByAddress : byAddress, clientAt(ip))
  }

  /** A site that points its own name to this server (DNS rebinding) has no key, and its requests have its name. */
  function mustKnowHost({ headers, hostname }: FastifyRequest): void {
    if (options.hosts === undefined || isKnownHost(headers.host ?? hostname, options.hosts)) return
    throw new Terminal('This server does not answer under this host name', {
      code: 'unknown_host',
      hint: 'use localhost or an IP address, or add the name to server.hosts',
    })
  }

  /** Until the response is sent: a body lives as long as its request. */
  function holdBody({ headers, routeOptions, grant }: FastifyRequest, reply: FastifyReply, perKey: number): void {
    const length = headers['content-length']
    const isBounded = length !== undefined && headers['content-encoding'] === undefined
    const bytes = isBounded ? Math.min(Number(length), routeOptions.bodyLimit) : routeOptions.bodyLimit
    if (length === undefined && headers['transfer-encoding'] === undefined) return
    reply.raw.once('close', inFlight.take(grant.keyId, bytes, perKey))
  }

  /** Until a client has taken it, a response to a read costs memory. A write has taken effect, so its response is always sent. */
  function holdResponse({ method, grant }: FastifyRequest, reply: FastifyReply, payload: unknown): void {
    if (method !== 'GET' || (typeof payload !== 'string' && !Buffer.isBuffer(payload))) return
    if (payload.length <= countedBytes || (grant as Grant | undefined) === undefined) return
    reply.raw.once('close', inFlight.take(grant.keyId, payload.length, bodies.perKey))
  }

  /** By the key, or for a browser by its session. An address that sends neither has a rate of its own. */
  async function grantOf(request: FastifyRequest): Promise<Grant> {
    const { headers, method, ip } = request
    const key = keyIn(headers)
    const known = key === undefined ? undefined : keys.known(key)
    if (known !== undefined) return known
    limit(byAddress, clientAt(ip))
    mustKnowHost(request)
    const session =
      key === undefined
        ? sessionGrant(options.browserSessions, (keyId) => keys.byId(keyId), method, headers)
        : undefined
    if (session !== undefined) return session
    if (key !== undefined) limit(wrongByAddress, clientAt(ip))
    return authorize(keys, headers)
  }

  const { limits, tls, trustedProxies } = options
  const app = bareApp({ log, limits, tls, trustedProxies, admit, admitOutside })
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
  app.addHook('onSend', async (request, reply, payload) => holdResponse(request, reply, payload))

  const writeEntry = coalesce(async (entries: readonly AuditEntry[]) => {
    await writeAudit(ownDatabase, entries)
    return entries
  }, audits)

  /** The request has taken effect: a failure to write the audit log is logged, and the response is still sent. */
  async function audit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const route = request.routeOptions.url
    const { grant } = request as { readonly grant?: Grant }
    if (grant === undefined && !isAuditedRefusal(request, reply)) return
    if (grant !== undefined && !isAuditedCall(request, route) && !isForged(request, reply, grant)) return
    const { method, refusal: code } = request
    const path = request.url.split('?')[0]!
    const changes = request.auditedChanges ?? [{ method, path, status: reply.statusCode, code }]
    const entries = changes.map((change): AuditEntry => ({
      actor: grant?.keyId ?? request.actor?.id ?? 'unknown',
      name: grant?.name ?? request.actor?.name,
      role: grant?.role ?? null,
      address: request.ip,
      ...change,
      path: change.path.slice(0, pathMax),
    }))
    await Promise.all(entries.map(writeEntry)).catch((error: unknown) =>
      log.error({ err: error, entry: entries[0], entries: entries.length }, 'cannot write the audit log'),
    )
  }

  const isAuditedCall = ({ method }: FastifyRequest, route: string | undefined) =>
    route !== undefined && (isSignIn(method, route) || isAudited(method, route.slice(apiBase.length)))
  /** A request for a turn that its worker does not hold, or for a target that its key may not serve. */
  const isForged = ({ method, routeOptions: { url = '' } }: FastifyRequest, reply: FastifyReply, { keyId }: Grant) =>
    isAuditedForgery(method, url.slice(apiBase.length), reply.statusCode) && isWithinBound(keyId)
  /** A wrong key or link, or a person who may not sign in. */
  const isAuditedRefusal = ({ ip, actor }: FastifyRequest, { statusCode }: FastifyReply) =>
    (statusCode === 401 || actor !== null) && isWithinBound(clientAt(ip))
  /** The number of rows of refused requests is bounded per client (a key, or an address without one) and in total. */
  const isWithinBound = (client: string) =>
    refusedByClient.take(client, clock.monotonicMs()) === 0 && refusedInTotal.take('', clock.monotonicMs()) === 0

  const targets = () => withTimeout(clock, probeMs, 'reading targets', targetsWithoutWorkers(ownDatabase))
  const unreadTargets = (error: unknown) => {
    log.warn({ err: error }, 'cannot read the targets without workers')
    return []
  }
  /** Whether the database answers, and which targets have no worker. */
  const readiness = async () => {
    const probe = withTimeout(clock, probeMs, 'the database probe', pingDatabase(ownDatabase))
    const database = await probe.then(
      () => true,
      () => false,
    )
    const waiting = database ? await targets().catch(unreadTargets) : []
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
    for (const routes of [
      agentRoutes,
      turnRoutes,
      turnBulkRoutes,
      trailRoutes,
      toolCallRoutes,
      approvalRoutes,
      batchRoutes,
      scheduleRoutes,
      evalRoutes,
      cardRoutes,
      eventRoutes,
    ])
      routes(api, options)
    workerRoutes(api, options)
    transcriptRoutes(api, options)
    keyRoutes(api, options)
    quotaRoutes(api, options)
    trendRoutes(api, options)
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
    // Anyone may read it, and it takes long to write: once per server.
    let described: Promise<Buffer> | undefined
    const describe = async (_request: FastifyRequest, reply: FastifyReply) => {
      described ??= import('./openapi.js').then(({ describeApi }) => {
        const served = new Set(routes.map(({ method, url }) => `${method} ${url.replace(apiBase, '')}`))
        return Buffer.from(JSON.stringify(describeApi((key) => served.has(key))))
      })
      return reply.type('application/json; charset=utf-8').send(await described)
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

const isSignIn = (method: string, route = '') =>
  method === 'POST' && (route === loginPath || route.startsWith(`${loginPath}/`))

/** `host`: the Host header, with a port or without. */
export function isKnownHost(host: string, names: readonly string[]): boolean {
  const name = host.toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '')
  const isAddress = isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0
  return isAddress || name === 'localhost' || name.endsWith('.localhost') || names.includes(name)
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
      hint: 'send a body with fewer levels',
    })
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  for (const inner of Object.values(value)) if (isDeeper(inner, levels - 1)) return true
  return false
}
