/**
 * A sensor: one root watcher, one sender, and one pipe per view. The failure of a pipe stays in that pipe; a failed watcher or
 * sender fails every pipe. Each unit restarts itself, counts its restarts and logs each change of its state.
 */
import { type Clock, defined, type Log, systemClock } from '@bellwether/base'
import type { HealthState, HealthUnit } from '@bellwether/protocol'
import { isExcludedBy, parseExclude } from './disk/exclude.js'
import { openHttp, type Http } from './ports/http.js'
import { systemIds, type Ids } from './ports/ids.js'
import { openScanner } from './scan/scanner.js'
import { openSensorPipe, type SensorPipe, type SensorPipeStatus } from './session/sensor-pipe.js'
import { persistentAt } from './session/recovery.js'
import { openSender } from './session/sender.js'
import type { SkippedRows } from './session/context.js'
import { startTask } from './session/task.js'
import { openRootWatcher, type RootWatcher } from './watch/root-watcher.js'

export interface SensorOptions {
  readonly root: string
  /** The URL of the server. */
  readonly server: string
  /** Sends the requests; default: over the network. */
  readonly http?: Http
  /** One API key per view. */
  readonly keys: readonly string[]
  /** The id of this sensor; it must be unique among the sensors of a view. */
  readonly id: string
  readonly log: Log
  /** The source id, if the view has several sources. */
  readonly sourceId?: string
  readonly clock?: Clock
  readonly ids?: Ids
  readonly batchRows?: number
  readonly scanThreads?: number
  readonly watchMax?: number
  readonly pollSeconds?: number
  readonly busRows?: number
  readonly stuckSeconds?: number
  readonly sessionTimeoutSeconds?: number
  readonly mustBeMounted?: boolean
  /** False: reads through Node only and polls instead of using inotify. */
  readonly native?: boolean
  /** Globs of paths that are neither watched nor reported; the same for every sensor of a source. */
  readonly exclude?: readonly string[]
}

export interface Sensor {
  readonly watcher: RootWatcher
  readonly pipes: readonly SensorPipe[]
  units(): readonly HealthUnit[]
  status(): readonly SensorPipeStatus[]
  /** Ends the session on the server and stops everything. */
  stop(): Promise<void>
}

export function startSensor(options: SensorOptions): Sensor {
  const { root, log, clock = systemClock, native = true, batchRows = 1_000, exclude = [] } = options
  // Reject invalid globs here instead of in a thread.
  const excludes = parseExclude(exclude)
  const stuckMs = (options.stuckSeconds ?? 60) * 1_000
  const stopping = new AbortController()
  const { signal } = stopping
  const http = options.http ?? openHttp()
  // Compression saves time only over a network.
  const zipAboveBytes = options.http === undefined ? undefined : Infinity
  const sender = openSender({ server: options.server, http, ...defined({ zipAboveBytes }) })
  const threads = options.scanThreads ?? 2
  const scanner = openScanner({ root, native, threads, batchRows, exclude, pinned: () => watcher.pinned() })
  const watcher = openRootWatcher({
    root,
    scanner,
    clock,
    log,
    native,
    exclude,
    ...defined({
      watchMax: options.watchMax,
      pollSeconds: options.pollSeconds,
      busRows: options.busRows,
      mustBeMounted: options.mustBeMounted,
    }),
  })
  const watcherTask = startTask({ name: 'source', clock, log, signal, stuckMs }, async (progress) => {
    await watcher.run(progress.signal, () => progress.moved())
    return 0
  })
  const skipped = options.keys.map((): SkippedRows => ({ count: 0, path: undefined }))
  const pipes = options.keys.map((key, at) =>
    openSensorPipe(
      {
        id: options.id,
        name: `pipe-${at + 1}`,
        key,
        root,
        sender,
        watcher: watcher,
        scanner,
        clock,
        log,
        ids: options.ids ?? systemIds,
        batchRows,
        skipped: skipped[at]!,
        isExcluded: (path) => excludes !== undefined && isExcludedBy(excludes, path),
        stuckMs,
        ...defined({ sourceId: options.sourceId, sessionTimeoutSeconds: options.sessionTimeoutSeconds }),
      },
      () => units(),
    ),
  )
  const before = new Map<string, HealthState>()

  /** The health state for a number of consecutive failures. */
  const stateOf = (failures: number): HealthState =>
    failures === 0 ? 'ok' : failures >= persistentAt ? 'failed' : 'degraded'

  function units(): HealthUnit[] {
    const { health } = watcherTask
    const sending = sender.health()
    const isDown = !watcher.isWatching() && health.consecutive > 0
    const shared: HealthUnit[] = [
      unit('source', options.id, isDown ? 'failed' : 'ok', health.restarts, health.error),
      unit('sender', options.id, stateOf(sending.failures), sending.restarts, sending.error),
    ]
    const broken = shared.find(({ state }) => state === 'failed')
    const own = pipes.map((pipe, at) => {
      const { consecutiveErrors, restarts, error } = pipe.status()
      const name = `${options.id}/${pipe.name}`
      if (broken !== undefined) return unit('sensor_pipe', name, 'failed', restarts, `${broken.kind} failed`)
      const { count, path } = skipped[at]!
      if (consecutiveErrors > 0 || count === 0)
        return unit('sensor_pipe', name, stateOf(consecutiveErrors), restarts, error)
      const problem = `${count} rows were skipped because they are too large, the last one is ${JSON.stringify(path)}`
      return unit('sensor_pipe', name, 'degraded', restarts, problem)
    })
    const all = [...shared, ...own]
    for (const { kind, name, state, error } of all) {
      const key = `${kind}:${name}`
      const was = before.get(key) ?? 'ok'
      before.set(key, state)
      if (was !== state) log.warn({ unit: key, from: was, to: state, error }, 'health unit changed')
    }
    return all
  }

  const running = Promise.all([watcherTask.ended, ...pipes.map((pipe) => pipe.run(signal))])
  return {
    watcher: watcher,
    pipes,
    units,
    status: () => pipes.map((pipe) => pipe.status()),
    async stop() {
      stopping.abort()
      await running
      scanner.close()
      http.close()
    },
  }
}

function unit(
  kind: HealthUnit['kind'],
  name: string,
  state: HealthState,
  restarts: number,
  error?: string,
): HealthUnit {
  return { kind, name, state, restarts, ...defined({ error }) }
}
