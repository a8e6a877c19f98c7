/**
 * Composes `bellwether server`: the HTTP API on an open house, with the keys of its database, the board of a task root and the views
 * where they are wanted, and the watchdog of workers outside. Always: a public address needs a key that was made before; what was
 * opened here is closed here; told to stop, it ends streams and waits, answers what is under way, and goes.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { errorMessage, type Log, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, subjects, token } from '@bellwether/protocol'
import { openFeed } from '../board/log/feed.js'
import { openKeyStore, type KeyStore } from '../http/key-store.js'
import { openLogins, type Logins } from '../http/browser-sessions.js'
import { openClaims } from '../http/remote/claims.js'
import { openRemoteWatch } from '../http/remote/watch.js'
import type { BoardParts } from '../http/routes/board.js'
import { dashboardPages } from '../http/pages.js'
import { makeServer, type ServerOptions } from '../http/server.js'
import { openTail } from '../http/tail.js'
import { pruneAnswers } from '../kernel/access/idempotency.js'
import { pruneAudit, writeAudit } from '../kernel/access/audit-log.js'
import { createFirstKey, hasKeys, hashKey, readLiveKeys } from '../kernel/access/api-keys.js'
import type { Database } from '../ports/database/database.js'
import { systemDisk } from '../ports/disk/disk.js'
import type { Ids } from '../ports/ids.js'
import { loop } from '../ports/loop.js'
import type { Settings } from '../settings/schema.js'
import { openFusion } from '../view/fusion.js'
import { openDispatcher, openTaskRoot } from './board.js'
import type { House } from './runtime.js'
import { adminKeyFile, dataFolder } from './paths.js'
import { evidenceOf } from './remote-evidence.js'
import { kernelSpawner } from './spawner.js'
import type { PartState } from './supervisor.js'
import { isLoopback, viewSettings } from './view.js'

export interface ServerFlags {
  /** The project folder: [board] root and .bellwether/ are looked for here. */
  readonly folder: string
  readonly host?: string
  readonly port?: number
  /** Views to serve. */
  readonly views?: readonly string[]
  /** The task root whose board is served; absent: [board] root, else no board. */
  readonly root?: string
  /** Whose agents do the board's tasks. */
  readonly projectId?: string
  /** Where the first admin's key is kept; absent: .bellwether in the folder. */
  readonly dataDir?: string
  readonly onReady?: (facts: Readonly<Record<string, unknown>>) => void
  /** The house's own numbers, for /metrics. */
  readonly metrics?: () => Promise<string>
  /** The processes that somebody keeps beside the server. */
  readonly parts?: () => readonly PartState[]
  /** The dashboard's files, say. */
  readonly pages?: ServerOptions['pages']
}

export interface RunServerOptions extends ServerFlags {
  readonly house: House
  readonly settings: Settings
  readonly log: Log
  readonly signal: AbortSignal
}

// In-flight requests are bounded by the statement timeout; supervisors kill after 30 s.
const drainMs = 15_000
const choresMs = 3_600_000
const dayMs = 86_400_000
// Nobody repeats a request after a week.
const answerDays = 7
/** In a published package the dashboard lies within the build; in the workspace beside the package, from source and build alike. */
const dashboardFolder = ['../dashboard', '../../../dashboard/dist']
  .map((place) => fileURLToPath(new URL(place, import.meta.url)))
  .find((place, at) => at === 1 || existsSync(place))!
const pruneFull = 5_000

export async function runServer(options: RunServerOptions): Promise<number> {
  const { house, settings, log, signal, views = [] } = options
  const { kernel, bell } = house
  const host = options.host ?? settings.server.host
  const adminKey = await firstKey(options, host)
  const clock = systemClock
  const common = { clock, log, signal }
  const fusion =
    views.length === 0
      ? undefined
      : openFusion({
          views: Object.fromEntries(views.map((name) => [name, viewSettings(settings.view)])),
          clock,
          ids: kernel.ids,
          random: systemRandom,
          log,
        })
  const keys = openKeyStore({ db: kernel.db, clock, log, onlyView: views.length === 1 ? views[0] : undefined })
  await keys.refresh()
  const tail = openTail({ db: kernel.db, clock, log })
  const board = await openBoardPart(options)
  const logins = openLogins({ clock, random: systemRandom })
  const { worker } = settings
  const watch = openRemoteWatch({
    kernel,
    clock,
    log,
    settings: {
      watchdogIntervalSeconds: worker.watchdog_interval_seconds,
      inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
      maxAttempts: worker.max_attempts,
    },
    onFreed: () => claims.wakeAll(),
  })
  const claims = openClaims({
    kernel,
    bell,
    clock,
    log,
    watch,
    settings: { pollSeconds: worker.poll_seconds, resumeLeaseSeconds: worker.resume_lease_seconds },
    onEnded: () => tail.wake(),
  })
  const listening = await bell.listen(subjects.anyEvent, () => tail.wake())
  const perSecond = settings.server.requests_per_second
  const server = makeServer({
    ...common,
    kernel,
    tail,
    claims,
    keys,
    logins,
    random: systemRandom,
    fusion,
    board: board?.parts,
    isPublic: !isLoopback(host),
    rate: { perSecond, burst: perSecond * 2 },
    workerSettings: {
      beatSeconds: worker.beat_seconds,
      inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
      suspendTimeoutSeconds: worker.suspend_timeout_seconds,
    },
    pages: options.pages ?? dashboardPages(dashboardFolder),
    ...(options.metrics === undefined ? {} : { metrics: options.metrics }),
    ...(options.parts === undefined ? {} : { parts: partFacts(options.parts) }),
  })
  if (fusion !== undefined) server.app.server.on('error', (error: Error) => fusion.receiver(error.message))
  try {
    const url = await listen(server.app, host, options.port ?? settings.server.port)
    const loops = Promise.all([
      keys.run(signal),
      tail.run(signal),
      watch.run(signal),
      fusion?.run(signal),
      loop({ ...common, name: 'the server’s chores', intervalMs: choresMs, steady: true }, () =>
        prune(kernel.db, settings.server.audit_retention_days),
      ),
    ])
    options.onReady?.({
      ready: true,
      role: 'server',
      url,
      ...(adminKey === undefined ? {} : { adminKey, loginUrl: await loginUrl(keys, logins, adminKey, url) }),
      views,
      ...(board === undefined ? {} : { root: board.parts.dispatcher.board.root }),
      bell: bell.kind,
      pid: process.pid,
    })
    log.info({ url, views, bell: bell.kind }, 'the server is ready')
    await loops
    await server.drain(drainMs)
    return 0
  } finally {
    fusion?.close()
    await server.app.close()
    await listening.stop()
    await claims.close()
    await board?.close()
  }
}

