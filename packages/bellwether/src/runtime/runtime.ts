/**
 * What every process of the fleet stands on: a pool, the bell, the kernel on both, and a database of this version.
 * Crash-only: a database that is away at the start is waited for, in words and not for ever; later outages are the
 * loops' to outlive. Everything opened here is closed here.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { openKernel, type Kernel } from '../kernel/kernel.js'
import { migrate } from '../kernel/schema/migrate.js'
import type { Bell } from '../ports/bell/bell.js'
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

export interface HouseOptions {
  readonly settings: Settings
  readonly log: Log
  readonly clock: Clock
  readonly random: Random
  /** Shown in pg_stat_activity and by the NATS server's monitoring. */
  readonly name: string
  readonly signal: AbortSignal
}

export interface House {
  readonly kernel: Kernel
  readonly bell: Bell
  /** Where a relay publishes; opened by the first who asks, closed with the house. */
  stream(): EventStream
  /** Where turns say what they are at; opened by the first who asks, closed with the house. */
  chunks(): Chunks
  bellStatus(): BellStatus & { readonly kind: string }
  close(): Promise<void>
}

// A supervisor starts us again after this; until then we spare it a restart loop while PostgreSQL recovers.
const patienceMs = 120_000
// Nobody who has just started a database wants to wait half a minute more for us.
const patience = { backoff: { ...defaultCallPolicy.retry.backoff, maxMs: 4_000 }, maxMs: patienceMs }

export async function openHouse(options: HouseOptions): Promise<House> {
  const { settings, log, clock, random } = options
  const { url, direct_url: directUrl } = settings.database
  if (url === undefined) {
    throw new InvalidInput('no database is named', {
      code: 'no_database',
      hint: 'set url in section [database] of bellwether.toml, or BELLWETHER__DATABASE__URL; `bellwether demo` brings its own',
    })
  }
  const servers = settings.nats.url
  const db = await databaseOnceThere({ ...options, url })
  const away = servers === undefined ? undefined : { servers, ...(await natsAdapters()) }
  const postgres = { url, log, clock, random, ...(directUrl === undefined ? {} : { directUrl }) }
  const named = (name: string) => ({ log, clock, random, name })
  const far =
    away === undefined ? notifyBell(postgres) : away.natsBell({ servers: away.servers, ...named(options.name) })
  const bell = inProcessBell(far, random)
  let stream: EventStream | undefined
  let chunks: Chunks | undefined
  return {
    bell,
    kernel: openKernel({ db, bell, ids: uuidv7(clock, random) }),
    stream: () =>
      (stream ??=
        away === undefined
          ? notifyStream({ bell: far })
          : away.natsStream({ servers: away.servers, ...named(`${options.name} relay`) })),
    chunks: () =>
      (chunks ??=
        away === undefined
          ? notifyChunks(postgres)
          : away.natsChunks({ servers: away.servers, ...named(`${options.name} chunks`) })),
    bellStatus: () => ({ ...far.status(), kind: far.kind }),
    async close() {
      const closing = async () => {
        await chunks?.close()
        await stream?.close()
        await bell.close()
        await db.close()
      }
      await withTimeout(clock, exchangeTimeoutMs, 'closing the connections', closing()).catch((error: unknown) => {
        log.warn({ err: error }, 'the connections did not close in time')
      })
    },
  }
}

/** Its client is loaded where there is a server to talk to. */
async function natsAdapters() {
  const [{ natsBell }, { natsStream }, { natsChunks }] = await Promise.all([
    import('../ports/bell/nats.js'),
    import('../ports/stream/nats.js'),
    import('../ports/chunks/nats.js'),
  ])
  return { natsBell, natsStream, natsChunks }
}

async function databaseOnceThere(options: HouseOptions & { readonly url: string }): Promise<Database> {
  const { log, clock, random, signal } = options
  const onTrouble = (error: unknown, attempt: number, leftMs: number) =>
    log.warn(
      { err: error, attempt, giving_up_in_seconds: Math.ceil(leftMs / 1_000) },
      'the database is away; trying again',
    )
  try {
    return await retryUntil(patience, () => migrated(options), { clock, random, signal, onRetry: onTrouble })
  } catch (error) {
    if (!(error instanceof Retryable)) throw error
    throw gaveUp(error, signal.aborted)
  }
}

async function migrated(options: HouseOptions & { readonly url: string }): Promise<Database> {
  const { settings, log, url, name } = options
  const { pool_size: poolSize, statement_timeout_seconds: statementSeconds } = settings.database
  const onLost = (error: Error) => log.warn({ err: error }, 'a connection to the database was lost')
  const db = await openDatabase({
    url,
    applicationName: name,
    poolSize,
    statementTimeoutMs: statementSeconds * 1_000,
    onLost,
    onUnprepared: (error) =>
      log.warn({ err: error }, 'a pooler does not keep prepared statements; going on without them, somewhat slower'),
  })
  try {
    const { applied, verbsReplaced } = await migrate(db)
    if (applied.length > 0 || verbsReplaced)
      log.info({ applied, verbs_replaced: verbsReplaced }, 'the database was brought to this version')
    return db
  } catch (error) {
    await db.close()
    throw error
  }
}

function gaveUp(cause: Retryable, told: boolean): Terminal {
  if (told) return new Terminal('stopped while waiting for the database', { code: 'stopped', cause })
  return new Terminal(`the database did not come within ${patienceMs / 1_000} s: ${cause.message}`, {
    code: 'database_away',
    cause,
    hint: cause.hint ?? 'see that PostgreSQL runs and that [database] url is right',
  })
}
