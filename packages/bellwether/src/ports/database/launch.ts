/**
 * Starts a postmaster on a cluster that has none and waits until it is ready. The server has its own session and log and does
 * not depend on this process: it survives Ctrl-C and a crash. Called only under the folder lock, after adopt.ts found no
 * running postmaster.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdir, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { poll, systemClock } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import type { Binaries } from './binaries.js'
import { readIfExists } from './cluster.js'
import type { Layout } from './layout.js'
import { chownTo, writeOwnFile } from './own-file.js'
import { type Postmaster, readPidFile, stopPostmaster } from './postmaster.js'
import { idsOf, plainEnv, type Account } from './program.js'
import { openServerLog } from './server-log.js'

const readyMs = 300_000 // crash recovery may have to replay max_wal_size
const orphansMs = 20_000 // backends of a killed postmaster exit within a second or after their current statement
const portTries = 5
const socketPathMax = 100 // the kernel's limit is 107

export interface Launch {
  readonly layout: Layout
  readonly account: Account
  readonly binaries: Binaries
  /** 0: the port of the last start if it is free, else any free port. */
  readonly port: number
}

export async function launchPostmaster(launch: Launch): Promise<Postmaster> {
  const startMs = systemClock.monotonicMs()
  for (let tries = 1; ;) {
    const port = await choosePort(launch, tries)
    const started = await startOn(launch, port)
    if (typeof started !== 'string') return started
    const portTaken = /could not bind|could not create any TCP\/IP sockets/.test(started)
    const orphans = /pre-existing shared memory block/.test(started)
    if (portTaken && launch.port === 0 && tries < portTries) tries += 1
    else if (orphans && systemClock.monotonicMs() - startMs < orphansMs) await systemClock.sleep(250)
    else if (portTaken) throw portInUse(port)
    else throw startFailed(launch.layout, started)
  }
}

/** Saves the port for the next start, so that clients with this URL can reconnect after a restart. */
export async function savePort({ layout, account }: Launch, port: number): Promise<void> {
  await writeOwnFile(layout.lastPort, `${port}\n`, { account })
}

/** A running postmaster, or the log's explanation of the failed start. */
async function startOn({ layout, account, binaries }: Launch, port: number): Promise<Postmaster | string> {
  const socketDir = await freshSocketDir(layout, account)
  const stale = await readPidFile(layout.cluster)
  const log = await openServerLog(layout.log, account)
  try {
    const args = ['-D', layout.cluster, '-p', String(port), '-k', socketDir]
    const child = spawn(binaries.postgres, args, {
      ...idsOf(account),
      cwd: layout.dataDir,
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
      // A stale pid file whose pid now belongs to another program would make the server refuse to start. With that pid in
      // PG_GRANDPARENT_PID, as pg_ctl sets it, the server replaces the file after its own checks of shared memory.
      env: { ...plainEnv(), ...(stale && { PG_GRANDPARENT_PID: String(stale.pid) }) },
    })
    const { exited, ended } = endOf(child)
    const pid = child.pid
    if (pid === undefined) return await exited
    const postmaster: Postmaster = { pid, port, exited, signal: async (name) => void child.kill(name) }
    const state = await poll(systemClock, { everyMs: 20, withinMs: readyMs }, async () => {
      if (ended()) return 'ended' as const
      const file = await readPidFile(layout.cluster)
      return file?.pid === pid && file.status === 'ready' ? ('ready' as const) : undefined
    })
    if (state === 'ready') return postmaster
    if (state === 'ended') return (await log.tail()) || (await exited)
    await stopPostmaster(postmaster)
    throw notReady(layout)
  } finally {
    await log.close()
  }
}

function endOf(child: ChildProcess): { exited: Promise<string>; ended: () => boolean } {
  let over = false
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`failed to start: ${error.message}`))
    child.once('exit', (code, signal) => resolve(signal ? `killed by ${signal}` : `exited with code ${code}`))
  })
  void exited.then(() => (over = true))
  return { exited, ended: () => over }
}

/** No server runs, so existing socket and lock files are stale. Empty if the path is too long: no socket. */
async function freshSocketDir(layout: Layout, account: Account): Promise<string> {
  await rm(layout.socketDir, { recursive: true, force: true })
  if (Buffer.byteLength(layout.socketDir) > socketPathMax - '.s.PGSQL.65535.lock'.length) return ''
  await mkdir(layout.socketDir, { mode: 0o700 })
  await chownTo(account, layout.socketDir)
  return layout.socketDir
}

async function choosePort({ layout, port }: Launch, tries: number): Promise<number> {
  if (port !== 0) return port
  const last = tries === 1 ? Number(await readIfExists(layout.lastPort)) : 0
  if (last > 0 && (await bindable(last)) !== undefined) return last
  const free = await bindable(0)
  if (free !== undefined) return free
  throw new Retryable('No free port on 127.0.0.1', {
    code: 'no_port',
    hint: 'Close some connections, then start again.',
  })
}

function bindable(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(undefined))
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' ? address?.port : undefined))
    })
  })
}

function portInUse(port: number): Terminal {
  return new Terminal(`Port ${port} on 127.0.0.1 is in use by another program`, {
    code: 'port_in_use',
    hint: 'Choose another port, or leave it out to use any free port.',
  })
}

function startFailed(layout: Layout, output: string): Terminal {
  const full = output.includes('No space left on device')
  return new Terminal(`PostgreSQL failed to start. The end of ${layout.log}:\n${output}`, {
    code: full ? 'disk_full' : 'postgres_failed',
    hint: full ? 'Free some disk space, then start again. No data is lost.' : 'Read the log. Nothing was removed.',
  })
}

function notReady(layout: Layout): Retryable {
  return new Retryable(`PostgreSQL was not ready within ${readyMs / 1000} s`, {
    code: 'postgres_slow',
    hint: `Read ${layout.log}. If it is a long recovery, start again: recovery continues.`,
  })
}
