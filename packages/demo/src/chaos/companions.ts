/**
 * Processes that run beside `up`, as on other hosts: workers with function agents and a second sensor. Each is started again
 * when it exits, as a service manager would. They hold a pipe from this process and stop when it dies.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { Clock } from '@bellwether/base'
import { projectId } from '../actors.js'
import type { Setup } from '../setup.js'
import { functionsFile, functionTarget } from './project.js'

export interface Companions {
  readonly functionWorkers: () => number[]
  readonly sensors: () => number[]
  stop(): Promise<void>
}

// A worker that its turns kill may exit several times per minute.
const restartMs = 1_000
// A worker drains for 20 s.
const stopMs = 30_000
// A turn that allocates without limit ends its process here and not at the memory of the machine.
const heapMebibytes = { full: 160, quick: 80 } as const

export interface CompanionsOptions {
  readonly setup: Setup
  /** Node's arguments that run the command line: flags and script. */
  readonly program: readonly string[]
  readonly clock: Clock
  readonly functionWorkers: number
  readonly pace: 'full' | 'quick'
  readonly sensorKey: string
}

export function startCompanions(options: CompanionsOptions): Companions {
  const { setup, program, clock, functionWorkers, pace, sensorKey } = options
  const { folder, server, env } = setup
  const stopping = new AbortController()
  const children = new Map<string, ChildProcess>()
  const ended: Promise<void>[] = []

  async function keep(name: string, args: readonly string[], more: Readonly<Record<string, string>>): Promise<void> {
    while (!stopping.signal.aborted) {
      const log = openSync(folder.logFile, 'a')
      const child = spawn(process.execPath, [...program, ...args, '--parent-pipe'], {
        cwd: folder.project,
        env: { ...env, ...more },
        stdio: ['pipe', 'ignore', log],
        detached: true,
      })
      closeSync(log)
      child.stdin?.on('error', () => undefined) // EPIPE after its exit; the exit event reports it
      children.set(name, child)
      await once(child, 'exit')
      await clock.sleep(restartMs, stopping.signal)
    }
  }

  const { url, databaseUrl } = server.info
  const worker = ['worker', '--target', functionTarget, '--agents', functionsFile, '--project', projectId]
  for (let number = 1; number <= functionWorkers; number += 1)
    ended.push(
      keep(`function worker ${number}`, worker, {
        BELLWETHER__DATABASE__URL: databaseUrl,
        NODE_OPTIONS: `--max-old-space-size=${heapMebibytes[pace]}`,
      }),
    )
  const excluded = ['.git', 'node_modules', '/state'].flatMap((glob) => ['--exclude', glob])
  const sensor = ['sensor', '--root', folder.project, '--server', url, '--id', 'companion', ...excluded]
  ended.push(keep('sensor', sensor, { BELLWETHER_SENSOR_KEY: sensorKey }))

  const pids = (prefix: string) =>
    [...children].flatMap(([name, { pid, exitCode, signalCode }]) =>
      name.startsWith(prefix) && pid !== undefined && exitCode === null && signalCode === null ? [pid] : [],
    )
  return {
    functionWorkers: () => pids('function worker'),
    sensors: () => pids('sensor'),
    async stop() {
      stopping.abort()
      for (const child of children.values()) child.kill('SIGTERM')
      const gone = new AbortController()
      void Promise.all(ended).then(() => gone.abort())
      await clock.sleep(stopMs, gone.signal)
      for (const child of children.values()) child.kill('SIGKILL')
      await Promise.all(ended)
    },
  }
}
