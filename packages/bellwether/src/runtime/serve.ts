/**
 * The composition root: the only place that knows every part, and the only reader of the environment. A process is
 * composed, announced as ready, runs until its lifeline ends, drains, and answers its exit code. Each loads its own parts only:
 * a worker has no use for an HTTP server, and memory is counted by the process.
 */
import { hostname } from 'node:os'
import { systemClock, systemRandom } from '@bellwether/base'
import { token } from '@bellwether/protocol'
import { openHouse, type House } from './runtime.js'
import { holdLifeline, type Lifeline } from './shutdown.js'
import { openLog } from './logger.js'
import { letNurseryGrow, tidyWhenIdle } from './heap-tuning.js'
import type { ServerFlags } from './server.js'
import { openHouseMetrics, startHouseTelemetry } from './telemetry.js'
import type { UpFlags } from './up.js'
import { loadSettings } from '../settings/load.js'
import type { Settings } from '../settings/schema.js'
import { agentFor, type Agents } from '../worker/agents.js'
import type { HostedTool } from '../worker/tools/tool.js'

export interface ServeOptions {
  /** Where bellwether.toml is looked for. */
  readonly folder: string
  /** Go when stdin ends: for children whose parent holds the other end. */
  readonly parentPipe?: boolean
  /** Told once, when work can begin; the facts are the ready line of `--json`. */
  readonly onReady?: (facts: Readonly<Record<string, unknown>>) => void
}

export interface ServeWorkerOptions extends ServeOptions {
  readonly target: string
  readonly agents: Agents
  /** Tools in code; run by a worker that has agents from files, too. */
  readonly tools?: readonly HostedTool[]
  /** The project whose agents are read from files; absent: function agents only. */
  readonly fileAgentsOf?: string
  readonly concurrency?: number
}

// Ends before the 30 s after which Kubernetes and systemd kill; what is not done by then is taken over by other workers.
const drainSeconds = 20
const orphanDrainSeconds = 1

/** What the environment hands on to child processes and to `loadSettings`. */
export function environment(): Readonly<Record<string, string | undefined>> {
  return process.env
}

export async function serveWorker(options: ServeWorkerOptions): Promise<number> {
  const target = token(options.target, 'worker target')
  const [{ openFileAgents }, { runWorker }] = await Promise.all([
    import('./file-agents.js'),
    import('../worker/loop.js'),
  ])
  return serve(options, `worker ${target}`, async (house, settings, lifeline, log) => {
    const workerId = `${hostname()}-${process.pid}-${house.kernel.ids.next().slice(-6)}`
    const { worker } = settings
    const concurrency = options.concurrency ?? worker.concurrency
    const { fileAgentsOf: projectId, folder } = options
    const { kernel } = house
    const { signal } = lifeline
    const files =
      projectId === undefined
        ? undefined
        : await openFileAgents({
            kernel,
            bell: house.bell,
            workerId,
            clock: systemClock,
            log,
            signal,
            settings,
            projectId,
            folder,
            functions: options.tools ?? [],
            env: environment(),
            chunks: house.chunks(),
          })
    const running = await runWorker({
      kernel,
      bell: house.bell,
      clock: systemClock,
      log,
      signal,
      workerId,
      workerTarget: target,
      agent: (turn) => files?.agent(turn) ?? agentFor(options.agents, turn),
      ...(files === undefined ? {} : { onBeat: files.onBeat }),
      settings: {
        concurrency,
        suspendTimeoutSeconds: worker.suspend_timeout_seconds,
        resumeLeaseSeconds: worker.resume_lease_seconds,
        inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
      },
      loop: {
        pollSeconds: worker.poll_seconds,
        beatSeconds: worker.beat_seconds,
        watchdogIntervalSeconds: worker.watchdog_interval_seconds,
        inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
        maxAttempts: worker.max_attempts,
        resumeLeaseSeconds: worker.resume_lease_seconds,
        get drainSeconds() {
          return lifeline.orphaned() ? orphanDrainSeconds : drainSeconds
        },
      },
    })
    const telemetry = await startHouseTelemetry({
      house,
      settings,
      log,
      signal,
      traces: false,
      env: environment(),
      worker: () => ({ target, running: running.worker.running.size, concurrency }),
    })
    letNurseryGrow()
    options.onReady?.({
      ready: true,
      role: 'worker',
      worker_id: workerId,
      target,
      concurrency,
      bell: house.bell.kind,
      pid: process.pid,
    })
    log.info({ worker_id: workerId, target, concurrency, bell: house.bell.kind }, 'the worker is ready')
    void tidyWhenIdle({ clock: systemClock, log, signal })
    await running.ended
    await telemetry.close()
    await files?.close()
    const left = running.worker.running.size
    if (left > 0) log.warn({ turns: left }, 'turns did not end in time and are left for other workers')
    return left === 0 ? 0 : 1
  })
}

export async function servePmo(options: ServeOptions): Promise<number> {
  const { runPmoPart } = await import('./pmo.js')
  return serve(options, 'pmo', (house, settings, { signal }, log) =>
    runPmoPart({
      house,
      settings,
      log,
      signal,
      env: environment(),
      ...(options.onReady === undefined ? {} : { onReady: options.onReady }),
    }),
  )
}

export interface ServeAutopilotOptions extends ServeOptions {
  /** The task root; absent: [board] root, else the folder. */
  readonly root?: string
  /** Whose agents do the tasks. */
  readonly projectId: string
}

/** The board's autopilot and its chores, with the kernel's turns. Any number may run on one root. */
export async function serveAutopilot(options: ServeAutopilotOptions): Promise<number> {
  const projectId = token(options.projectId, 'project')
  const { runAutopilotPart } = await import('./autopilot.js')
  return serve(options, 'autopilot', (house, settings, { signal }, log) =>
    runAutopilotPart({ ...options, projectId, house, settings, log, signal }),
  )
}

export interface ServeUpOptions extends UpFlags {
  readonly parentPipe?: boolean
}

/** Everything on this machine, in one process and its children. */
export async function serveUp(options: ServeUpOptions): Promise<number> {
  const projectId = token(options.projectId, 'project')
  const env = environment()
  const settings = loadSettings({ folder: options.folder, env })
  const { runUp } = await import('./up.js')
  const log = openLog('up')
  const lifeline = holdLifeline({ parentPipe: options.parentPipe ?? false, log })
  try {
    return await runUp({ ...options, projectId, settings, log, lifeline, env })
  } finally {
    lifeline.release()
  }
}

/** The HTTP API and the worker API. Any number may run. */
export async function serveServer(options: ServeOptions & ServerFlags): Promise<number> {
  const { runServer } = await import('./server.js')
  return serve(options, 'server', async (house, settings, { signal }, log) => {
    const metrics = await openHouseMetrics(house, log)
    return runServer({ ...options, house, settings, log, signal, metrics: () => metrics.text() })
  })
}

type Run = (house: House, settings: Settings, lifeline: Lifeline, log: ReturnType<typeof openLog>) => Promise<number>

async function serve(options: ServeOptions, role: string, run: Run): Promise<number> {
  const settings = loadSettings({ folder: options.folder, env: environment() })
  const log = openLog(role)
  const lifeline = holdLifeline({ parentPipe: options.parentPipe ?? false, log })
  try {
    const name = `bellwether ${role}`
    const house = await openHouse({
      settings,
      log,
      clock: systemClock,
      random: systemRandom,
      name,
      signal: lifeline.signal,
    })
    try {
      return await run(house, settings, lifeline, log)
    } finally {
      await house.close()
    }
  } finally {
    lifeline.release()
  }
}
