/**
 * `bellwether server`: the HTTP API with its key store, event tail and claims of remote workers, plus the board of a task root and
 * workspace views if they are configured. A public address needs an existing key. On shutdown it ends streams and waits,
 * answers the requests in progress, and closes what it opened.
 */
import { existsSync } from 'node:fs'
import { isIP } from 'node:net'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defined, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, token } from '@bellwether/protocol'
import { openFeed } from '../board/log/feed.js'
import type { NetworkOptions } from '../http/app.js'
import { openBrowserSessions, type BrowserSessions } from '../http/sign-in/browser-sessions.js'
import { openKeyStore, type KeyStore } from '../http/key-store.js'
import { dashboardPages } from '../http/pages.js'
import { openClaims } from '../http/remote/claims.js'
import { openRemoteWatch } from '../http/remote/watch.js'
import { loginLink } from '../http/routes/browser-sessions.js'
import { makeServer, type ServerOptions } from '../http/server.js'
import { hasKeys } from '../kernel/access/api-keys.js'
import { pruneAudit } from '../kernel/access/audit-log.js'
import { pruneResponses } from '../kernel/access/idempotency.js'
import { openKernel } from '../kernel/kernel.js'
import type { Database } from '../ports/database/database.js'
import { limitUse } from '../ports/database/limit-use.js'
import { uuidv7 } from '../ports/ids.js'
import { loop } from '../ports/loop.js'
import { ensureAdminKey, type AdminKey } from './parts/key-files.js'
import { isLoopback, openReceiver } from './parts/listen.js'
import type { Settings } from '../settings/schema.js'
import { type Shared, withShared } from './parts/shared.js'
import { openSignIn } from './parts/sign-in.js'
import { openProcessMetrics } from './parts/telemetry.js'
import { serverTls } from './parts/tls-files.js'
import { dataFolderOf } from './data-folder.js'
import { type PartContext, type ProcessOptions, runProcess } from './process.js'
import type { PartState } from './supervise/supervisor.js'

export interface ServerProcessOptions extends ProcessOptions {
  readonly host?: string | undefined
  readonly port?: number | undefined
  /** Names of the views to serve. */
  readonly views?: readonly string[]
  /** The task root whose board is served. Default: [board] root, else no board. */
  readonly root?: string | undefined
  /** The project whose agents do the tasks of the board. */
  readonly projectId?: string
  /** The folder of the administrator's key file. Default: the project's own, as for `up`. */
  readonly dataDir?: string | undefined
}

export interface ServerPartOptions extends Omit<ServerProcessOptions, 'root' | 'projectId'> {
  readonly shared: Shared
  /** The administrator's key, if the caller has opened it. */
  readonly adminKey?: AdminKey | undefined
  /** The text of /metrics. */
  readonly metrics: () => Promise<string>
  /** The processes that `up` supervises. */
  readonly parts?: () => readonly PartState[]
  /** The dashboard's files. Default: those of the installed dashboard. */
  readonly pages?: ServerOptions['pages']
}

// The statement timeout bounds the requests in progress; service managers kill after 30 s.
const drainMs = 15_000
// Requests leave them to the watchdogs, the relay, the autopilot and the keys of this process.
const connectionsForLoops = 3
const pruneIntervalMs = 3_600_000
// A client that repeats a request with its idempotency key does so within hours.
const responseDays = 7
// What one call to a prune function deletes at most.
const pruneBatch = 5_000
/** A published package contains the dashboard in its build; a workspace has it in the neighbouring package. */
const dashboardFolder = ['../dashboard', '../../../dashboard/dist']
  .map((path) => fileURLToPath(new URL(path, import.meta.url)))
  .find((path, index) => index === 1 || existsSync(path))!

