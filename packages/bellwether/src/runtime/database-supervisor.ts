/**
 * The embedded database of one machine's house, started again on its port whenever it ends: the pool and the workers find it there.
 * Always: what became of it is told like that of any part; `stop` leaves no server behind.
 */
import { resolve } from 'node:path'
import { type Log, systemClock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { startEmbedded, type Embedded } from '../ports/database/embedded.js'
import { databaseFolder } from './paths.js'
import { restartOf } from './restart-policy.js'
import type { PartState } from './supervisor.js'

export interface KeptDatabase {
  readonly url: string
  readonly part: PartState
  stop(): Promise<void>
}

// Endings that are remembered: more than a crash loop needs.
const endingsMax = 20

export async function keepDatabase(
  dataDir: string,
  log: Log,
  onChange: (part: PartState) => void = () => undefined,
): Promise<KeptDatabase> {
  const start = (port: number) => startEmbedded({ dataDir: resolve(dataDir, databaseFolder), port, log })
  let server: Embedded = await start(0).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'folder_unreachable') throw elsewhere(error)
    throw error
  })
  const { url, port } = server
  const over = new AbortController()
  const ended: number[] = []
  let part: PartState = {
    name: 'database',
    status: 'ready',
    pid: server.pid,
    restarts: 0,
    lastEnd: null,
    sinceMs: systemClock.wallMs(),
    nextStartMs: null,
  }

  function change(changed: Partial<PartState>): void {
    part = { ...part, sinceMs: systemClock.wallMs(), nextStartMs: null, ...changed }
    onChange(part)
  }

  async function keep(): Promise<void> {
    while (!over.signal.aborted) {
      const { unexpected, reason } = await server.exited
      if (!unexpected || over.signal.aborted) return
      ended.push(systemClock.monotonicMs())
      if (ended.length > endingsMax) ended.shift()
      const { afterMs, quarantined } = restartOf(ended)
      const status = quarantined ? 'quarantined' : 'waiting'
      change({ status, pid: null, lastEnd: reason, nextStartMs: systemClock.wallMs() + afterMs })
      log.error({ reason, again_in_seconds: afterMs / 1_000 }, 'the database ended; it is started again')
      await systemClock.sleep(afterMs, over.signal)
      if (over.signal.aborted) return
      try {
        server = await start(port)
        change({ status: 'ready', pid: server.pid, restarts: part.restarts + 1 })
      } catch (error) {
        log.error({ err: error }, 'the database could not be started again')
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
      over.abort()
      await server.stop()
      await keeping
      // A start that was under way when the end was called.
      await server.stop()
    },
  }
}

function elsewhere(cause: Error): InvalidInput {
  return new InvalidInput(cause.message, {
    code: 'folder_unreachable',
    cause,
    hint: 'give --data DIR, a folder that PostgreSQL’s account can reach, /var/lib/bellwether for example',
  })
}
