/**
 * The routes that the pages use, over the fixture data. The HTTP contract types every request and answer, and `answerTo`
 * parses both with its schemas, so that the fixture cannot drift from the server.
 */
import { defined } from '@bellwether/base'
import { routes, type Route, type Fire, type Schedule } from '@bellwether/protocol/http'
import type { SourceStats } from '../../src/api/types.js'
import { spansOf } from './spans-data.js'
import { turnId } from './strings.js'
import { changesOf } from './board-data.js'
import { bulkHandlers } from './bulk-routes.js'
import type { Handlers, Scene } from './handlers.js'
import { evalCaseOf, evalCasesOf, evalRunOf, evalRunsOf, evalsOf } from './evals-data.js'
import { trendsOf } from './trends-data.js'

const ago = (ms: number) => new Date(Date.now() - ms).toISOString()
const page = <T>(all: readonly T[], cursor: string | undefined, limit: number) => {
  const from = Number(cursor ?? 0) || 0
  return { page: all.slice(from, from + limit), cursor: from + limit < all.length ? String(from + limit) : null }
}
const ifFull = <T>({ isEmpty }: Scene, items: readonly T[]): readonly T[] => (isEmpty ? [] : items)

const worker = (worker_id: string, worker_target: string, concurrency: number, free: number, silentMs = 0) => ({
  worker_id,
  worker_target,
  started_at: ago(4_000_000),
  last_claim_at: null,
  seen_at: ago(silentMs),
  concurrency,
  free,
})

const started = { agent_turn_id: turnId(0), inbox_id: 'i', status: 'queued' }

const statsNow = (): SourceStats => ({
  item_count: 5_012,
  total_files: 5_007,
  total_directories: 5,
  total_size: 81_234_567,
  latest_mtime: 0,
  staleness_seconds: 3.2,
  has_blind_spot: true,
  suspect_file_count: 2,
  tombstone_count: 4,
  logical_now: Date.now() / 1_000,
  last_audit_start: null,
  last_audit_finished_at: Date.now() / 1_000 - 3_000,
  audit_cycle_count: 12,
  is_auditing: false,
  ready: true,
  full: false,
})

const fire = (schedule: string, outcome: string | null): Fire => ({
  schedule,
  instant: ago(outcome === null ? 90_000_000 : 3_600_000),
  kind: 'timer',
  status: 'started',
  reason: null,
  skipped: 0,
  agent_turn_id: outcome === null ? null : turnId(0),
  task_id: null,
  outcome,
  requested_by: null,
  created_at: ago(3_600_000),
  ended_at: ago(3_500_000),
})

const schedulesIn = ({ world }: Scene): readonly Schedule[] =>
  (['nightly', 'triage'] as const).map((schedule) => ({
    schedule,
    source: schedule === 'triage' ? 'file' : 'api',
    origin: null,
    definition:
      schedule === 'triage'
        ? { every: '6h', task: { title: world.say('Triage new issues') }, missed: 'latest', overlap: 'skip' }
        : {
            cron: '30 2 * * *',
            time_zone: 'Europe/Berlin',
            agent: 'coder',
            instruction: 'Update',
            missed: 'latest',
            overlap: 'skip',
          },
    problem:
      schedule === 'triage' ? world.say('schedules/triage.toml:1: "every": "1s" must be from 10s to 366d') : null,
    paused_at: null,
    paused_by: null,
    next_fires: [ago(-3_600_000), ago(-90_000_000)],
    open: 0,
    last_fire: { ...fire(schedule, 'success'), status: 'failed', reason: world.say('no agent') },
    created_at: ago(100_000_000),
    updated_at: ago(100_000_000),
    updated_by: 'key admin',
  }))

const sensor = (host: string, role: 'leader' | 'follower', silent_seconds: number) => ({
  session_id: host,
  task_id: host,
  agent_id: host,
  source_id: 'main',
  source_uri: `file://${host}/mnt/data`,
  client_ip: '127.0.0.1',
  role,
  can_realtime: true,
  session_timeout_seconds: 30,
  created_at: 0,
  silent_seconds,
  commands_waiting: 0,
  agent_status: null,
})

