/**
 * Runs a PostgreSQL server for one test that kills it; other tests share the server of the global setup. `kill` sends SIGKILL to the
 * postmaster and its children, or SIGQUIT. `restart` recovers the same data on the same port, so that clients reconnect.
 */
import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startEmbedded } from '../../../src/ports/database/embedded.js'
import { freePort } from '../nats.js'
import { seedCluster, testFolder } from '../postgres.js'
import { quietLog } from '../quiet-log.js'

export interface OwnPostgres {
  readonly url: string
  kill(signal?: 'SIGKILL' | 'SIGQUIT'): Promise<void>
  restart(): Promise<void>
  /** Stops every process of the server with SIGSTOP, or continues them: clients wait without an error. */
  pause(stopped: boolean): Promise<void>
  /** Ends the server and removes its folder. */
  stop(): Promise<void>
}

export async function startOwnPostgres({ durable = false } = {}): Promise<OwnPostgres> {
  const folder = await testFolder()
  const options = {
    dataDir: join(folder, 'postgres'),
    port: await freePort(),
    settings: durable ? {} : { fsync: 'off', full_page_writes: 'off' },
    log: quietLog,
  }
  if (!durable) seedCluster(options.dataDir)
  let server = await startEmbedded(options)
  let dead = false

  async function kill(signal: 'SIGKILL' | 'SIGQUIT' = 'SIGKILL'): Promise<void> {
    if (dead) return
    dead = true
    const children = signal === 'SIGKILL' ? await childrenOf(server.pid) : []
    process.kill(server.pid, signal)
    for (const pid of children) signalIfAlive(pid, 'SIGKILL')
    await server.exited
  }

  return {
    url: server.url,
    kill,
    async restart() {
      await kill()
      server = await startEmbedded(options)
      dead = false
    },
    async pause(stopped) {
      const signal = stopped ? 'SIGSTOP' : 'SIGCONT'
      // The postmaster first: while it is stopped, it starts no more children.
      process.kill(server.pid, signal)
      for (const pid of await childrenOf(server.pid)) signalIfAlive(pid, signal)
    },
    async stop() {
      if (!dead) await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function childrenOf(pid: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'pid=', '--ppid', String(pid)])
  return stdout
    .split('\n')
    .map(Number)
    .filter((child) => child > 0)
}

function signalIfAlive(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    // It may have ended, by itself or with its postmaster.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
