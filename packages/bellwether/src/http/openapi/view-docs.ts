/** What the routes of views and of the pipe take and answer: they check requests themselves, and are described here alone. */
import {
  auditAnswer,
  auditEndRequest,
  auditStartRequest,
  heartbeatAnswer,
  heartbeatRequest,
  ingestAnswer,
  ingestRequest,
  sentinelFeedback,
  sentinelTasks,
  sessionAnswer,
  sessionRequest,
} from '@bellwether/protocol'
import { z } from 'zod'
import { evidenceQuestion, evidenceSource } from '../routes/evidence.js'
import { viewQuestions as asked } from '../routes/views.js'
import { anything, count, flag, list, maybe, name, said, shape, type Docs } from './doc.js'

const v = '/views/:view'
const job = shape({
  job_id: name,
  job_pending: flag,
  job_state: said('pending', 'done', 'failed', 'timed_out'),
  path: name,
  source_id: name,
  rows: count,
  deleted: count,
  error: maybe(name),
})
const node = {
  name,
  content_type: said('file', 'directory'),
  path: name,
  size: count,
  modified_time: count,
  created_time: maybe(count),
  integrity_suspect: flag,
  audit_skipped: flag.optional(),
  agent_missing: flag,
  last_agent_id: maybe(name),
  source_uri: maybe(name),
}
const stats = {
  item_count: count,
  total_files: count,
  total_directories: count,
  total_size: count,
  latest_mtime: count,
  staleness_seconds: maybe(count),
  has_blind_spot: flag,
  suspect_file_count: count,
  tombstone_count: count,
  logical_now: count,
  last_audit_start: maybe(count),
  last_audit_finished_at: maybe(count),
  audit_cycle_count: count,
  is_auditing: flag,
  ready: flag,
  full: flag,
}
const barrier = shape({ synced: flag, asked: count, passed: count, missing: list(name), token: name })
const ended = shape({ status: name, message: name.optional() })
const ingest = { summary: 'Rows that a sensor saw', body: ingestRequest, answers: { 200: ingestAnswer } }

