/**
 * The pipe protocol: sessions, heartbeats with commands, ingest, audits and sentinel. The key says which view; the session
 * says which source. Envelopes are checked here; rows by the pipe. Each route is one question to the view.
 */
import type { Clock } from '@bellwether/base'
import {
  auditEndRequest,
  auditStartRequest,
  heartbeatRequest,
  ingestRequest,
  InvalidInput,
  pipeLimits,
  sentinelFeedback,
  sessionRequest,
  Terminal,
  type HeartbeatAnswer,
  type IngestAnswer,
  type SentinelTasks,
  type SessionAnswer,
} from '@bellwether/protocol'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { listMax, suspectList } from '../../view/queries/summaries.js'
import type { Fusion } from '../../view/fusion.js'
import type { Session } from '../../view/sessions/sessions.js'
import { none } from '../../view/tree/tree.js'
import type { View } from '../../view/view.js'
import { fedBy } from '../auth.js'
import { read } from '../query.js'

interface Options {
  readonly fusion: Fusion
  readonly signal: AbortSignal
}

type WithSession = FastifyRequest<{ Params: { id: string } }>

export function pipeRoutes(app: FastifyInstance, base: string, { fusion, signal }: Options): void {
  const { clock } = fusion
  const viewOf = (request: FastifyRequest) => fusion.view(fedBy(request.grant))
  /** 403 for another view's session, 419 for one that is over. */
  const sessionOf = (request: WithSession): readonly [View, Session] => {
    const view = viewOf(request)
    const { id } = request.params
    if (view.sessions.get(id) === undefined) {
      for (const other of fusion.views.values())
        if (other !== view && other.sessions.get(id) !== undefined)
          throw new Terminal('this session belongs to another view', { code: 'forbidden' })
    }
    return [view, view.session(id)]
  }

  app.get(`${base}/session`, async (request) => {
    const view = viewOf(request)
    return { view_id: view.name, status: view.ready ? 'ready' : 'not_ready', sessions: view.sessions.size }
  })

  app.post(`${base}/session`, async (request): Promise<SessionAnswer> => {
    const view = viewOf(request)
    const body = read(sessionRequest, request.body, 'session request')
    const session = view.connect({
      taskId: body.task_id,
      clientInfo: body.client_info ?? {},
      timeoutSeconds: body.session_timeout_seconds,
      clientAddress: request.ip,
    })
    return {
      session_id: session.id,
      role: session.role,
      session_timeout_seconds: session.info.timeoutMs / 1_000,
      audit_interval_sec: view.settings.auditIntervalSeconds,
      sentinel_interval_sec: view.settings.sentinelIntervalSeconds,
      hot_file_threshold_sec: view.settings.hotFileThresholdSeconds,
      view_id: view.name,
      source_id: session.info.sourceId,
      message: session.role === 'leader' ? 'you lead this source' : 'another session leads this source',
    }
  })

  app.post(`${base}/session/:id/heartbeat`, async (request: WithSession): Promise<HeartbeatAnswer> => {
    const [view, session] = sessionOf(request)
    const body = read(heartbeatRequest, request.body ?? {}, 'heartbeat')
    view.heartbeat(session, body.can_realtime, body.agent_status)
    const roleBefore = session.role
    if (body.wait_seconds !== null && body.wait_seconds !== undefined && body.wait_seconds > 0)
      await waitForNews(session, body.wait_seconds, request, clock, signal)
    // It may have ended while it waited; and nobody must take commands who is not there any more to run them.
    view.session(session.id)
    const commands = request.raw.socket.destroyed ? [] : session.takeCommands()
    return {
      status: 'ok',
      role: session.role,
      ...(session.role === roleBefore ? {} : { message: 'you lead this source now' }),
      ...(commands.length === 0 ? {} : { commands }),
      health: { ...fusion.health.summary() },
    }
  })

  app.delete(`${base}/session/:id`, async (request: WithSession) => {
    const [view, session] = sessionOf(request)
    const forced = (request.query as Record<string, string>)['force'] !== undefined
    view.end(session, forced ? 'ended by force' : 'disconnected')
    return { status: 'ok', message: 'the session ended' }
  })

  const ingest = async (request: WithSession): Promise<IngestAnswer> => {
    const [view, session] = sessionOf(request)
    const body = read(ingestRequest, request.body, 'ingest request')
    return view.ingest(session, {
      events: body.events,
      sourceType: body.source_type,
      isEnd: body.is_end === true || body.is_final === true,
      metadata: body.metadata ?? {},
    })
  }
  app.post(`${base}/ingest/:id/events`, ingest)
  app.post(`${base}/:id/events`, ingest)

  /** The session that is named, or the leader of the only source: older sensors do not say who they are. */
  const speaker = (view: View, named: string | undefined): Session => {
    if (named !== undefined) return view.session(named)
    const leaders = [...view.sources.keys()].map((id) => view.sessions.leader(id)).filter((one) => one !== undefined)
    if (leaders.length === 1) return leaders[0]!
    throw new InvalidInput('session_id is needed: this view has no leader, or several', { code: 'session_needed' })
  }

  app.post(`${base}/consistency/audit/start`, async (request) => {
    const view = viewOf(request)
    const body = read(auditStartRequest, request.body ?? {}, 'start of an audit')
    const auditId = await view.startAudit(speaker(view, body.session_id), body.audit_id)
    return { status: 'audit_started', audit_id: auditId }
  })

  app.post(`${base}/consistency/audit/end`, async (request) => {
    const view = viewOf(request)
    const body = read(auditEndRequest, request.body ?? {}, 'end of an audit')
    const ended = await view.endAudit(speaker(view, body.session_id), body.audit_id, body.complete)
    return { status: ended === 'ended' ? 'audit_ended' : 'ignored' }
  })

  app.get(`${base}/consistency/sentinel/tasks`, async (request): Promise<SentinelTasks> => {
    const view = viewOf(request)
    const { session_id: named, source_id: wanted } = request.query as Record<string, string>
    const sourceId = named === undefined ? wanted : view.session(named).info.sourceId
    for (const source of view.sources.values()) {
      if (sourceId !== undefined && source.id !== sourceId) continue
      const { suspects } = suspectList([source], { wallMs: clock.wallMs(), monotonicMs: clock.monotonicMs() })
      if (suspects.length === 0) continue
      return { type: 'suspect_check', paths: suspects.slice(0, listMax).map(({ path }) => path), source_id: source.id }
    }
    return {}
  })

  app.post(`${base}/consistency/sentinel/feedback`, async (request) => {
    const view = viewOf(request)
    const body = read(sentinelFeedback, request.body, 'sentinel feedback')
    if (body.type !== 'suspect_update') return { status: 'ignored', reason: 'unknown_type' }
    const sourceId = body.session_id === undefined ? body.source_id : view.session(body.session_id).info.sourceId
    return sentinelSaw(view, sourceId, body.updates, clock)
  })
}

