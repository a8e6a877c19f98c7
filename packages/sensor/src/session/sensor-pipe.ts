/**
 * One pipe: from the source to one view. The shell that nothing inside can break: it makes a session, keeps its heartbeat,
 * runs commands, follows its role, and restarts whatever fails. Always: once started it ends only when told to; no error
 * of a task reaches the heartbeat; a role is what the last answer said. What a task does is in its own file.
 */
import { critical } from '@bellwether/base'
import { heartbeatAnswer, pipeLimits, sessionAnswer, type HealthUnit, type SessionRequest } from '@bellwether/protocol'
import { runAudit } from './audit.js'
import { AuditMemory } from './audit-memory.js'
import { openCommands } from './commands.js'
import type { PipeContext, Session } from './context.js'
import { openRealtime } from './realtime.js'
import { kindOf, pauseMinMs, recoveryFor, SessionObsolete, textOf } from './recovery.js'
import { runSentinel } from './sentinel.js'
import { runSnapshot } from './snapshot.js'
import { startTask, type Progress, type Task } from './task.js'
import { makeWake } from './wake.js'

export interface PipeStatus {
  readonly session: Session | undefined
  /** Once true, true until the process ends: this pipe has been connected to a source that watched. */
  readonly isRealtimeReady: boolean
  /** What runs at this moment. */
  readonly active: readonly string[]
  readonly restarts: number
  readonly sessions: number
  readonly consecutiveErrors: number
  readonly error: string | undefined
  readonly lag: number
  readonly sent: number
  readonly audits: number
  readonly snapshots: number
  readonly memory: number
}

export interface Pipe {
  readonly name: string
  status(): PipeStatus
  /** Ends when the signal fires; never rejects. */
  run(signal: AbortSignal): Promise<void>
  wantAudit(): void
}

// Between two heartbeats of a sensor that does not watch yet.
const untoldMs = 1_000

