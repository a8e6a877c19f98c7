/**
 * The server under test: `bellwether up` as a user starts it, restarted on the same port with the same key. Its pids and memory
 * are read from outside. Which faults it meets is left to the scenarios and to chaos.
 */
import { readFileSync } from 'node:fs'
import type { Clock } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { projectId } from './actors.js'
import type { DemoFolder } from './folder.js'
import { memoryOf, postmasterOf, sendSignal, workersOf } from './processes.js'
import { startUp, type UpInfo, type UpProcess } from './up-process.js'

export interface Server {
  /** The ready line of the latest start. */
  readonly info: UpInfo
  /** When it became ready (monotonic); undefined while it is down. */
  readonly upSinceMs: number | undefined
  /** Starts it, or restarts it after it has exited. */
  start(): Promise<UpInfo>
  /** Sends SIGKILL and nothing else: its children exit by themselves, its database keeps running. */
  kill(): Promise<void>
  stop(atOnce: boolean): Promise<void>
  /** Pids of its running workers. */
  workers(): number[]
  databasePid(): number | undefined
  /** Memory of the server and its workers. */
  memory(): readonly { readonly pid: number; readonly mebibytes: number }[]
}

export interface ServerOptions {
  readonly folder: DemoFolder
  readonly program: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
  /** Ends the retries of a start. */
  readonly signal: AbortSignal
}

// A killed server needs a few seconds to release its folder.
const startTries = 8
const retryMs = 1_500
const pollMs = 100
// Waiting does not cure these.
const lasting = new Set(['folder_not_ours', 'no_account', 'flock_missing', 'agent_files_bad', 'folder_unreachable'])
const logTailChars = 4_000
// A worker drains for 20 s, and the server stops its parts one after the other.
const drainMs = 45_000
const atOnceMs = 15_000
const databaseStopMs = 15_000

export function openServer({ folder, program, env, clock, signal }: ServerOptions): Server {
  let up: UpProcess | undefined
  let info: UpInfo | undefined
  let upSinceMs: number | undefined
  let port = '0'

  async function start(): Promise<UpInfo> {
    // The demo wrote the folder itself.
    const args = ['--port', port, '--data', folder.dataDir, '--project', projectId, '--trust']
    for (let tries = 1; ; tries += 1) {
      try {
        up = await startUp({ program, args, env, cwd: folder.project, logFile: folder.logFile })
        break
      } catch (error) {
        const cause = reportedCause(folder.logFile, error)
        if (signal.aborted || tries >= startTries || (cause instanceof Terminal && lasting.has(cause.code))) throw cause
        await clock.sleep(retryMs, signal)
      }
    }
    const started = up
    info = started.info
    port = new URL(info.url).port
    upSinceMs = clock.monotonicMs()
    void started.exited.then(() => {
      if (up === started) upSinceMs = undefined
    })
    return info
  }

  /** Stops a database that a killed server left running. SIGINT is PostgreSQL's fast shutdown. */
  async function stopDatabase(): Promise<void> {
    const untilMs = clock.monotonicMs() + databaseStopMs
    for (let pid = postmasterOf(folder.dataDir); pid !== undefined; pid = postmasterOf(folder.dataDir)) {
      if (clock.monotonicMs() > untilMs)
        throw new Terminal(`PostgreSQL (pid ${pid}) did not stop within ${databaseStopMs / 1_000} s`, {
          code: 'database_running',
          hint: `stop it with: kill ${pid}`,
        })
      sendSignal(pid, 'SIGINT')
      await clock.sleep(pollMs)
    }
  }

  const pids = () => (up?.isAlive() === true ? [up.pid, ...workersOf(up.pid)] : [])
  return {
    get info() {
      if (info === undefined) throw new Terminal('The server has not been started', { code: 'server_down' })
      return info
    },
    get upSinceMs() {
      return upSinceMs
    },
    start,
    async kill() {
      upSinceMs = undefined
      up?.kill()
      await up?.exited
    },
    async stop(atOnce) {
      upSinceMs = undefined
      await up?.stop(atOnce, atOnce ? atOnceMs : drainMs)
      await stopDatabase()
    },
    workers: () => pids().slice(1),
    databasePid: () => postmasterOf(folder.dataDir),
    memory: () => pids().map((pid) => ({ pid, mebibytes: memoryOf(pid) })),
  }
}

/** The last error in the server's log says more than its exit. */
function reportedCause(logFile: string, error: unknown): unknown {
  const last = [
    ...readFileSync(logFile, 'utf8')
      .slice(-logTailChars)
      .matchAll(/^error: (.*) \[(\w+)\]$/gm),
  ].at(-1)
  if (last === undefined) return error
  return new Terminal(`bellwether up cannot start: ${last[1]}`, {
    code: last[2] ?? 'up_failed',
    cause: error,
    hint: `read its log in ${logFile}`,
  })
}