export function runServerProcess(options: ServerProcessOptions): Promise<number> {
  return runProcess(options, 'server', async (context) => {
    const { folder, root = context.settings.board.root } = options
    const projectId = token(options.projectId ?? 'default', 'project')
    const { views, dataDir } = options
    const sharing = {
      folder,
      root,
      projectId,
      role: 'server',
      ...defined({ views, dataDir: dataDir && resolve(folder, dataDir) }),
    }
    return withShared(context, sharing, async (shared) => {
      const metrics = await openProcessMetrics(context.runtime, context.log, shared.board)
      return runServerPart(context, { ...options, shared, metrics: () => metrics.text() })
    })
  })
}

/** The server on an open runtime; resolves after the signal aborts. */
export async function runServerPart(context: PartContext, options: ServerPartOptions): Promise<number> {
  const { runtime, settings, log, signal } = context
  const { kernel, bell } = runtime
  const { metrics, shared } = options
  const connections = Math.max(1, settings.database.pool_size - connectionsForLoops)
  const database = limitUse(kernel.db, connections, systemClock)
  const requests = openKernel({ db: database, bell, ids: uuidv7(systemClock, systemRandom) })
  const { tail, fusion } = shared
  const views = [...(fusion?.views.keys() ?? [])]
  const host = options.host ?? settings.server.host
  const stored = await openAdminKey(context, options, host)
  const adminKey = options.adminKey ?? stored
  const clock = systemClock
  const common = { clock, log, signal }
  const keys = openKeyStore({ db: kernel.db, clock, log, onlyView: views.length === 1 ? views[0] : undefined })
  await keys.refresh()
  const board = shared.board && {
    dispatcher: shared.board.as('server'),
    caches: shared.board.caches,
    feed: await openFeed(join(shared.board.board.root, 'state', 'tasks.jsonl'), shared.board.disk),
    projectId: shared.board.projectId,
    adminCommands: settings.server.admin_commands,
    ...common,
  }
  const browserSessions = openBrowserSessions({ clock, random: systemRandom })
  const signIn = openSignIn(settings, { folder: options.folder, clock, random: systemRandom, log })
  const { worker } = settings
  const watch = openRemoteWatch({
    kernel,
    clock,
    log,
    settings: {
      watchdogIntervalSeconds: worker.watchdog_interval_seconds,
      inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
      maxDeaths: worker.max_deaths,
    },
    onFreed: () => claims.wakeAll(),
  })
  const claims = openClaims({
    kernel: requests,
    bell,
    clock,
    log,
    random: systemRandom,
    watch,
    settings: {
      pollSeconds: worker.poll_seconds,
      resumeLeaseSeconds: worker.resume_lease_seconds,
      suspendTimeoutSeconds: worker.suspend_timeout_seconds,
    },
    onHandled: () => tail.wake(),
  })
  const receiver = openReceiver({ ...common, onChange: (error) => fusion?.receiver(error) })
  const perSecond = settings.server.requests_per_second
  const server = makeServer({
    ...common,
    kernel: requests,
    ownDatabase: kernel.db,
    bell,
    tail,
    claims,
    keys,
    browserSessions,
    signIn,
    random: systemRandom,
    fusion,
    board,
    isPublic: !isLoopback(host),
    ...networkOf(settings.server, options.folder, host, signIn?.origin),
    isReceiving: () => receiver.isUp(),
    rate: { perSecond, burst: perSecond * 2 },
    workerSettings: {
      beatSeconds: worker.beat_seconds,
      inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
      suspendTimeoutSeconds: worker.suspend_timeout_seconds,
      transcriptMaxBytes: worker.transcript_max_bytes,
    },
    pages: options.pages ?? dashboardPages(dashboardFolder),
    metrics,
    ...defined({ parts: options.parts && partFacts(options.parts) }),
  })
  try {
    const url = await receiver.listen(server.app, host, options.port ?? settings.server.port)
    const loops = Promise.all([
      keys.run(signal),
      watch.run(signal),
      loop({ ...common, name: 'server pruning', intervalMs: pruneIntervalMs, steady: true }, () =>
        prune(kernel.db, settings.server.audit_retention_days),
      ),
    ])
    options.onReady?.({
      ready: true,
      role: 'server',
      url,
      // The key itself only once: later it would be in every log of this process.
      ...(adminKey?.isNew === true ? { adminKey: adminKey.key } : {}),
      ...(adminKey === undefined
        ? {}
        : { adminKeyFile: adminKey.file, loginUrl: await loginUrl(keys, browserSessions, adminKey.key, url) }),
      dataDir: dataDirOf(options),
      views,
      ...(board === undefined ? {} : { root: board.dispatcher.board.root }),
      bell: bell.kind,
      pid: process.pid,
    })
    log.info({ url, views, bell: bell.kind }, 'server is ready')
    await loops
    await server.drain(drainMs)
    return 0
  } finally {
    fusion?.close()
    await server.app.close()
    await claims.close()
    await board?.feed.close()
  }
}