/** For people: instants instead of milliseconds. */
function partFacts(parts: () => readonly PartState[]) {
  const instant = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString())
  return () =>
    parts().map(({ sinceMs, nextStartMs, ...part }) => ({
      ...part,
      since: instant(sinceMs),
      nextStartAt: instant(nextStartMs),
    }))
}

async function listen(app: ReturnType<typeof makeServer>['app'], host: string, port: number): Promise<string> {
  await app.listen({ host, port }).catch((error: unknown) => {
    throw new InvalidInput(`cannot listen on ${host}: ${errorMessage(error)}`, {
      code: 'cannot_listen',
      cause: error,
    })
  })
  const address = app.server.address() as AddressInfo
  return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`
}

/** Where a person goes first: the link signs a browser in with the admin's key, once. */
async function loginUrl(keys: KeyStore, logins: Logins, adminKey: string, url: string): Promise<string | undefined> {
  const grant = await keys.grant(adminKey)
  return grant === undefined ? undefined : `${url}/login?token=${logins.invite(grant.keyId)}`
}

interface OpenBoardPart {
  readonly parts: BoardParts
  close(): Promise<void>
}

async function openBoardPart(options: RunServerOptions): Promise<OpenBoardPart | undefined> {
  const { house, settings, log, signal } = options
  const named = options.root ?? settings.board.root
  if (named === undefined) return undefined
  const projectId = token(options.projectId ?? 'default', 'project')
  const opened = await openTaskRoot({
    root: resolve(options.folder, named),
    owner: `server:${process.pid}`,
    settings: settings.board,
    log,
    signal,
  })
  const dispatcher = openDispatcher(opened, {
    spawner: kernelSpawner({
      kernel: house.kernel,
      projectId,
      clock: systemClock,
      log,
      keepsMs: settings.pmo.retention_days * dayMs,
    }),
    evidence: evidenceOf(settings.board, opened.board.root, opened.ids),
    actor: 'server',
  })
  const feed = await openFeed(join(opened.board.root, 'state', 'tasks.jsonl'), systemDisk)
  return {
    parts: { dispatcher, caches: opened.caches, feed, projectId, clock: systemClock, log, signal },
    async close() {
      await feed.close()
      await opened.alerts.settled()
      await opened.board.close()
    },
  }
}

async function prune(db: Database, auditDays: number): Promise<void> {
  while ((await pruneAudit(db, auditDays)) >= pruneFull);
  while ((await pruneAnswers(db, answerDays)) >= pruneFull);
}

/** The first admin's key: made when there is no key at all, kept in a file that only this account can read. */
async function firstKey(options: RunServerOptions, host: string): Promise<string | undefined> {
  const { kernel } = options.house
  const { db } = kernel
  const folder = resolve(options.folder, options.dataDir ?? dataFolder)
  if (!isLoopback(host) && !(await hasKeys(db))) {
    throw new InvalidInput(`${host} can be reached from other machines, and there is no key yet`, {
      code: 'keys_needed',
      hint: 'make one first: bellwether keys create --role admin; or listen on 127.0.0.1',
    })
  }
  return ensureFirstKey(db, kernel.ids, folder)
}

/** Made when there is none at all; answers it, now and at later starts in the same folder, while it is good. */
export async function ensureFirstKey(db: Database, ids: Ids, folder: string): Promise<string | undefined> {
  const file = join(folder, adminKeyFile)
  const made = await createFirstKey(db, { ids, random: systemRandom }, 'first start')
  if (made === undefined) return keptKey(db, file)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  writeFileSync(file, `${made.key}\n`, { mode: 0o600 })
  // An older file keeps its mode when it is written again.
  chmodSync(file, 0o600)
  const deed = { actor: 'first start', role: null, address: null, status: 201, code: null }
  await writeAudit(db, [{ ...deed, method: 'CREATE', path: `/keys/${made.keyId}` }])
  return made.key
}

/** The key of an earlier start, while it is good. */
async function keptKey(db: Database, file: string): Promise<string | undefined> {
  let key: string
  try {
    key = readFileSync(file, 'utf8').trim()
  } catch (error) {
    // Another machine made it, or somebody took it away: both as it should be.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const hash = hashKey(key)
  const known = await readLiveKeys(db)
  return known.some((one) => one.role === 'admin' && one.hash.equals(hash)) ? key : undefined
}
