/**
 * A PostgreSQL server of one test's own, for tests that kill it; all others share the one of the global setup. Always:
 * `kill` is SIGKILL to the postmaster; `restart` recovers the same data on the same port, so clients find it again.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { startEmbedded } from '../../src/ports/database/embedded.js'
import { freePort } from './nats.js'
import { testFolder } from './postgres.js'
import { quietLog } from './quiet-log.js'

export interface OwnPostgres {
  readonly url: string
  kill(): Promise<void>
  restart(): Promise<void>
  /** Ends the server and removes its folder. */
  stop(): Promise<void>
}

export async function startOwnPostgres(): Promise<OwnPostgres> {
  const folder = await testFolder()
  const options = {
    dataDir: join(folder, 'postgres'),
    port: await freePort(),
    settings: { fsync: 'off', full_page_writes: 'off' },
    log: quietLog,
  }
  let server = await startEmbedded(options)
  let dead = false

  async function kill(): Promise<void> {
    if (dead) return
    dead = true
    process.kill(server.pid, 'SIGKILL')
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
    async stop() {
      if (!dead) await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
