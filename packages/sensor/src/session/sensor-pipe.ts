/**
 * The sensor end of a pipe, which feeds one view: creates a session, sends heartbeats, runs commands, follows the role that the
 * last response assigned, and restarts failed tasks. Once started it ends only when its signal aborts; no error of a task
 * reaches the heartbeat. Each task has its own file; `view/ingest/fusion-pipe.ts` of the server is the other end.
 */
import { critical, defined, linkAbort, makeWake } from '@bellwether/base'
import { heartbeatResponse, sessionResponse } from '@bellwether/protocol/pipe'
import { pipeLimits, type HealthUnit, type SessionRequest } from '@bellwether/protocol'
import { runAudit } from './audit.js'
import { AuditMemory } from './audit-memory.js'
import { openCommands } from './commands.js'
import type { PipeContext, Session } from './context.js'
import { openRealtime } from './realtime.js'
import { failureKind, pauseMinMs, recoveryFor, SessionObsolete, shortMessage } from './recovery.js'
import { runSentinel } from './sentinel.js'
import { runSnapshot } from './snapshot.js'
import { startTask, type Progress, type Task } from './task.js'

export interface SensorPipeStatus {
  readonly session: Session | undefined
  /** True once this pipe has sent realtime events; it stays true until the process ends. */
  readonly isRealtimeReady: boolean
  /** The running tasks. */
  readonly active: readonly string[]
  readonly restarts: number
  readonly sessions: number
  /** Consecutive failures of the heartbeat or of a task, whichever has more, and the last error. */
  readonly consecutiveErrors: number
  readonly error: string | undefined
  readonly lag: number
  readonly sent: number
  readonly audits: number
  readonly snapshots: number
  readonly memory: number
}