const handlers: Handlers = {
  'DELETE /logins': () => ({ status: 'signed_out' }),
  'GET /me': () => ({ key_id: 'k', role: 'admin', name: 'test', project: null, view: null, targets: null }),
  'GET /projects': () => ({
    projects: ['demo', 'second'].map((project_id) => ({ project_id, created_at: ago(0), worker_targets: null })),
  }),
  'GET /projects/:project/agents': (scene, { query }) => {
    const { page: agents, cursor } = page(ifFull(scene, scene.world.agents), query.cursor, query.limit)
    return { agents, cursor }
  },
  'GET /projects/:project/workers': (scene) => ({
    workers: ifFull(scene, [
      worker('worker-7f3a', 'default', 16, 9),
      worker('worker-91bc', 'coding', 4, 0),
      worker('worker-dead', 'gpu', 4, 4, 400_000),
    ]),
  }),
  'GET /projects/:project/turns': (scene, { query }) => {
    const { status, agent, error = '', since, cursor: from, limit } = query
    const matching = ifFull(scene, scene.world.turns).filter(
      (turn) =>
        (status ?? turn.status) === turn.status &&
        (agent ?? turn.agent_id) === turn.agent_id &&
        (turn.error ?? '').startsWith(error) &&
        (since === undefined || Date.parse(turn.created_at) >= Date.parse(since)),
    )
    const { page: turns, cursor } = page(matching, from, limit)
    return { turns, cursor }
  },
  'GET /projects/:project/turns/:turn': ({ world }, { params }) => world.detail(params.turn),
  'GET /projects/:project/turns/:turn/spans': ({ world }, { params: { turn } }) => {
    const detail = world.detail(turn)
    const spans = (at: string) => spansOf(turn, Date.parse(at), (text) => world.say(text))
    return detail && { spans: spans(detail.created_at), truncated: false }
  },
  'GET /projects/:project/turns/:turn/changes': ({ world }) => changesOf((text) => world.say(text)),
  'GET /projects/:project/turns/:turn/transcript': ({ world }, { query: { after = 0, before, limit } }) => {
    const matching = world.transcript.filter(({ seq }) => (before === undefined ? seq > after : seq < before))
    const entries = before === undefined ? matching.slice(0, limit) : matching.slice(-limit)
    const cursor = (before === undefined ? entries.at(-1) : entries[0])?.seq ?? null
    return { entries, cursor: matching.length > limit ? cursor : null }
  },
  'POST /projects/:project/turns/:turn/continue': () => started,
  'POST /projects/:project/agents/:agent/turns': () => started,
  'POST /projects/:project/turns/:turn/stop': (_, { params }) => ({ agent_turn_id: params.turn, status: 'canceled' }),
  'GET /projects/:project/cards/:card': ({ world }, { params }) => world.card(params.card),
  'GET /projects/:project/schedules': (scene) => ({ schedules: ifFull(scene, schedulesIn(scene)), cursor: null }),
  'GET /projects/:project/schedules/:schedule': (scene, { params }) =>
    schedulesIn(scene).find((one) => one.schedule === params.schedule),
  'GET /projects/:project/schedules/:schedule/fires': (_, { params }) => ({
    fires: [
      fire(params.schedule, 'success'),
      { ...fire(params.schedule, null), status: 'skipped', reason: 'missed', skipped: 3 },
    ],
    cursor: null,
  }),
  'POST /projects/:project/schedules/:schedule/run': (_, { params }) => fire(params.schedule, null),
  'POST /projects/:project/schedules/:schedule/pause': (scene, { params }) =>
    schedulesIn(scene).find((one) => one.schedule === params.schedule),
  'POST /projects/:project/schedules': (scene, { body }) => ({
    ...schedulesIn(scene)[0]!,
    schedule: body.schedule,
    definition: { ...body.definition },
  }),
  'GET /projects/:project/questions': (scene) => ({
    questions: ifFull(scene, scene.world.questions).filter((one) => !scene.isAnswered(one.tool_call_id)),
  }),
  'GET /projects/:project/approvals': (scene) => ({
    approvals: ifFull(scene, scene.world.approvals).filter((one) => !scene.isAnswered(one.approval_id)),
  }),
  'POST /projects/:project/approvals/:approval/decision': (_, { params }) => ({
    approval_id: params.approval,
    status: 'allowed' as const,
  }),
  'GET /projects/:project/grants': (scene) => ({ grants: ifFull(scene, scene.world.grants) }),
  'DELETE /projects/:project/grants/:grant': (_, { params }) => ({ grant_id: params.grant }),
  'POST /projects/:project/tool-calls/:call/result': (_, { params }) => ({
    tool_call_id: params.call,
    status: 'accepted',
  }),
  'GET /watchdog/interventions': (scene, { query: { kind } }) => ({
    interventions: ifFull(scene, scene.world.interventions).filter((one) => (kind ?? one.kind) === one.kind),
    cursor: null,
  }),
  'GET /board/tasks': (scene, { query: { status, text = '', agent, error = '' } }) => {
    const tasks = ifFull(scene, scene.world.tasks).filter(
      (task) =>
        (status === undefined ? task.status !== 'done' : task.status === status) &&
        `${task.taskId} ${task.title}`.toLowerCase().includes(text.toLowerCase()) &&
        (agent ?? task.assignee) === task.assignee &&
        (task.reason ?? '').includes(error),
    )
    const taskId = tasks.length === 0 ? null : 'T-1'
    return {
      tasks: tasks.map(({ runs: _runs, fields: _fields, ...task }) => task),
      total: tasks.length,
      cursor: null,
      choice: {
        taskId,
        assignee: taskId && 'coder',
        because: 'it has the highest priority of 2 that are ready',
        others: [],
        left: 0,
        ready: 2,
      },
      paused: scene.world.state.paused,
    }
  },
  'GET /board/tasks/:task': ({ world }, { params }) => world.tasks.find(({ taskId }) => taskId === params.task),
  'GET /board/checks': () => ({ checks: [{ name: 'tests', description: 'npm test' }] }),
  'POST /board/tasks': ({ world }) => world.tasks[0],
  'PATCH /board/tasks/:task': ({ world }, { params, body: { title, priority } }) => {
    const task = world.tasks.find(({ taskId }) => taskId === params.task)
    return task && Object.assign(task, defined({ title, priority }), { updatedAt: new Date().toISOString() })
  },
  'GET /projects/:project/trends': ({ world, isEmpty }, { query }) =>
    trendsOf((text) => world.say(text), query.range, query.agent, isEmpty),
  ...bulkHandlers,
  'GET /projects/:project/evals': ({ world, isEmpty }) => evalsOf((text) => world.say(text), isEmpty),
  'GET /projects/:project/eval-runs': ({ isEmpty }) => evalRunsOf(isEmpty),
  'GET /projects/:project/eval-runs/:run': ({ world }) => evalRunOf((text) => world.say(text)),
  'GET /projects/:project/eval-runs/:run/results': ({ world }, { query }) =>
    evalCasesOf((text) => world.say(text), query.show, query.cursor),
  'GET /projects/:project/eval-runs/:run/results/:number': ({ world }, { params }) =>
    evalCaseOf((text) => world.say(text), Number(params.number)),
  'POST /projects/:project/evals/:suite/runs': () => evalRunsOf(false).runs[0]!,
  'POST /projects/:project/eval-runs/:run/stop': () => evalRunsOf(false).runs[0]!,
  'GET /quotas': ({ world }) => ({ holds: world.holds, limits: world.limits }),
  'GET /health/components': (scene) =>
    scene.isEmpty
      ? { summary: { status: 'ok', units: 0, restarts: 0, changes: 0, troubled: {} }, components: [] }
      : scene.world.health,
  'GET /views': (scene) => {
    const { item_count, total_files, total_directories, total_size } = statsNow()
    const counts = { item_count, total_files, total_directories, total_size, suspect_file_count: 2, sessions: 2 }
    const state = { ready: true, live: true, available: true, has_blind_spot: true, is_auditing: false }
    const view = { view_id: 'shared', sources: [], ...state, ...counts }
    return { views: ifFull(scene, [view]) }
  },
  'GET /views/:view/stats': () => ({ ...statsNow(), sources: { main: statsNow() }, best: {}, sessions: 2 }),
  'GET /views/:view/sessions': () => ({
    count: 2,
    sessions: [sensor('host-a', 'leader', 0.8), sensor('host-b', 'follower', 7)],
  }),
  'GET /views/:view/blind-spots': ({ world }) => ({
    additions_count: 1,
    additions: ['/src/vendor.ts'],
    deletion_count: 1,
    deletions: [world.deleted],
  }),
  'GET /views/:view/tree': ({ world }, { query: { path } }) => ({
    path,
    content_type: 'directory',
    children: world.folder(path),
    source_id: 'main',
    job_id: null,
    job_pending: false,
  }),
  'GET /views/:view/search': ({ world }, { query: { pattern, limit = 500 } }) => {
    const found = ['/', '/src', '/many']
      .flatMap((folder) => world.folder(folder))
      .filter(({ name }) => name.includes(pattern.replaceAll('*', '')))
      .map((entry) => ({ ...entry, source_id: 'main' }))
    const results = found.slice(0, limit)
    return { pattern, results, count: results.length, truncated: found.length > limit }
  },
}

