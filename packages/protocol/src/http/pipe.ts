/** The routes of the pipe protocol, by which sensors feed views. Its messages are in ../pipe.ts, which sensors load too. */
import { z } from '../deferred.js'
import {
  auditResponse,
  auditEndRequest,
  auditStartRequest,
  heartbeatResponse,
  heartbeatRequest,
  ingestResponse,
  ingestRequest,
  sentinelFeedback,
  sentinelTasks,
  sessionResponse,
  sessionRequest,
} from '../pipe.js'
import { bodyBytes, flag, type Route } from './shapes.js'
import { suspectUpdate } from './views.js'

const oneSession = z.object({ id: z.string() })
const ingest = {
  summary: 'Send file events',
  params: oneSession,
  bodyBytesMax: bodyBytes.large,
  body: ingestRequest,
  responses: { 200: ingestResponse },
} as const

export const pipeRoutes = {
  'GET /pipe/session': {
    summary: 'Read which view the key feeds',
    responses: { 200: z.object({ view_id: z.string(), status: z.enum(['ready', 'not_ready']), sessions: z.number() }) },
  },
  'POST /pipe/session': { summary: 'Open a session', body: sessionRequest, responses: { 200: sessionResponse } },
  'POST /pipe/session/:id/heartbeat': {
    summary: 'Keep a session alive and receive commands',
    params: oneSession,
    body: heartbeatRequest,
    responses: { 200: heartbeatResponse },
  },
  'DELETE /pipe/session/:id': {
    summary: 'Close a session',
    params: oneSession,
    query: z.object({ force: flag }),
    responses: { 200: z.object({ status: z.literal('ok'), message: z.string() }) },
  },
  'POST /pipe/ingest/:id/events': ingest,
  'POST /pipe/:id/events': ingest,
  'POST /pipe/consistency/audit/start': {
    summary: 'Start an audit',
    body: auditStartRequest,
    responses: { 200: auditResponse },
  },
  'POST /pipe/consistency/audit/end': {
    summary: 'End an audit',
    body: auditEndRequest,
    responses: { 200: auditResponse },
  },
  'GET /pipe/consistency/sentinel/tasks': {
    summary: 'List suspects to check',
    query: z.object({ session_id: z.string().optional(), source_id: z.string().optional() }),
    responses: { 200: sentinelTasks },
  },
  'POST /pipe/consistency/sentinel/feedback': {
    summary: 'Report what a check of suspects found',
    bodyBytesMax: bodyBytes.large,
    body: sentinelFeedback,
    responses: { 200: suspectUpdate },
  },
} as const satisfies Record<string, Route>
