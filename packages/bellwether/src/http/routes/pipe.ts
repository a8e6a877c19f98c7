/**
 * The pipe protocol: sessions, heartbeats with commands, ingest, audits and sentinel. The key selects the view, the session
 * selects the source. The contract validates envelopes; the view validates rows.
 */
import type { IncomingMessage } from 'node:http'
import { defined, type Clock } from '@bellwether/base'
import { InvalidInput, pipeLimits, Retryable, Terminal } from '@bellwether/protocol'
import { httpReceiver } from '../../view/health.js'
import { suspectList } from '../../view/queries/summaries.js'
import type { Session } from '../../view/sessions/sessions.js'
import { none } from '../../view/tree/tree.js'
import type { View } from '../../view/view.js'
import { linkClient, type Api, type RequestOf, type ViewParts } from '../api.js'
import { fedBy, mustBeLive, type Grant } from '../auth.js'

interface Granted {
  readonly grant: Grant
}

export interface PipeParts extends ViewParts {
  /** The sensor runs in this process and does not use the HTTP receiver. */
  readonly inProcess?: boolean
}

export function pipeRoutes(api: Api, { fusion, signal, inProcess = false }: PipeParts): void {
  const { clock } = fusion
  const viewOf = ({ grant }: Granted) => fusion.view(fedBy(grant))
  /** V5.3: a failed receiver fails its pipes, so requests that still arrive through it must not change a view. */
  const mustReceive = () => {
    if (inProcess || fusion.health.get(httpReceiver)?.state !== 'failed') return
    throw new Retryable('The receiver of this server failed and is restarting', {
      code: 'receiver_failed',
      afterMs: 1_000,
    })
  }
  /** 403 for a session of another view, 419 for a session that has ended. */
  const sessionOf = (request: Granted & { readonly params: { readonly id: string } }): readonly [View, Session] => {
    const view = viewOf(request)
    const { id } = request.params
    if (view.sessions.get(id) === undefined) {
      for (const other of fusion.views.values())
        if (other !== view && other.sessions.get(id) !== undefined)
          throw new Terminal('The session belongs to another view', { code: 'forbidden' })
    }
    return [view, view.session(id)]
  }

  api('GET /pipe/session', async (request) => {
    const view = viewOf(request)
    return { view_id: view.name, status: view.ready ? 'ready' : 'not_ready', sessions: view.sessions.size }
  })

  api('POST /pipe/session', async (request) => {
    const view = viewOf(request)
    const { body, grant } = request
    const session = view.connect({
      taskId: body.task_id,
      clientInfo: body.client_info ?? {},
      timeoutSeconds: body.session_timeout_seconds,
      clientAddress: request.ip,
      inProcess,
      key: { id: grant.keyId, isLive: () => grant.isLive() },
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
      message: `${session.role === 'leader' ? 'this' : 'another'} session leads the source`,
    }
  })

  api('POST /pipe/session/:id/heartbeat', async (request) => {
    const [view, session] = sessionOf(request)
    const { body } = request
    view.heartbeat(session, body.can_realtime, body.agent_status)
    const roleBefore = session.role
    const { newDirectories } = view.sourceOf(session)
    const waitSeconds = newDirectories.hasFor(session) ? 0 : (body.wait_seconds ?? 0)
    if (waitSeconds > 0) await waitForNews(session, waitSeconds, request.raw, clock, signal)
    mustBeLive(request.grant)
    // The session may have ended during the wait. Commands stay queued if the sensor has disconnected.
    view.session(session.id)
    const commands = request.raw.socket.destroyed ? [] : [...session.takeCommands(), ...newDirectories.takeFor(session)]
    return {
      status: 'ok',
      role: session.role,
      ...defined({
        message: session.role === roleBefore ? undefined : 'this session now leads the source',
        commands: commands.length === 0 ? undefined : commands,
      }),
      health: { ...fusion.health.summary() },
    }
  })

  api('DELETE /pipe/session/:id', async (request) => {
    const [view, session] = sessionOf(request)
    view.end(session, request.query.force !== undefined ? 'ended by force' : 'disconnected')
    return { status: 'ok', message: 'the session ended' }
  })

  const ingest = async (request: RequestOf<'POST /pipe/:id/events' | 'POST /pipe/ingest/:id/events'>) => {
    mustReceive()
    const [view, session] = sessionOf(request)
    const { body } = request
    return view.ingest(session, {
      events: body.events,
      sourceType: body.source_type,
      isEnd: body.is_end === true || body.is_final === true,
      metadata: body.metadata ?? {},
    })
  }
  api('POST /pipe/ingest/:id/events', ingest)
  api('POST /pipe/:id/events', ingest)

  /** The named session, or the leader of the only source: older sensors do not send a session id. */
  const speaker = (view: View, named: string | undefined): Session => {
    if (named !== undefined) return view.session(named)
    const leaders = [...view.sources.keys()].map((id) => view.sessions.leader(id)).filter((one) => one !== undefined)
    if (leaders.length === 1) return leaders[0]!
    throw new InvalidInput('"session_id" is required: the view has no leader, or several', { code: 'session_needed' })
  }

  api('POST /pipe/consistency/audit/start', async (request) => {
    mustReceive()
    const view = viewOf(request)
    const { body } = request
    const auditId = await view.startAudit(speaker(view, body.session_id), body.audit_id)
    return { status: 'audit_started', audit_id: auditId }
  })

  api('POST /pipe/consistency/audit/end', async (request) => {
    mustReceive()
    const view = viewOf(request)
    const { body } = request
    const ended = await view.endAudit(speaker(view, body.session_id), body.audit_id, body.complete)
    return { status: ended === 'ended' ? 'audit_ended' : 'ignored' }
  })

  api('GET /pipe/consistency/sentinel/tasks', async (request) => {
    const view = viewOf(request)
    const { session_id: named, source_id: wanted } = request.query
    const sourceId = named === undefined ? wanted : view.session(named).info.sourceId
    for (const source of view.sources.values()) {
      if (sourceId !== undefined && source.id !== sourceId) continue
      const { suspects } = suspectList([source], { wallMs: clock.wallMs(), monotonicMs: clock.monotonicMs() })
      if (suspects.length === 0) continue
      return { type: 'suspect_check', paths: pathsUpTo(suspects, tasksLengthMax), source_id: source.id }
    }
    return {}
  })

  api('POST /pipe/consistency/sentinel/feedback', async (request) => {
    mustReceive()
    const view = viewOf(request)
    const { body } = request
    if (body.type !== 'suspect_update') return { status: 'ignored', reason: 'unknown_type' }
    const sourceId = body.session_id === undefined ? body.source_id : view.session(body.session_id).info.sourceId
    return sentinelSaw(view, sourceId, body.updates, clock)
  })
}

// Characters of the paths of one response. JSON may escape one character as six; a sensor accepts 8 MB.
const tasksLengthMax = 1_000_000

function pathsUpTo(suspects: readonly { readonly path: string }[], lengthMax: number): string[] {
  const paths: string[] = []
  let length = 0
  for (const { path } of suspects) {
    length += path.length
    if (length > lengthMax) break
    paths.push(path)
  }
  return paths
}

interface SuspectUpdate {
  readonly path: string
  readonly mtime?: number | null | undefined
  readonly size?: number | null | undefined
  readonly status?: string | null | undefined
}

export function sentinelSaw(view: View, sourceId: string | undefined, updates: readonly SuspectUpdate[], clock: Clock) {
  let cleared = 0
  let renewed = 0
  for (const source of view.sources.values()) {
    if (sourceId !== undefined && source.id !== sourceId) continue
    for (const { path, mtime, size, status } of updates) {
      // A missing file is no longer a suspect; a scan decides whether it was deleted.
      if (status === 'missing' && source.tree.find(path) !== none) source.pipe.state.dispute(path, false)
      if (mtime === null || mtime === undefined) continue
      const saw = source.pipe.state.applySentinelReport(
        path,
        { modifiedTime: mtime, size: size ?? undefined },
        clock.monotonicMs(),
      )
      if (saw === 'cleared') cleared += 1
      else if (saw === 'renewed') renewed += 1
    }
    view.scans.settle(source)
  }
  if (cleared + renewed > 0) view.changeSignal.ring()
  return { status: 'processed', count: updates.length, cleared, renewed }
}

/** Waits for a command or a new role, at most a third of the session's timeout, so that waiting never ends the session. */
async function waitForNews(
  session: Session,
  seconds: number,
  client: IncomingMessage,
  clock: Clock,
  stopping: AbortSignal,
): Promise<void> {
  const waitMs = Math.min(seconds * 1_000, pipeLimits.waitSecondsMax * 1_000, session.info.timeoutMs / 3)
  const link = linkClient(client, stopping)
  await Promise.race([session.waitForWork(), clock.sleep(waitMs, link.signal)])
  link.abort()
}