const table = Object.entries(handlers).map(([key, handler]) => {
  const [method, path] = key.split(' ') as [string, string]
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name]) => name!)
  return {
    method,
    pattern: new RegExp(`^${path.replaceAll(/:\w+/g, '([^/]+)')}$`),
    names,
    route: (routes as Readonly<Record<string, Route>>)[key]!,
    handler: handler as (scene: Scene, request: object) => unknown,
  }
})

export interface Answer {
  readonly status: number
  readonly body: unknown
}

/** Undefined if there is no such route or resource. Throws if the request or the answer breaks the contract. */
export function answerTo(scene: Scene, method: string, url: URL, path: string, body: unknown): Answer | undefined {
  for (const { method: own, pattern, names, route, handler } of table) {
    const found = own === method ? pattern.exec(path) : null
    if (found === null) continue
    const params = Object.fromEntries(names.map((name, at) => [name, decodeURIComponent(found[at + 1]!)]))
    const answer = handler(scene, {
      params: route.params?.parse(params),
      query: route.query?.parse(Object.fromEntries(url.searchParams)),
      body: route.body?.parse(body),
    })
    if (answer === undefined) return undefined
    const [status, schema] = Object.entries(route.responses)[0]!
    if (typeof schema === 'string') throw new Error(`${method} ${path} does not answer with JSON`)
    return { status: Number(status), body: schema.parse(answer) }
  }
  return undefined
}