export const viewDocs: Docs = {
  'GET /views': {
    summary: 'The views that this key reaches, with sources and leaders',
    answers: {
      200: shape({
        views: list(
          shape({
            view_id: name,
            ready: flag,
            sessions: count,
            item_count: count,
            total_files: count,
            total_directories: count,
            total_size: count,
            suspect_file_count: count,
            has_blind_spot: flag,
            is_auditing: flag,
            sources: list(
              shape({
                source_id: name,
                ready: flag,
                full: flag,
                leader: maybe(shape({ session_id: name, agent_id: name, source_uri: maybe(name) })),
                sessions: count,
                item_count: count,
                total_size: count,
                suspect_file_count: count,
                staleness_seconds: maybe(count),
                is_auditing: flag,
              }),
            ),
          }),
        ),
      }),
    },
  },
  [`GET ${v}/tree`]: {
    summary: 'A folder and what is in it; with several sources one for each',
    querystring: asked.tree,
    answers: {
      200: shape({
        ...z.object(node).partial().shape,
        children: list(z.unknown()).optional(),
        members: z.record(z.string(), z.unknown()).optional(),
        job_id: maybe(name),
        job_pending: flag,
        source_id: name.optional(),
      }),
      202: job.describe('nobody has seen this path yet: the scan is looking for it'),
    },
  },
  [`GET ${v}/jobs/:job`]: { summary: 'How a scan on demand stands', answers: { 200: job } },
  [`GET ${v}/search`]: {
    summary: 'Entries by the pattern of their name',
    querystring: asked.search,
    answers: {
      200: shape({
        pattern: name,
        results: list(shape({ ...node, source_id: name })),
        count,
        truncated: flag,
      }),
    },
  },
  [`GET ${v}/stats`]: {
    summary: 'Counts of the view, or of a folder (`?path=`)',
    querystring: asked.stats,
    answers: {
      200: shape({
        ...z.object(stats).partial().shape,
        path: name.optional(),
        sources: z.record(z.string(), shape(stats)).optional(),
        best: z.record(z.string(), maybe(name)).optional(),
        sessions: count.optional(),
      }),
    },
  },
  [`GET ${v}/blind-spots`]: {
    summary: 'What sensors cannot be relied on to tell',
    querystring: asked.choice,
    answers: {
      200: shape({ additions_count: count, additions: list(name), deletion_count: count, deletions: list(name) }),
    },
  },
  [`GET ${v}/suspect-list`]: {
    summary: 'Files that may not be whole',
    querystring: asked.choice,
    answers: {
      200: shape({
        count,
        suspects: list(shape({ path: name, mtime: count, expires_in_seconds: count, source_id: name })),
      }),
    },
  },
  [`PUT ${v}/suspect-list`]: {
    summary: 'Somebody looked at suspects',
    body: asked.suspects,
    answers: { 200: shape({ status: name, count, cleared: count, renewed: count }) },
  },
  [`GET ${v}/sessions`]: {
    summary: 'Sensors that are connected',
    answers: {
      200: shape({
        count,
        sessions: list(
          shape({
            session_id: name,
            task_id: name,
            agent_id: name,
            source_id: name,
            source_uri: name.optional(),
            client_ip: name,
            role: said('leader', 'follower'),
            can_realtime: flag,
            session_timeout_seconds: count,
            created_at: count,
            silent_seconds: count,
            commands_waiting: count,
            agent_status: z.unknown(),
          }),
        ),
      }),
    },
  },
  [`DELETE ${v}/sessions/:id`]: { summary: 'End a sensor’s session', answers: { 200: ended } },
  [`GET ${v}/changes`]: {
    summary: 'What changed since a token; without one: a token for now',
    querystring: asked.changes,
    answers: { 200: shape({ fresh_instance: flag, changes: list(anything), token: name, more: flag }) },
  },
  [`GET ${v}/diff`]: {
    summary: 'How two sources differ',
    querystring: asked.diff,
    answers: {
      200: shape({
        left: name,
        right: name,
        differences: list(shape({ path: name, kind: name })),
        truncated: flag,
      }),
    },
  },
  [`GET ${v}/sync`]: {
    summary: 'Wait until the view has what was there',
    querystring: asked.sync,
    answers: { 200: barrier },
  },
  [`POST ${v}/sync`]: { summary: 'The same', querystring: asked.sync, answers: { 200: barrier } },
  [`GET ${v}/evidence`]: {
    summary: 'A token for now',
    querystring: evidenceSource,
    answers: { 200: shape({ token: maybe(name) }) },
  },
  [`POST ${v}/evidence`]: {
    summary: 'Whether files are there, and changed since a token',
    body: evidenceQuestion,
    answers: { 200: shape({ files: list(shape({ path: name, found: name })) }) },
  },
  [`GET ${v}/events`]: {
    summary: 'Changes of a view (text/event-stream)',
    querystring: asked.choice,
    answers: { 200: 'text/event-stream' },
  },
}

const pipe = '/pipe'

export const pipeDocs: Docs = {
  [`GET ${pipe}/session`]: {
    summary: 'The view that this key feeds',
    answers: { 200: shape({ view_id: name, status: said('ready', 'not_ready'), sessions: count }) },
  },
  [`POST ${pipe}/session`]: { summary: 'A sensor connects', body: sessionRequest, answers: { 200: sessionAnswer } },
  [`POST ${pipe}/session/:id/heartbeat`]: {
    summary: 'A sensor lives, and is told what to do',
    body: heartbeatRequest,
    answers: { 200: heartbeatAnswer },
  },
  [`DELETE ${pipe}/session/:id`]: { summary: 'A sensor leaves', answers: { 200: ended } },
  [`POST ${pipe}/ingest/:id/events`]: ingest,
  [`POST ${pipe}/:id/events`]: ingest,
  [`POST ${pipe}/consistency/audit/start`]: {
    summary: 'An audit begins',
    body: auditStartRequest,
    answers: { 200: auditAnswer },
  },
  [`POST ${pipe}/consistency/audit/end`]: {
    summary: 'An audit ends',
    body: auditEndRequest,
    answers: { 200: auditAnswer },
  },
  [`GET ${pipe}/consistency/sentinel/tasks`]: {
    summary: 'Suspects to look at',
    querystring: shape({ session_id: name.optional(), source_id: name.optional() }),
    answers: { 200: sentinelTasks },
  },
  [`POST ${pipe}/consistency/sentinel/feedback`]: {
    summary: 'What a look at suspects showed',
    body: sentinelFeedback,
    answers: {
      200: shape({
        status: name,
        reason: name.optional(),
        count: count.optional(),
        cleared: count.optional(),
        renewed: count.optional(),
      }),
    },
  },
}
