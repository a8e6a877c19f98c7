/**
 * A sensor: one source, one sender, and a pipe for each view it feeds. Always: a pipe's failure stays its own; the
 * source's and the sender's is that of every pipe; each unit mends itself, is counted, and each change of its state is
 * logged. The process around it only says where and when to stop.
 */
import { type Clock, type Log, systemClock } from '@bellwether/base'
import type { HealthState, HealthUnit } from '@bellwether/protocol'
import { parseExclude } from './disk/exclude.js'
import { openHttp } from './ports/http.js'
import { systemIds, type Ids } from './ports/ids.js'
import { openScanner } from './scan/scanner.js'
import { openPipe, type Pipe, type PipeStatus } from './session/sensor-pipe.js'
import { persistentAt } from './session/recovery.js'
import { openSender } from './session/sender.js'
import { startTask } from './session/task.js'
import { openSource, type Source } from './watch/root-watcher.js'

export interface SensorOptions {
  readonly root: string
  readonly server: string
  /** One key a view. */
  readonly keys: readonly string[]
  /** What this sensor is called; hosts that share files must differ in it. */
  readonly id: string
  readonly log: Log
  /** Names the filesystem, where a view has several. */
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
  /** False: nothing but Node; polls instead of watching. */
  readonly native?: boolean
  /** Globs of what is neither watched nor told; the same for every sensor of a view. */
  readonly exclude?: readonly string[]
}

export interface Sensor {
  readonly source: Source
  readonly pipes: readonly Pipe[]
  units(): readonly HealthUnit[]
  status(): readonly PipeStatus[]
  /** Says goodbye to the server and ends everything. */
  stop(): Promise<void>
}

export function startSensor(options: SensorOptions): Sensor {
  const { root, log, clock = systemClock, native = true, batchRows = 1_000, exclude = [] } = options
  // A glob that is none is told here, not by a thread.
  parseExclude(exclude)
  const stuckMs = (options.stuckSeconds ?? 60) * 1_000
  const stopping = new AbortController()
  const { signal } = stopping
  const http = openHttp()
  const sender = openSender({ server: options.server, http })
  const threads = options.scanThreads ?? 2
  const scanner = openScanner({ root, native, threads, batchRows, exclude, pinned: () => source.pinned() })
  const source = openSource({
    root,
    scanner,
    clock,
    log,
    native,
    exclude,
    ...(options.watchMax === undefined ? {} : { watchMax: options.watchMax }),
    ...(options.pollSeconds === undefined ? {} : { pollSeconds: options.pollSeconds }),
    ...(options.busRows === undefined ? {} : { busRows: options.busRows }),
    ...(options.mustBeMounted === undefined ? {} : { mustBeMounted: options.mustBeMounted }),
  })
  const sourceTask = startTask({ name: 'source', clock, log, signal, stuckMs }, async (progress) => {
    await source.run(progress.signal, () => progress.moved())
    return 0
  })
  const pipes = options.keys.map((key, at) =>
    openPipe(
      {
        id: options.id,
        name: `pipe-${at + 1}`,
        key,
        root,
        sender,
        source,
        scanner,
        clock,
        log,
        ids: options.ids ?? systemIds,
        batchRows,
        stuckMs,
        ...(options.sourceId === undefined ? {} : { sourceId: options.sourceId }),
        ...(options.sessionTimeoutSeconds === undefined
          ? {}
          : { sessionTimeoutSeconds: options.sessionTimeoutSeconds }),
      },
      () => units(),
    ),
  )
  const before = new Map<string, HealthState>()

  /** A number of failures in a row, as a state. */
  const stateOf = (failures: number): HealthState =>
    failures === 0 ? 'ok' : failures >= persistentAt ? 'failed' : 'degraded'

  function units(): HealthUnit[] {
    const { health } = sourceTask
    const sending = sender.health()
    const isDown = !source.isWatching() && health.consecutive > 0
    const shared: HealthUnit[] = [
      unit('source', options.id, isDown ? 'failed' : 'ok', health.restarts, health.error),
      unit('sender', options.id, stateOf(sending.failures), sending.restarts, sending.error),
    ]
    const broken = shared.find(({ state }) => state === 'failed')
    const own = pipes.map((pipe) => {
      const { consecutiveErrors, restarts, error } = pipe.status()
      const name = `${options.id}/${pipe.name}`
      if (broken !== undefined) return unit('sensor_pipe', name, 'failed', restarts, `${broken.kind} failed`)
      return unit('sensor_pipe', name, stateOf(consecutiveErrors), restarts, error)
    })
    const all = [...shared, ...own]
    for (const { kind, name, state, error } of all) {
      const key = `${kind}:${name}`
      const was = before.get(key) ?? 'ok'
      before.set(key, state)
      if (was !== state) log.warn({ unit: key, from: was, to: state, error }, 'the health of a unit changed')
    }
    return all
  }

  const running = Promise.all([sourceTask.ended, ...pipes.map((pipe) => pipe.run(signal))])
  return {
    source,
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
  return { kind, name, state, restarts, ...(error === undefined ? {} : { error }) }
}