export interface SensorPipe {
  readonly name: string
  status(): SensorPipeStatus
  /** Resolves after the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>
  requestAudit(): void
}

// Heartbeat interval until the server knows that this sensor reports realtime events.
const firstBeatsMs = 1_000

const newSnapshot = () => ({ isDone: false, done: () => {}, after: Promise.resolve() })

/** `units`: the health units of this sensor, for heartbeats. */
export function openSensorPipe(context: PipeContext, units: () => readonly HealthUnit[]): SensorPipe {
  const { clock, log, sender, watcher, key } = context
  const memory = new AuditMemory()
  const auditWake = makeWake(clock)
  const tasks = new Map<string, Task>()
  const active = new Set<string>()
  let session: Session | undefined
  let [isRealtimeReady, sessions, consecutive, restarts, audits, snapshots] = [false, 0, 0, 0, 0, 0]
  let error: string | undefined
  let role = new AbortController()
  /** Ends the current session: a task learned that it is obsolete while the heartbeat still waits. */
  let endSession: (problem: unknown) => void = () => {}
  /** The snapshot of the current session: whether it is done, and a promise that resolves then. */
  let snapshot = newSnapshot()

  const realtime = openRealtime(context, watcher.bus.subscribe(), () => {
    log.warn({ pipe: context.name }, 'events lost; sending everything again')
    if (session?.role === 'leader') requestSnapshot()
    else watcher.rescan()
    auditWake.now()
  })
  watcher.onOverflow(() => auditWake.now())
  const commands = openCommands(context, {
    realtime,
    requestSnapshot: requestSnapshot,
    requestAudit: () => auditWake.now(),
  })

  function launch(
    name: string,
    of: Session,
    scope: AbortSignal,
    step: (progress: Progress) => Promise<number | undefined>,
  ): Task {
    const counted = async (progress: Progress) => {
      active.add(name)
      try {
        return await step(progress)
      } finally {
        active.delete(name)
      }
    }
    const onObsolete = (problem: unknown) => (session === of ? endSession(problem) : undefined)
    const before = tasks.get(name)?.health
    const settings = { clock, log, signal: scope, stuckMs: context.stuckMs, onObsolete }
    const task = startTask({ name: `${context.name}/${name}`, ...settings }, counted)
    if (before !== undefined) task.health.restarts += before.restarts
    tasks.set(name, task)
    return task
  }

  function requestSnapshot(): void {
    if (session === undefined) return
    tasks.get('snapshot')?.cancel()
    startSnapshot(session)
  }

  function startSnapshot(of: Session): void {
    const mine = newSnapshot()
    mine.after = new Promise((resolve) => (mine.done = resolve))
    snapshot = mine
    launch('snapshot', of, role.signal, async (progress) => {
      await runSnapshot(context, of, progress)
      snapshots += 1
      mine.isDone = true
      mine.done()
      return undefined
    })
  }

  function promote(of: Session): void {
    log.info({ pipe: context.name, session_id: of.id }, 'became leader')
    role = new AbortController()
    const { signal } = role
    memory.clear()
    if (!snapshot.isDone) startSnapshot(of)
    let isFirst = true
    launch('audit', of, signal, async (progress) => {
      if (isFirst) await progress.idle(snapshot.after)
      else await progress.idle(auditWake.wait(of.auditMs, progress.signal))
      if (progress.signal.aborted) return undefined
      // A failed audit is retried after the pause of the recovery table.
      isFirst = false
      await runAudit(context, of, memory, progress).catch((problem: unknown) => {
        auditWake.now()
        throw problem
      })
      audits += 1
      return 0
    })
    launch('sentinel', of, signal, async (progress) => {
      await runSentinel(context, of, progress)
      return of.sentinelMs
    })
  }

  function demote(of: Session): void {
    log.info({ pipe: context.name, session_id: of.id }, 'became follower')
    role.abort()
  }

  async function connect(signal: AbortSignal): Promise<Session> {
    const request: SessionRequest = {
      task_id: `${context.id}:${context.name}`,
      client_info: { agent_id: context.id, source_uri: context.root, ...defined({ source_id: context.sourceId }) },
      ...defined({ session_timeout_seconds: context.sessionTimeoutSeconds }),
    }
    const answer = sessionResponse.parse(await sender.send('POST', 'pipe/session/', request, { key, signal }))
    sessions += 1
    memory.clear()
    snapshot = newSnapshot()
    return {
      id: answer.session_id,
      role: answer.role,
      timeoutMs: answer.session_timeout_seconds * 1_000,
      auditMs: answer.audit_interval_sec * 1_000,
      sentinelMs: answer.sentinel_interval_sec * 1_000,
    }
  }

  /** A task that keeps failing fails its pipe, even though the heartbeat works. */
  function worstFailure(): { readonly consecutiveErrors: number; readonly error: string | undefined } {
    let worst = { consecutiveErrors: consecutive, error }
    for (const { health } of tasks.values())
      if (health.consecutive > worst.consecutiveErrors)
        worst = { consecutiveErrors: health.consecutive, error: `${health.name}: ${health.error ?? 'failed'}` }
    return worst
  }

  function agentStatus() {
    return {
      units: [...units()],
      id: context.id,
      active: [...active],
      tasks: [...tasks.values()].map(({ health }) => ({ ...health, error: health.error ?? null })),
      lag: realtime.lag(),
      source: watcher.stats(),
      sessions,
    }
  }

  /** Sends one heartbeat; returns whether the response changed the role or carried commands. */
  async function heartbeat(of: Session, intervalMs: number, signal: AbortSignal): Promise<boolean> {
    const waitSeconds = Math.min(pipeLimits.waitSecondsMax, Math.floor(intervalMs / 10) / 100)
    const path = `pipe/session/${encodeURIComponent(of.id)}/heartbeat`
    const body = { can_realtime: isRealtimeReady, agent_status: agentStatus(), wait_seconds: waitSeconds }
    // Longer than the server's wait, shorter than the session timeout: a hung request must leave time for another.
    const timeoutMs = Math.max(1_000, Math.min(of.timeoutMs * 0.8, waitSeconds * 1_000 + 10_000))
    const answer = heartbeatResponse.parse(await sender.send('POST', path, body, { key, signal, timeoutMs }))
    const roleChanged = answer.role !== of.role
    if (roleChanged) {
      of.role = answer.role
      if (answer.role === 'leader') promote(of)
      else demote(of)
    }
    const list = (answer.commands ?? []).slice(0, pipeLimits.commandsMax)
    for (const command of list) void commands.run(of, command, signal)
    return roleChanged || list.length > 0
  }

  /** Sends heartbeats until the session is obsolete. No other error ends it. */
  async function keepAlive(of: Session, signal: AbortSignal): Promise<void> {
    let [lastOkMs, failures, failuresAfterTimeout, serverKnowsRealtime] = [clock.monotonicMs(), 0, 0, false]
    while (!signal.aborted) {
      const beganMs = clock.monotonicMs()
      // The server sends barriers only to sensors that it knows to be realtime, so it must learn this soon.
      const intervalMs = Math.min(of.timeoutMs / 3, serverKnowsRealtime ? Infinity : firstBeatsMs)
      const reportsRealtime = isRealtimeReady
      let pauseMs: number
      try {
        const busy = await heartbeat(of, intervalMs, signal)
        serverKnowsRealtime = reportsRealtime
        ;[lastOkMs, failures, consecutive, error] = [clock.monotonicMs(), 0, 0, undefined]
        pauseMs = busy ? 0 : Math.max(0, intervalMs - (clock.monotonicMs() - beganMs))
      } catch (problem) {
        if (problem instanceof SessionObsolete) throw problem
        if (signal.aborted) return
        failures += 1
        consecutive = failures
        error = shortMessage(problem)
        const kind = failureKind(problem, false)
        const recovery = recoveryFor({ kind, stopping: false, consecutive: failures })
        const fields = { pipe: context.name, session_id: of.id, error, failures }
        if (recovery.isCritical) critical(log, fields, 'heartbeats keep failing and are retried')
        else log.warn(fields, 'heartbeat failed')
        // Retry quickly while the session may still be alive.
        const mayLive = clock.monotonicMs() - lastOkMs < of.timeoutMs
        // After the session timeout the pauses start at their minimum again: the quick retries before do not count.
        failuresAfterTimeout = mayLive ? 0 : failuresAfterTimeout + 1
        pauseMs = mayLive
          ? Math.min(intervalMs, Math.max(recovery.pauseMs, pauseMinMs) / 5)
          : recoveryFor({ kind, stopping: false, consecutive: failuresAfterTimeout }).pauseMs
      }
      await clock.sleep(pauseMs, signal)
    }
  }

  async function runSession(of: Session, signal: AbortSignal): Promise<void> {
    const scope = linkAbort(signal)
    session = of
    const ended = new Promise<never>((_, reject) => (endSession = reject))
    log.info(
      { pipe: context.name, session_id: of.id, session_role: of.role, timeoutMs: of.timeoutMs },
      'session created',
    )
    launch('realtime', of, scope.signal, async (progress) => {
      await progress.idle(watcher.watching(progress.signal))
      isRealtimeReady = true
      return realtime.step(of, progress)
    })
    if (of.role === 'leader') promote(of)
    try {
      await Promise.race([keepAlive(of, scope.signal), ended])
    } finally {
      session = undefined
      role.abort()
      scope.abort()
      await Promise.all([...tasks.values()].map((task) => task.ended))
    }
  }

  async function run(signal: AbortSignal): Promise<void> {
    let failures = 0
    while (!signal.aborted) {
      let recovery
      try {
        const opened = await connect(signal)
        failures = 0
        ;[consecutive, error] = [0, undefined]
        await runSession(opened, signal)
        if (signal.aborted) await disconnect(opened)
        continue
      } catch (problem) {
        const kind = failureKind(problem, false)
        if (kind === 'runtime_error') failures += 1
        consecutive = failures
        error = shortMessage(problem)
        recovery = recoveryFor({ kind, stopping: signal.aborted, consecutive: failures })
        const fields = { pipe: context.name, error, failures, pauseMs: recovery.pauseMs }
        if (recovery.isCritical) critical(log, fields, 'cannot create a session; still retrying')
        else
          log.warn(
            fields,
            kind === 'session_obsolete' ? 'session obsolete; creating another' : 'cannot create a session',
          )
      }
      restarts += 1
      await clock.sleep(recovery.pauseMs, signal)
    }
  }

  /** Ends the session, so that a follower becomes leader at once instead of after the session timeout. */
  async function disconnect(of: Session): Promise<void> {
    const path = `pipe/session/${encodeURIComponent(of.id)}`
    await sender.send('DELETE', path, undefined, { key, timeoutMs: 2_000 }).catch((problem: unknown) => {
      log.info({ pipe: context.name, error: shortMessage(problem) }, 'cannot end the session on the server')
    })
  }

  return {
    name: context.name,
    run,
    requestAudit: () => auditWake.now(),
    status: () => ({
      session,
      isRealtimeReady,
      active: [...active],
      restarts,
      sessions,
      ...worstFailure(),
      lag: realtime.lag(),
      sent: realtime.sent(),
      audits,
      snapshots,
      memory: memory.size,
    }),
  }
}
