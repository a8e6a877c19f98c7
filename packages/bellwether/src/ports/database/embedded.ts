/**
 * PostgreSQL with nothing to install: real server binaries from npm, run on a folder of ours. In this order, always:
 * the folder's kernel lock, the cluster's identity, a postmaster (one left behind is adopted, else a new one), and the
 * lock is let go only when the postmaster is gone or given up. Restarting after an unexpected exit is the supervisor's:
 * it waits for `exited` and calls `startEmbedded` again, which takes the same port if it can.
 */
import type { Log } from '@bellwether/base'
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
  /** A folder of the cluster's own; made if absent, refused if it holds anything else. */
  readonly dataDir: string
  /** 0 or absent: the last start's port if it is free, else any free one. */
  readonly port?: number
  readonly log: Pick<Log, 'info' | 'warn'>
  /** Overrule the tuning at the next start of the server; tests of speed turn fsync off here. */
  readonly settings?: Settings
}

export interface Embedded {
  readonly url: string
  readonly pid: number
  readonly port: number
  /** True when the server was already running, left by a process that died. */
  readonly adopted: boolean
  /** Resolves once the server is no longer ours, expected or not; the folder is then free for another start. */
  readonly exited: Promise<EmbeddedExit>
  stop(): Promise<void>
}

export interface EmbeddedExit {
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
  const lock = await takeFolderLock(layout.lock)
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
      options.log.warn({ pid: left.pid }, 'took over the PostgreSQL that an earlier process left running')
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
    options.log.info({ pid: postmaster.pid, port: postmaster.port }, 'the embedded database is ready')
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
    rotateLog(layout.log).catch((error: unknown) => log.warn({ error }, 'the server log could not be bounded'))
  }, logCheckMs)
  bound.unref()

  const ended = Promise.race([
    postmaster.exited,
    // The server is left as it is: the next start takes the lock again and adopts it.
    lock.lost.then(() => 'the folder lock was lost'),
  ])
  const exited = ended.then(async (reason): Promise<EmbeddedExit> => {
    over = true
    clearInterval(bound)
    const unexpected = stopping === undefined
    await lock.release()
    if (unexpected) log.warn({ pid: postmaster.pid, reason }, 'the embedded database ended unexpectedly')
    return { unexpected, reason }
  })
  async function end(): Promise<void> {
    // Once the lock is gone, so is the right to signal: the server may be another process's by now.
    if (!over) await stopPostmaster(postmaster)
    await exited
  }
  const { pid, port } = postmaster
  return { ...facts, pid, port, exited, stop: () => (stopping ??= end()) }
}
