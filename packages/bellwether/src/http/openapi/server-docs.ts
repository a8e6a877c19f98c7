/** What the routes of keys, logins, health and the board answer. */
import { z } from 'zod'
import { keyRoles } from '../../kernel/access/api-keys.js'
import { taskStatuses } from '../../board/log/task.js'
import { anything, count, flag, list, maybe, name, pageOf, said, shape, time, type Docs } from './doc.js'

const role = z.enum(keyRoles)
const state = said('ok', 'degraded', 'failed')
const oneKey = shape({ key_id: name, key: name.describe('shown here and never again') })

export const houseDocs: Docs = {
  'GET /me': {
    answers: { 200: shape({ key_id: name, name: maybe(name), role, view: maybe(name), project: maybe(name) }) },
  },
  'GET /keys': {
    answers: {
      200: shape({
        keys: list(
          shape({
            key_id: name,
            name,
            role,
            view_name: maybe(name),
            project_id: maybe(name),
            created_at: time,
            created_by: name,
            rotated_at: maybe(time),
            revoked_at: maybe(time),
            last_used_at: maybe(time),
          }),
        ),
      }),
    },
  },
  'POST /keys': { answers: { 201: oneKey } },
  'POST /keys/:key/rotate': { answers: { 200: oneKey } },
  'DELETE /keys/:key': { answers: { 200: shape({ key_id: name, status: said('revoked') }) } },
  'GET /audit': {
    answers: {
      200: pageOf(
        'audit',
        shape({
          audit_id: count,
          at: time,
          actor: name,
          role: maybe(name),
          address: maybe(name),
          method: name,
          path: name,
          status: count,
          code: maybe(name),
        }),
        maybe(count),
      ),
    },
  },
  'POST /logins': { answers: { 201: shape({ path: name, expires_in_seconds: count }) } },
  'DELETE /logins': { answers: { 200: shape({ status: said('signed_out') }) } },
  'GET /health/components': {
    summary: 'What the parts of this house say of themselves, and what that amounts to',
    answers: {
      200: shape({
        summary: shape({
          status: state,
          units: count,
          restarts: count,
          changes: count,
          troubled: z.record(z.string(), state),
        }),
        components: list(
          shape({
            kind: name.describe('part: a supervised process; else a unit of a view'),
            name,
            state,
            own_state: state,
            because: maybe(name),
            restarts: count,
            error: maybe(name),
            depends_on: list(name),
            status: said('starting', 'ready', 'waiting', 'quarantined', 'stopped').optional(),
            pid: maybe(count).optional(),
            last_end: maybe(name).optional(),
            since: maybe(time).optional(),
            next_start_at: maybe(time).optional(),
          }),
        ),
      }),
    },
  },
}

const line = {
  taskId: name,
  title: name,
  status: z.enum(taskStatuses),
  priority: count,
  impact: count,
  assignee: maybe(name),
  reason: maybe(name),
  dependencies: list(name),
  createdAt: name,
  updatedAt: name,
  waitsFor: maybe(name),
  waitCode: maybe(name),
  waitUntil: maybe(time),
  recovery: maybe(
    shape({
      reasonCode: name,
      attempt: count,
      maxAttempts: count,
      nextAssignee: name,
      action: said('retry', 'human', 'escalate'),
      recoveryState: name,
      cooldownUntilTs: count,
      deadlineTs: count,
      reminders: count,
    }),
  ),
  budget: maybe(
    shape({
      agent: name,
      tokenUsage: count,
      elapsedMs: count,
      retryCount: count,
      exceededCount: count,
      limits: shape({
        maxTaskTokens: maybe(count),
        maxTaskWallTimeSec: maybe(count),
        maxTaskRetries: maybe(count),
      }),
      nearest: maybe(shape({ unit: said('tokens', 'ms', 'runs'), used: count, limit: count, fraction: count })),
    }),
  ),
  next: maybe(shape({ place: count, of: count, assignee: name, why: name })).describe('only while it is ready'),
  costMicros: maybe(count),
}

const wholeTask = shape({
  ...line,
  runs: list(
    shape({
      runId: name,
      agent: name,
      startedAt: name,
      agentTurnId: name.optional(),
      endedAt: name.optional(),
      outcome: name.optional(),
      reasonCode: name.optional(),
      tokenUsage: count.optional(),
      elapsedMs: count.optional(),
      costMicros: maybe(count),
      turnStatus: maybe(name),
    }),
  ),
  fields: anything,
})

const report = shape({
  taskId: name,
  title: name,
  status: z.enum(taskStatuses),
  settledHere: flag,
  reason: maybe(name),
  spawn: maybe(anything),
  knowledge: maybe(anything),
})

export const boardDocs: Docs = {
  'GET /board/tasks': {
    answers: {
      200: shape({
        tasks: list(shape(line)),
        total: count,
        cursor: maybe(count),
        choice: shape({
          taskId: maybe(name),
          assignee: maybe(name),
          because: name,
          others: list(shape({ taskId: name, code: name, why: name })),
          left: count,
          ready: count,
        }),
        paused: maybe(shape({ by: name, at: name, reason: name.optional() })),
      }),
    },
  },
  'POST /board/tasks': { answers: { 201: wholeTask } },
  'GET /board/tasks/:task': { answers: { 200: wholeTask } },
  'PATCH /board/tasks/:task': { answers: { 200: wholeTask } },
  'POST /board/tasks/:task/dispatch': { answers: { 200: report, 202: report } },
  'POST /board/autopilot': {
    answers: { 200: shape({ reports: list(report.extend({ choice: anything.optional() })), stoppedBecause: name }) },
  },
  'POST /board/control': { answers: { 200: shape({ paused: flag }) } },
  'GET /board/events': { answers: { 200: 'text/event-stream' } },
}

/** Outside the API's base. */
export const statusDocs: Docs = {
  'GET /healthz': { summary: 'Whether the process lives', open: true, answers: { 200: shape({ status: said('ok') }) } },
  'GET /readyz': {
    summary: 'Whether it can work',
    open: true,
    answers: {
      200: shape({ status: said('ready'), database: flag, draining: flag, views: anything }),
      503: shape({ status: said('not_ready'), database: flag, draining: flag, views: anything }),
    },
  },
  'GET /metrics': {
    summary: 'Numbers for Prometheus; on a public address with a key',
    open: true,
    answers: { 200: 'text/plain' },
  },
  'GET /login': {
    summary: 'Signs a browser in with a one-time link, and leads to the dashboard',
    open: true,
    querystring: shape({ token: name.optional() }),
    answers: { 303: 'text/plain' },
  },
  'GET /openapi.json': { summary: 'This description', open: true, answers: { 200: anything } },
}
