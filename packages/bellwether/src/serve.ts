/**
 * The composition root: the only place that knows every part, and the only reader of the environment. A process is
 * composed, announced as ready, runs until its lifeline ends, drains, and answers its exit code.
 */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { token } from '@bellwether/protocol'
import { startAutopilot } from './board/autopilot.js'
import { runChores } from './board/chores.js'
import { localEvidence } from './board/local-evidence.js'
import { setLimits } from './kernel/roster.js'
import { runPmo } from './pmo/loop.js'
import { systemClock } from './ports/clock.js'
import { systemRandom } from './ports/random.js'
import { openChores, openDispatcher, openTaskRoot } from './serve/board.js'
import { openFileAgents } from './serve/file-agents.js'
import { openHouse, type House } from './serve/house.js'
import { holdLifeline, type Lifeline } from './serve/lifeline.js'
import { openLog } from './serve/logger.js'
import { kernelSpawner } from './serve/spawner.js'
import { loadSettings } from './settings/load.js'
import type { Settings } from './settings/schema.js'
import { agentFor, type Agents } from './worker/agents.js'
import { runWorker } from './worker/loop.js'

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
  /** The project whose agents are read from files; absent: function agents only. */
  readonly fileAgentsOf?: string
  readonly concurrency?: number
}

// Ends before the 30 s after which Kubernetes and systemd kill; what is not done by then is taken over by other workers.
const drainSeconds = 20
const orphanDrainSeconds = 1
// A tool command waits this long for the relay at worst; an idle look costs one indexed read.
const relayPollMs = 100

/** What the environment hands on to child processes and to `loadSettings`. */
export function environment(): Readonly<Record<string, string | undefined>> {
  return process.env
}

export async function serveWorker(options: ServeWorkerOptions): Promise<number> {
  const target = token(options.target, 'worker target')
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
        : await openFileAgents({ kernel, clock: systemClock, log, signal, settings, projectId, folder })
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
    await running.ended
    files?.close()
    const left = running.worker.running.size
    if (left > 0) log.warn({ turns: left }, 'turns did not end in time and are left for other workers')
    return left === 0 ? 0 : 1
  })
}

export async function servePmo(options: ServeOptions): Promise<number> {
  return serve(options, 'pmo', async (house, { pmo, worker }, lifeline, log) => {
    await setLimits(house.kernel.db, {
      turnDeadlineSeconds: pmo.turn_deadline_seconds,
      maxRecursionDepth: pmo.max_recursion_depth,
    })
    const running = runPmo({
      kernel: house.kernel,
      stream: house.stream(),
      clock: systemClock,
      log,
      signal: lifeline.signal,
      settings: {
        watchdogIntervalSeconds: pmo.watchdog_interval_seconds,
        dispatchedRetrySeconds: pmo.dispatched_retry_seconds,
        dispatchedTimeoutSeconds: pmo.dispatched_timeout_seconds,
        pendingWakeupSeconds: pmo.pending_wakeup_seconds,
        pendingWakeupSkipSeconds: pmo.pending_wakeup_skip_seconds,
        activeReapSeconds: pmo.active_reap_seconds,
        suspendedReapSeconds: pmo.suspended_reap_seconds,
        maxQueueSeconds: pmo.max_queue_seconds,
        inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
        maxAttempts: worker.max_attempts,
        retentionDays: pmo.retention_days,
        relayPollMs,
      },
    })
    options.onReady?.({ ready: true, role: 'pmo', bell: house.bell.kind, pid: process.pid })
    log.info({ bell: house.bell.kind }, 'the PMO is ready')
    await running
    return 0
  })
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
  return serve(options, 'autopilot', async ({ kernel }, settings, lifeline, log) => {
    const { signal } = lifeline
    const root = resolve(options.folder, options.root ?? settings.board.root ?? '.')
    const owner = `autopilot:${hostname()}-${process.pid}`
    const opened = await openTaskRoot({ root, owner, settings: settings.board, log, signal })
    try {
      const desk = openDispatcher(opened, {
        spawner: kernelSpawner({ kernel, projectId, clock: systemClock, log }),
        evidence: localEvidence(opened.board.root, opened.ids),
        actor: 'autopilot',
      })
      const autopilot = startAutopilot(desk, opened.caches, signal)
      const chores = runChores(openChores(opened), { clock: systemClock, log }, signal)
      options.onReady?.({ ready: true, role: 'autopilot', root: opened.board.root, pid: process.pid })
      log.info({ root: opened.board.root, project: projectId }, 'the autopilot is ready')
      await Promise.all([autopilot.ended, chores])
      return 0
    } finally {
      await opened.alerts.settled()
      await opened.board.close()
    }
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
