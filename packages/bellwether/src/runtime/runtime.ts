/**
 * Opens what every process needs: the connection pool, a migrated database, the bell, and the kernel on both. At the start it waits
 * up to two minutes for an unavailable database; after that, the loops of the process handle outages. `close` closes everything.
 */
import { type Clock, defined, type Log, type Random } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { openKernel, type Kernel } from '../kernel/kernel.js'
import { migrate } from '../kernel/schema/migrate.js'
import type { Bell } from '../ports/bell/bell.js'
import { doorbellPath } from '../ports/bell/doorbell.js'
import { inProcessBell } from '../ports/bell/in-process.js'
import { notifyBell } from '../ports/bell/notify.js'
import type { BellStatus } from '../ports/bell/ring.js'
import type { Chunks } from '../ports/chunks/chunks.js'
import { notifyChunks } from '../ports/chunks/notify.js'
import type { Database } from '../ports/database/database.js'
import { openDatabase } from '../ports/database/pool.js'
import { uuidv7 } from '../ports/ids.js'
import { defaultCallPolicy, exchangeTimeoutMs, retryUntil, withTimeout } from '../ports/retry.js'
import { notifyStream } from '../ports/stream/notify.js'
import type { EventStream } from '../ports/stream/stream.js'
import type { Settings } from '../settings/schema.js'
import { natsTls } from './parts/tls-files.js'

export interface RuntimeOptions {
  readonly settings: Settings
  readonly log: Log
  readonly clock: Clock
  readonly random: Random
  /** Shown in pg_stat_activity and by the NATS server's monitoring. */
  readonly name: string
  readonly signal: AbortSignal
}

export interface Runtime {
  readonly kernel: Kernel
  readonly bell: Bell
  /** The stream that a relay publishes to; opened by the first call. */
  stream(): EventStream
  /** The live output of turns; opened by the first call. */
  chunks(): Chunks
  bellStatus(): BellStatus & { readonly kind: string }
  close(): Promise<void>
}

// Long enough for PostgreSQL to recover without a restart loop of this process; then its service manager restarts it.
const startMaxMs = 120_000
// The pause stays short, so that the process is ready soon after the database is.
const startRetry = { backoff: { ...defaultCallPolicy.retry.backoff, maxMs: 4_000 }, maxMs: startMaxMs }

export async function openRuntime(options: RuntimeOptions): Promise<Runtime> {
  const { settings, log, clock, random } = options
  const { url, direct_url: directUrl } = settings.database
  if (url === undefined) {
    throw new InvalidInput('No database is configured', {
      code: 'no_database',
      hint: 'set url in section [database] of bellwether.toml, or BELLWETHER__DATABASE__URL; `bellwether up` starts its own',
    })
  }
  const servers = settings.nats.url
  const db = await waitForDatabase({ ...options, url })
  const nats = servers === undefined ? undefined : await natsAdapters()
  const postgres = { url, log, clock, random, ...defined({ directUrl }) }
  const tls = natsTls(settings.nats)
  const natsOptions = (name: string) => ({ servers: servers!, tls, log, clock, random, name })
  const sharedAt = doorbellPath(directUrl ?? url)
  const sharedBell =
    nats === undefined
      ? notifyBell({ ...postgres, ...defined({ sharedAt }) })
      : nats.natsBell(natsOptions(options.name))
  const bell = inProcessBell(sharedBell, random)
  let stream: EventStream | undefined
  let chunks: Chunks | undefined
  return {
    bell,
    kernel: openKernel({ db, bell, ids: uuidv7(clock, random) }),
    stream: () =>
      (stream ??=
        nats === undefined
          ? notifyStream({ bell: sharedBell })
          : nats.natsStream(natsOptions(`${options.name} relay`))),
    chunks: () =>
      (chunks ??= nats === undefined ? notifyChunks(postgres) : nats.natsChunks(natsOptions(`${options.name} chunks`))),
    bellStatus: () => ({ ...sharedBell.status(), kind: sharedBell.kind }),
    async close() {
      const closing = async () => {
        await chunks?.close()
        await stream?.close()
        await bell.close()
        await db.close()
      }
      await withTimeout(clock, exchangeTimeoutMs, 'closing the connections', closing()).catch((error: unknown) => {
        log.warn({ err: error }, 'connections did not close in time')
      })
    },
  }
}

/** Loads the NATS client, which processes without NATS do not need. */
async function natsAdapters() {
  const [{ natsBell }, { natsStream }, { natsChunks }] = await Promise.all([
    import('../ports/bell/nats.js'),
    import('../ports/stream/nats.js'),
    import('../ports/chunks/nats.js'),
  ])
  return { natsBell, natsStream, natsChunks }
}

async function waitForDatabase(options: RuntimeOptions & { readonly url: string }): Promise<Database> {
  const { log, clock, random, signal } = options
  const onTrouble = (error: unknown, tries: number, leftMs: number) =>
    log.warn(
      { err: error, tries, giving_up_in_seconds: Math.ceil(leftMs / 1_000) },
      'database is unavailable; retrying',
    )
  try {
    return await retryUntil(startRetry, () => migrated(options), { clock, random, signal, onRetry: onTrouble })
  } catch (error) {
    if (!(error instanceof Retryable)) throw error
    if (signal.aborted) throw new Terminal('Stopped while waiting for the database', { code: 'stopped', cause: error })
    throw new Terminal(`The database was not available within ${startMaxMs / 1_000} s: ${error.message}`, {
      code: 'database_away',
      cause: error,
      hint: error.hint ?? 'check that PostgreSQL runs and that [database] url is correct',
    })
  }
}

async function migrated(options: RuntimeOptions & { readonly url: string }): Promise<Database> {
  const { settings, log, url, name } = options
  const { pool_size: poolSize, statement_timeout_seconds: statementSeconds } = settings.database
  const onLost = (error: Error) => log.warn({ err: error }, 'database connection lost')
  const db = await openDatabase({
    url,
    applicationName: name,
    poolSize,
    statementTimeoutMs: statementSeconds * 1_000,
    onLost,
    onUnprepared: (error) =>
      log.warn({ err: error }, 'the connection pooler drops prepared statements; continuing without them'),
  })
  try {
    const { applied, verbsReplaced } = await migrate(db)
    if (applied.length > 0 || verbsReplaced) log.info({ applied, verbs_replaced: verbsReplaced }, 'database migrated')
    return db
  } catch (error) {
    await db.close()
    throw error
  }
}