interface SuspectUpdate {
  readonly path: string
  readonly mtime?: number | null | undefined
  readonly status?: string | null | undefined
}

export function sentinelSaw(view: View, sourceId: string | undefined, updates: readonly SuspectUpdate[], clock: Clock) {
  let cleared = 0
  let renewed = 0
  for (const source of view.sources.values()) {
    if (sourceId !== undefined && source.id !== sourceId) continue
    for (const { path, mtime, status } of updates) {
      // A suspect that is not there any more is no longer one; whether it is gone, a scan must say.
      if (status === 'missing' && source.tree.find(path) !== none) source.pipe.state.dispute(path, false)
      if (mtime === null || mtime === undefined) continue
      const saw = source.pipe.state.applySentinelReport(path, mtime, clock.monotonicMs())
      if (saw === 'cleared') cleared += 1
      else if (saw === 'renewed') renewed += 1
    }
    view.settle(source)
  }
  if (cleared + renewed > 0) view.changeSignal.ring()
  return { status: 'processed', count: updates.length, cleared, renewed }
}

/** Until there is a command or a new role, or the time is up; never longer than keeps the session well alive. */
async function waitForNews(
  session: Session,
  seconds: number,
  request: FastifyRequest,
  clock: Clock,
  stopping: AbortSignal,
): Promise<void> {
  const waitMs = Math.min(seconds * 1_000, pipeLimits.waitSecondsMax * 1_000, session.info.timeoutMs / 3)
  const over = new AbortController()
  const end = () => over.abort()
  request.raw.socket.once('close', end)
  stopping.addEventListener('abort', end, { once: true })
  if (stopping.aborted || request.raw.socket.destroyed) end()
  await Promise.race([session.waitForWork(), clock.sleep(waitMs, over.signal)])
  end()
  request.raw.socket.off('close', end)
  stopping.removeEventListener('abort', end)
}