const namesIn = (list: string) =>
  list
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '')

/** TLS, proxies and host names by the settings. */
export function networkOf(
  settings: Settings['server'],
  folder: string,
  host: string,
  publicUrl?: string,
): NetworkOptions & Pick<ServerOptions, 'hosts'> {
  const tls = serverTls(settings, folder)
  const trustedProxies = namesIn(settings.trusted_proxies)
  const wrong = trustedProxies.find((proxy) => !isNetwork(proxy))
  if (wrong !== undefined)
    throw new InvalidInput(
      `"server.trusted_proxies" must have addresses or networks such as 10.0.0.0/8 (got "${wrong}")`,
      { code: 'invalid_settings' },
    )
  const hosts = namesIn(settings.hosts)
  return {
    trustedProxies,
    ...(hosts.length === 0 && !isLoopback(host)
      ? {}
      : { hosts: publicUrl === undefined ? hosts : [...hosts, new URL(publicUrl).hostname] }),
    ...defined({ tls }),
  }
}

function isNetwork(text: string): boolean {
  const [address = '', bits = '0', ...more] = text.split('/')
  const max = isIP(address) === 4 ? 32 : 128
  return isIP(address) !== 0 && more.length === 0 && /^\d{1,3}$/.test(bits) && Number(bits) <= max
}

/** The names of HTTP responses, and instants instead of milliseconds. */
function partFacts(parts: () => readonly PartState[]) {
  const instant = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString())
  return () =>
    parts().map(({ lastEnd, sinceMs, nextStartMs, ...part }) => ({
      ...part,
      last_end: lastEnd,
      since: instant(sinceMs),
      next_start_at: instant(nextStartMs),
    }))
}

/** A link that signs a browser in with the administrator's key, once. */
async function loginUrl(
  keys: KeyStore,
  sessions: BrowserSessions,
  adminKey: string,
  url: string,
): Promise<string | undefined> {
  const grant = await keys.grant(adminKey)
  return grant === undefined
    ? undefined
    : `${url}${loginLink(sessions.createLink({ keyId: grant.keyId, generation: grant.generation ?? '' }))}`
}

async function prune(db: Database, auditDays: number): Promise<void> {
  while ((await pruneAudit(db, auditDays)) >= pruneBatch);
  while ((await pruneResponses(db, responseDays)) >= pruneBatch);
}

const dataDirOf = ({ folder, dataDir }: ServerPartOptions) =>
  dataDir === undefined ? dataFolderOf(folder) : resolve(folder, dataDir)

/** Throws before the first key exists if other machines can reach the address. */
export async function requireKeyFor(host: string, db: Database): Promise<void> {
  if (isLoopback(host) || (await hasKeys(db))) return
  throw new InvalidInput(`No API key exists yet, and other machines can reach ${host}`, {
    code: 'keys_needed',
    hint: 'create a key first: bellwether keys create --role admin, or one start of `up` on 127.0.0.1',
  })
}

async function openAdminKey({ runtime }: PartContext, options: ServerPartOptions, host: string) {
  await requireKeyFor(host, runtime.kernel.db)
  return ensureAdminKey(runtime.kernel, { folder: dataDirOf(options), project: options.folder })
}
