/**
 * Runs the PostgreSQL binaries from npm on a data folder. Order of a start: lock the folder, verify the cluster's identity,
 * adopt a running postmaster or start a new one. The lock is released only when the postmaster has ended or is no longer ours.
 * After an unexpected exit the supervisor calls `startEmbedded` again, which reuses the port if possible.
 */
import { defined, type Log } from '@bellwether/base'
import { adoptPostmaster, urlOf, verifyServer } from './adopt.js'
import { chooseAccount, grantFolder } from './account.js'
import { findBinaries } from './binaries.js'
import { clusterExists, createCluster, readIdentity, writeConf } from './cluster.js'
import { takeFolderLock, type FolderLock } from './folder-lock.js'
import { launchPostmaster, savePort } from './launch.js'
import { layoutOf, makeFolder, type Layout } from './layout.js'
import { reachableBinaries } from './reachable-binaries.js'
import { stopPostmaster, type Postmaster } from './postmaster.js'
import { rotateLog } from './server-log.js'
import { tunedSettings, type Settings } from './settings.js'

export interface EmbeddedOptions {
  /** A folder for the cluster alone; created if missing, rejected if it contains other files. */
  readonly dataDir: string
  /** 0 or absent: the port of the last start if it is free, else any free port. */
  readonly port?: number
  readonly log: Pick<Log, 'info' | 'warn'>
  /** Override the tuned settings at the next start of the server; benchmarks turn fsync off. */
  readonly settings?: Settings
  /** How long the server runs on if this process is killed, so that another start can adopt it. Default: 3 s. */
  readonly orphanMs?: number
}

export interface Embedded {
  readonly url: string
  readonly pid: number
  readonly port: number
  /** True if the server was already running, left by a process that crashed. */
  readonly adopted: boolean
  /** Resolves when the server has ended or the lock is lost; the folder can then be started again. */
  readonly exited: Promise<EmbeddedExit>
  stop(): Promise<void>
}

interface EmbeddedExit {
  /** False after `stop()`. */
  readonly unexpected: boolean
  readonly reason: string
}

const logCheckMs = 60_000

export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const layout = layoutOf(options.dataDir)
  const settings = { ...tunedSettings, ...options.settings }
  const installed = await findBinaries()
  await makeFolder(layout)
  const lock = await takeFolderLock(layout.lock, {
    cluster: layout.cluster,
    ...defined({ orphanMs: options.orphanMs }),
  })
  try {
    const account = await chooseAccount(layout)
    await grantFolder(account, layout)
    const binaries = await reachableBinaries(account, layout, installed)
    if (!(await clusterExists(layout))) {
      options.log.info({ dataDir: layout.dataDir }, 'creating the embedded database')
      await createCluster(layout, account, binaries, settings)
    }
    const identity = await readIdentity(layout, binaries)
    const port = options.port ?? 0
    const left = await adoptPostmaster(layout, identity, { binary: binaries.postgres, port })
    if (left) {
      options.log.warn({ pid: left.pid }, 'adopted the PostgreSQL that an earlier process left running')
      return handle(options, layout, lock, left, { url: urlOf(identity, left.port), adopted: true })
    }
    await writeConf(layout, account, settings)
    const launch = { layout, account, binaries, port }
    const postmaster = await launchPostmaster(launch)
    try {
      await verifyServer(layout, identity, postmaster.port)
      await savePort(launch, postmaster.port)
    } catch (error) {
      await stopPostmaster(postmaster)
      throw error
    }
    options.log.info({ pid: postmaster.pid, port: postmaster.port }, 'embedded database ready')
    return handle(options, layout, lock, postmaster, { url: urlOf(identity, postmaster.port), adopted: false })
  } catch (error) {
    await lock.release()
    throw error
  }
}

function handle(
  { log }: EmbeddedOptions,
  layout: Layout,
  lock: FolderLock,
  postmaster: Postmaster,
  facts: { readonly url: string; readonly adopted: boolean },
): Embedded {
  let stopping: Promise<void> | undefined
  let over = false
  const bound = setInterval(() => {
    rotateLog(layout.log).catch((error: unknown) => log.warn({ error }, 'cannot rotate the server log'))
  }, logCheckMs)
  bound.unref()

  const ended = Promise.race([
    postmaster.exited,
    // The server keeps running: the next start takes the lock and adopts it.
    lock.lost.then(() => 'the folder lock was lost'),
  ])
  const exited = ended.then(async (reason): Promise<EmbeddedExit> => {
    over = true
    clearInterval(bound)
    const unexpected = stopping === undefined
    await lock.release()
    if (unexpected) log.warn({ pid: postmaster.pid, reason }, 'embedded database ended unexpectedly')
    return { unexpected, reason }
  })
  async function end(): Promise<void> {
    // Without the lock the server must not be signalled: another process may have adopted it.
    if (!over) await stopPostmaster(postmaster)
    await exited
  }
  const { pid, port } = postmaster
  return { ...facts, pid, port, exited, stop: () => (stopping ??= end()) }
}