/** `units`: the health of everything in this process, for the heartbeat. */
export function openPipe(context: PipeContext, units: () => readonly HealthUnit[]): Pipe {
  const { clock, log, sender, source, key } = context
  const memory = new AuditMemory()
  const auditWake = makeWake(clock)
  const tasks = new Map<string, Task>()
  const active = new Set<string>()
  let session: Session | undefined
  let [isRealtimeReady, sessions, consecutive, restarts, audits, snapshots] = [false, 0, 0, 0, 0, 0]
  let error: string | undefined
  let role = new AbortController()
  /** Ends the present session: a task was told that it is over while the heartbeat still waits. */
  let endSession: (problem: unknown) => void = () => {}
  /** Of this session: whether the snapshot is done, and what waits for it. */
  let snapshot = { isDone: false, done: () => {}, after: Promise.resolve() }

  const realtime = openRealtime(context, source.bus.subscribe(), () => {
    log.warn({ pipe: context.name }, 'events were lost on their way: everything is told again')
    if (session?.role === 'leader') wantSnapshot()
    else source.rescan()
    auditWake.now()
  })
  source.onOverflow(() => auditWake.now())
  const commands = openCommands(context, { realtime, wantSnapshot, wantAudit: () => auditWake.now() })

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

  function wantSnapshot(): void {
    if (session === undefined) return
    tasks.get('snapshot')?.cancel()
    startSnapshot(session)
  }

  function startSnapshot(of: Session): void {
    const mine = { isDone: false, done: () => {}, after: Promise.resolve() }
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
    log.info({ pipe: context.name, session_id: of.id }, 'this sensor leads')
    role = new AbortController()
    const { signal } = role
    memory.clear()
    if (!snapshot.isDone) startSnapshot(of)
    let isFirst = true
    launch('audit', of, signal, async (progress) => {
      if (isFirst) await progress.rest(snapshot.after)
      else await progress.rest(auditWake.wait(of.auditMs, progress.signal))
      if (progress.signal.aborted) return undefined
      // Not again at once when it fails: the pause is the recovery table's.
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
    log.info({ pipe: context.name, session_id: of.id }, 'this sensor follows')
    role.abort()
  }

  async function connect(signal: AbortSignal): Promise<Session> {
    const request: SessionRequest = {
      task_id: `${context.id}:${context.name}`,
      client_info: {
        agent_id: context.id,
        source_uri: context.root,
        ...(context.sourceId === undefined ? {} : { source_id: context.sourceId }),
      },
      ...(context.sessionTimeoutSeconds === undefined
        ? {}
        : { session_timeout_seconds: context.sessionTimeoutSeconds }),
    }
    const answer = sessionAnswer.parse(await sender.send('POST', 'pipe/session/', request, { key, signal }))
    sessions += 1
    memory.clear()
    snapshot = { isDone: false, done: () => {}, after: Promise.resolve() }
    return {
      id: answer.session_id,
      role: answer.role,
      timeoutMs: answer.session_timeout_seconds * 1_000,
      auditMs: answer.audit_interval_sec * 1_000,
      sentinelMs: answer.sentinel_interval_sec * 1_000,
    }
  }

  function agentStatus() {
    return {
      units: [...units()],
      id: context.id,
      active: [...active],
      tasks: [...tasks.values()].map(({ health }) => ({ ...health, error: health.error ?? null })),
      lag: realtime.lag(),
      source: source.stats(),
      sessions,
    }
  }

  /** One exchange; answers whether the server kept us waiting, or had something to say. */
  async function beat(of: Session, intervalMs: number, signal: AbortSignal): Promise<boolean> {
    const waitSeconds = Math.min(pipeLimits.waitSecondsMax, Math.floor(intervalMs / 10) / 100)
    const path = `pipe/session/${encodeURIComponent(of.id)}/heartbeat`
    const body = { can_realtime: isRealtimeReady, agent_status: agentStatus(), wait_seconds: waitSeconds }
    // Longer than the wait, shorter than the session: a beat that hangs must leave time for another.
    const timeoutMs = Math.max(1_000, Math.min(of.timeoutMs * 0.8, waitSeconds * 1_000 + 10_000))
    const answer = heartbeatAnswer.parse(await sender.send('POST', path, body, { key, signal, timeoutMs }))
    const turned = answer.role !== of.role
    if (turned) {
      of.role = answer.role
      if (answer.role === 'leader') promote(of)
      else demote(of)
    }
    const list = (answer.commands ?? []).slice(0, pipeLimits.commandsMax)
    for (const command of list) void commands.run(of, command, signal)
    return turned || list.length > 0
  }

  /** Beats until the session is over. No other error ends it. */
  async function keepAlive(of: Session, signal: AbortSignal): Promise<void> {
    let [lastOkMs, failures, late, isTold] = [clock.monotonicMs(), 0, 0, false]
    while (!signal.aborted) {
      const beganMs = clock.monotonicMs()
      // Until the server knows that we follow changes, no barrier waits for us: it should not take long to learn it.
      const intervalMs = Math.min(of.timeoutMs / 3, isTold ? Infinity : untoldMs)
      const tells = isRealtimeReady
      let pauseMs: number
      try {
        const busy = await beat(of, intervalMs, signal)
        isTold = tells
        ;[lastOkMs, failures, consecutive, error] = [clock.monotonicMs(), 0, 0, undefined]
        pauseMs = busy ? 0 : Math.max(0, intervalMs - (clock.monotonicMs() - beganMs))
      } catch (problem) {
        if (problem instanceof SessionObsolete) throw problem
        if (signal.aborted) return
        failures += 1
        consecutive = failures
        error = textOf(problem)
        const kind = kindOf(problem, false)
        const recovery = recoveryFor({ kind, stopping: false, consecutive: failures })
        const fields = { pipe: context.name, session_id: of.id, error, failures }
        if (recovery.isCritical) critical(log, fields, 'heartbeats keep failing; they go on for ever')
        else log.warn(fields, 'a heartbeat failed')
        // While the session may still be alive, it is worth more than a quiet network.
        const mayLive = clock.monotonicMs() - lastOkMs < of.timeoutMs
        // Once it cannot, the pauses begin anew: what was tried in haste before says nothing about when the server is back.
        late = mayLive ? 0 : late + 1
        pauseMs = mayLive
          ? Math.min(intervalMs, Math.max(recovery.pauseMs, pauseMinMs) / 5)
          : recoveryFor({ kind, stopping: false, consecutive: late }).pauseMs
      }
      await clock.sleep(pauseMs, signal)
    }
  }

  async function live(of: Session, signal: AbortSignal): Promise<void> {
    const scope = new AbortController()
    const stop = () => scope.abort()
    signal.addEventListener('abort', stop, { once: true })
    session = of
    const ended = new Promise<never>((_, reject) => (endSession = reject))
    log.info({ pipe: context.name, session_id: of.id, session_role: of.role, timeoutMs: of.timeoutMs }, 'session made')
    launch('realtime', of, scope.signal, async (progress) => {
      await progress.rest(source.watching(progress.signal))
      isRealtimeReady = true
      return realtime.step(of, progress)
    })
    if (of.role === 'leader') promote(of)
    try {
      await Promise.race([keepAlive(of, scope.signal), ended])
    } finally {
      signal.removeEventListener('abort', stop)
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
        const made = await connect(signal)
        failures = 0
        ;[consecutive, error] = [0, undefined]
        await live(made, signal)
        if (signal.aborted) await farewell(made)
        continue
      } catch (problem) {
        const kind = kindOf(problem, false)
        if (kind === 'runtime_error') failures += 1
        consecutive = failures
        error = textOf(problem)
        recovery = recoveryFor({ kind, stopping: signal.aborted, consecutive: failures })
        const fields = { pipe: context.name, error, failures, pauseMs: recovery.pauseMs }
        if (recovery.isCritical) critical(log, fields, 'no session can be made; it is tried again for ever')
        else log.warn(fields, kind === 'session_obsolete' ? 'the session is over; making another' : 'no session')
      }
      restarts += 1
      await clock.sleep(recovery.pauseMs, signal)
    }
  }

  /** Says goodbye, so that a follower leads at once; the server's time limit does it otherwise. */
  async function farewell(of: Session): Promise<void> {
    const path = `pipe/session/${encodeURIComponent(of.id)}`
    await sender.send('DELETE', path, undefined, { key, timeoutMs: 2_000 }).catch((problem: unknown) => {
      log.info({ pipe: context.name, error: textOf(problem) }, 'the server did not hear our goodbye')
    })
  }

  return {
    name: context.name,
    run,
    wantAudit: () => auditWake.now(),
    status: () => ({
      session,
      isRealtimeReady,
      active: [...active],
      restarts,
      sessions,
      consecutiveErrors: consecutive,
      error,
      lag: realtime.lag(),
      sent: realtime.sent(),
      audits,
      snapshots,
      memory: memory.size,
    }),
  }
}
