/**
 * Runs the embedded database of `up` and restarts it on the same port when it ends, so that pools and workers reconnect. It reports
 * its state like any part. `stop` leaves no server behind.
 */
import { resolve } from 'node:path'
import { hasCode, systemClock, type Log } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { startEmbedded, type Embedded } from '../../ports/database/embedded.js'
import { databaseFolder } from '../paths.js'
import { nextRestart, remember } from './restart-policy.js'
import { newPart, type PartState } from './supervisor.js'

export interface SupervisedDatabase {
  readonly url: string
  readonly part: PartState
  stop(): Promise<void>
}

export async function superviseDatabase(
  dataDir: string,
  log: Log,
  onChange: (part: PartState) => void = () => undefined,
): Promise<SupervisedDatabase> {
  const start = (port: number) => startEmbedded({ dataDir: resolve(dataDir, databaseFolder), port, log })
  let server: Embedded = await start(0).catch((error: unknown) => {
    if (hasCode(error, 'folder_unreachable')) throw withDataHint(error)
    throw error
  })
  const { url, port } = server
  const stopping = new AbortController()
  const ended: number[] = []
  let part: PartState = { ...newPart('database', systemClock), status: 'ready', pid: server.pid }

  function change(changed: Partial<PartState>): void {
    part = { ...part, sinceMs: systemClock.wallMs(), nextStartMs: null, ...changed }
    onChange(part)
  }

  async function keep(): Promise<void> {
    while (!stopping.signal.aborted) {
      const { unexpected, reason } = await server.exited
      if (!unexpected || stopping.signal.aborted) return
      const { afterMs, quarantined } = nextRestart(remember(ended, systemClock.monotonicMs()))
      const status = quarantined ? 'quarantined' : 'waiting'
      change({ status, pid: null, lastEnd: reason, nextStartMs: systemClock.wallMs() + afterMs })
      log.error({ reason, restart_in_seconds: afterMs / 1_000 }, 'embedded database ended; restarting')
      await systemClock.sleep(afterMs, stopping.signal)
      if (stopping.signal.aborted) return
      try {
        server = await start(port)
        change({ status: 'ready', pid: server.pid, restarts: part.restarts + 1 })
      } catch (error) {
        log.error({ err: error }, 'embedded database failed to restart')
      }
    }
  }
  const keeping = keep()

  return {
    url,
    get part() {
      return part
    },
    async stop() {
      stopping.abort()
      await server.stop()
      await keeping
      // A restart may have been in progress.
      await server.stop()
    },
  }
}

function withDataHint(cause: Error): InvalidInput {
  return new InvalidInput(cause.message, {
    code: 'folder_unreachable',
    cause,
    hint: 'give --data DIR, a folder that PostgreSQL’s account can reach, for example /var/lib/bellwether',
  })
}
