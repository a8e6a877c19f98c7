/**
 * A server with all its parts, and one real record of each kind in project p whose texts contain SECRET, for tests over every route.
 * `routes` lists each route with real ids and the roles that may call it. It is written by hand from docs/security.md, not derived from
 * the server.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { defined, systemClock, systemRandom } from '@bellwether/base'
import { readRules } from '../../src/http/sign-in/people.js'
import { openProviderLogins } from '../../src/http/sign-in/provider-logins.js'
import type { IdentityProvider } from '../../src/ports/identity/oidc.js'
import { dashboardPages } from '../../src/http/pages.js'
import type { KeyRole } from '@bellwether/protocol'
import { afterAll, beforeAll } from 'vitest'
import { readSuiteFile } from '../../src/evals/suite-file.js'
import { putSuite } from '../../src/kernel/verbs/evals/suites.js'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import { project, target } from '../support/kernel.js'
import { testFolder } from '../support/postgres.js'
import { until } from '../support/until.js'
import { boardPart } from './board-part.js'
import { addAgent, addTurn, openTestServer, view, type Body, type TestServer } from './test-server.js'

/** In every text of project p, and in no response to a key that may not read the project. */
export const secret = 'SECRET<script>alert(1)</script>'

export interface Route {
  readonly method: string
  /** As the server declares it, without /api/v1. */
  readonly url: string
  /** With real ids. */
  readonly path: string
  /** The roles that may call it, besides admin. */
  readonly who: readonly KeyRole[]
  readonly body?: object
  /** Whether the audit log records it; of claims and turns, only the refused requests. */
  readonly audited: boolean
}

interface FullServer {
  readonly server: TestServer
  readonly routes: readonly Route[]
  /** The parent of the folder with the pages. */
  readonly folder: string
  close(): Promise<void>
}

const p = `/projects/${project}`
const readers: readonly KeyRole[] = ['operator', 'reader']
const allRoles: readonly KeyRole[] = ['operator', 'worker', 'sensor', 'reader', 'answerer']

/** A full server for all tests of a file. Its members exist from the first `beforeAll` hook on. */
export function fullServerPerFile(): Omit<FullServer, 'close'> {
  const full = { server: {} as TestServer, routes: [] as Route[], folder: '' }
  let opened: FullServer
  beforeAll(async () => {
    opened = await openFullServer()
    Object.assign(full.server, opened.server)
    full.routes.push(...opened.routes)
    full.folder = opened.folder
  })
  afterAll(() => opened.close())
  return full
}

/** Claims the next turn of an agent, as a worker does. */
export const claimTurnOf = (server: TestServer, agentId: string): Promise<ClaimedTurn> => {
  const claim = { workerTarget: target, workerId: 'w', max: 100, resumeLeaseSeconds: 30 }
  return until(`a turn of ${agentId} is claimed`, async () =>
    (await server.kernel.claim(claim)).turns.find((turn) => turn.agentId === agentId),
  )
}

/** Confirms every sign-in; test/http/security/oidc.test.ts has real providers. */
const agreeable: IdentityProvider = {
  start: async () => ({ url: 'https://login.example/?state=s', state: 's', nonce: '', verifier: '' }),
  finish: async () => ({ sub: '1', groups: ['staff'] }),
}

async function openFullServer(): Promise<FullServer> {
  const folder = await testFolder()
  await mkdir(join(folder, 'dist', 'assets'), { recursive: true })
  await writeFile(join(folder, 'dist', 'index.html'), '<!doctype html><title>the page</title>')
  await writeFile(join(folder, 'dist', 'bell.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>')
  await writeFile(join(folder, 'dist', 'assets', 'a.js'), 'export {}')
  await writeFile(join(folder, 'private.txt'), 'the private file')
  const server = await openTestServer(async (world) => ({
    board: await boardPart(world),
    signIn: {
      name: 'Example',
      origin: 'https://bells.example',
      rules: readRules({ reader: 'staff' }),
      groupsClaim: 'groups',
      logins: openProviderLogins({ provider: agreeable, clock: systemClock, random: systemRandom }),
    },
    pages: dashboardPages(join(folder, 'dist')),
    parts: () => [
      { name: secret, status: 'ready', pid: 1, restarts: 0, last_end: null },
      {
        name: 'worker py',
        status: 'quarantined',
        pid: null,
        restarts: 7,
        last_end: 'exit code 1',
        next_start_at: 'soon',
      },
    ],
  }))
  const ids = await addRecords(server)
  return {
    server,
    folder,
    routes: routesWith(ids),
    async close() {
      await server.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

interface Ids {
  readonly turn: string
  /** A turn that has ended. */
  readonly done: string
  readonly fence: object
  readonly call: string
  readonly card: string
  readonly box: string
  readonly batch: string
  readonly task: string
  readonly run: string
  readonly session: string
  readonly job: string
  readonly source: string
}

const daily = { cron: '@daily', agent: 'ann', instruction: secret }

const suite = `
[[variants]]
agent = "bob"
[[checks]]
contains = "yes"
[[cases]]
name = "one"
instruction = ${JSON.stringify(secret)}
`

const fenceOf = ({ turn_epoch, lease_token }: Body) => ({ fence: { turn_epoch, lease_token } })

async function addRecords(server: TestServer): Promise<Ids> {
  await addAgent(server, 'ann', { metadata: { note: secret } })
  await addAgent(server, 'bob')
  const done = await addTurn(server, 'bob', { instruction: secret, budget: { max_tokens: 1_000_000 } })
  const { turns } = (await server.post(`/workers/${target}/claim`, { max: 9 }, { key: server.keys.worker })).body
  const step = { phase: 'think', status: 'done', error: secret, metadata: { usage: { total_tokens: 5 } } }
  const cards = [{ type: 'agent.thought', content: { text: secret } }]
  const { fence } = fenceOf(turns![0]!)
  await server.post(`/turns/${done}/steps`, { ...fence, cards, step })
  await server.post(`/turns/${done}/deliver`, { ...fence, fields: [{ name: 'files', value: [secret] }] })
  const turn = await addTurn(server, 'ann', { instruction: secret, metadata: { note: secret } })
  const { turns: second } = (await server.post(`/workers/${target}/claim`, { max: 9 }, { key: server.keys.worker }))
    .body
  const call = `${turn}-call`
  const { fence: held } = fenceOf(second![0]!)
  const calls = [{ tool_call_id: call, tool_name: 'ask_person', arguments: { question: secret } }]
  await server.post(`/turns/${turn}/transcript`, { ...held, entries: [{ kind: 'text', content: secret }] })
  await server.post(`/turns/${turn}/suspend`, { ...held, calls })
  const boxed = await server.post(`${p}/boxes`, { cards: [{ type: 'agent.thought', content: { text: secret } }] })
  const box = String(boxed.body['box_id'])
  const { body } = await server.get(`${p}/boxes/${box}/cards`)
  const card = String((body['cards'] as Body[])[0]!['card_id'])
  const tasks = [{ target_strategy: 'reuse', target_ref: 'bob', instruction: secret }]
  const batch = String((await server.post(`${p}/batches`, { tasks })).body['batch_id'])
  await server.post(`${p}/schedules`, { schedule: 'daily', definition: daily })
  const task = String((await server.post('/board/tasks', { title: secret, agent: 'bob' })).body['taskId'])
  const read = readSuiteFile('evals/all.toml', suite)
  if ('problems' in read) throw new Error(read.problems.join('; '))
  await putSuite(server.t.db, { projectId: project, suite: 'all' }, { origin: 'host:/project', read })
  const run = String((await server.post(`${p}/evals/all/runs`, {})).body['run_id'])
  await server.t.all(
    `insert into state.interventions (kind, project_id, agent_id, agent_turn_id, reason, created_at) values ('stop', $1, 'ann', $2, $3, state.now())`,
    project,
    turn,
    secret,
  )
  return { turn, done, fence: held, call, card, box, batch, task, run, ...(await addView(server)) }
}

/** A sensor's session that has reported these files as its snapshot. */
export async function snapshotOf(
  server: TestServer,
  client_info: { readonly agent_id: string; readonly source_id: string; readonly source_uri?: string },
  rows: readonly object[],
): Promise<string> {
  const key = server.keys.sensor
  const task_id = `${client_info.agent_id}:${client_info.source_id}`
  const session = String((await server.post('/pipe/session', { task_id, client_info }, { key })).body['session_id'])
  const event = { event_type: 'insert', event_schema: 'fs', table: 'files', fields: [], rows, index: 0 }
  const events = [{ ...event, message_source: 'snapshot' }]
  await server.post(`/pipe/ingest/${session}/events`, { events, source_type: 'snapshot', is_end: true }, { key })
  return session
}

/** A view with one file and a requested scan. */
async function addView(server: TestServer): Promise<Pick<Ids, 'session' | 'job' | 'source'>> {
  const name = 'SECRET<b>\n\u001b[2J'
  const row = { path: `/d/${name}`, file_name: name, size: 7, modified_time: 5, is_directory: false }
  const session = await snapshotOf(server, { agent_id: 'host', source_id: 's1', source_uri: '/mnt' }, [row])
  const { body } = await server.get(`/views/${view}/tree?path=/d&force-real-time=1`)
  return { session, job: String(body['job_id']), source: 's1' }
}

function routesWith(ids: Ids): readonly Route[] {
  const v = `/views/${view}`
  const one = (
    method: string,
    url: string,
    path: string,
    who: readonly KeyRole[],
    more: { readonly body?: object; readonly audited?: boolean } = {},
  ): Route => ({ method, url, path, who, audited: false, ...more })
  const get = (url: string, path: string, who: readonly KeyRole[] = readers) => one('GET', url, path, who)
  const inP = (url: string, path: string, who?: readonly KeyRole[]) =>
    get(`/projects/:project${url}`, `${p}${path}`, who)
  const write = (method: string, url: string, path: string, body: object, who: readonly KeyRole[] = ['operator']) =>
    one(method, `/projects/:project${url}`, `${p}${path}`, who, { body, audited: true })
  const board = (method: string, url: string, path: string, body: object) =>
    one(method, url, path, ['operator'], { body, audited: true })
  const work = (url: string, body: object) =>
    one('POST', `/turns/:turn/${url}`, `/turns/${ids.turn}/${url}`, ['worker'], {
      body: { ...ids.fence, ...body },
      audited: true,
    })
  const pipe = (method: string, url: string, path: string, body?: object) =>
    one(method, `/pipe${url}`, `/pipe${path}`, ['sensor'], defined({ body }))
  const seen = (url: string, path: string) => get(`/views/:view${url}`, `${v}${path}`, [...readers, 'sensor'])
  const events = { events: [], source_type: 'message' }
  return [
    get('/me', '/me', allRoles),
    one('POST', '/logins', '/logins', readers, { body: {}, audited: true }),
    one('DELETE', '/logins', '/logins', readers, { audited: true }),
    get('/keys', '/keys', []),
    one('POST', '/keys', '/keys', [], { body: { role: 'reader' }, audited: true }),
    one('POST', '/keys/:key/rotate', '/keys/none/rotate', [], { body: {}, audited: true }),
    one('DELETE', '/keys/:key', '/keys/none', [], { audited: true }),
    get('/audit', '/audit', []),
    get('/projects', '/projects'),
    write('PUT', '/targets', '/targets', { worker_targets: null }, []),
    inP('/workers', '/workers'),
    inP('/agents', '/agents'),
    inP('/trends', '/trends'),
    inP('/trends.csv', '/trends.csv'),
    write('PUT', '/agents', '/agents', { agents: [{ agent_id: 'bob', worker_target: target }] }),
    inP('/agents/:agent', '/agents/ann'),
    write('PUT', '/agents/:agent', '/agents/bob', { worker_target: target }),
    write('PUT', '/profiles/:profile', '/profiles/x', { worker_target: target }),
    write('PUT', '/tools/:tool', '/tools/x', {}),
    write('POST', '/agents/:agent/turns', '/agents/bob/turns', { instruction: 'x' }),
    inP('/turns', '/turns'),
    inP('/turns/:turn', `/turns/${ids.turn}`),
    inP('/turns/:turn/spans', `/turns/${ids.turn}/spans`),
    inP('/turns/:turn/changes', `/turns/${ids.turn}/changes`),
    inP('/turns/:turn/transcript', `/turns/${ids.turn}/transcript`),
    inP('/turns/:turn/transcript/events', `/turns/${ids.turn}/transcript/events?after=x`),
    inP('/turns/:turn/transcript/text', `/turns/${ids.turn}/transcript/text`),
    write('POST', '/turns/bulk', '/turns/bulk', { action: 'stop', turns: ['none'] }),
    write('POST', '/turns/:turn/stop', '/turns/none/stop', {}),
    write('POST', '/turns/:turn/messages', '/turns/none/messages', { text: 'x' }),
    write('POST', '/turns/:turn/continue', '/turns/none/continue', { instruction: 'x' }),
    inP('/turns/:turn/replay', `/turns/${ids.done}/replay`),
    inP('/turns/:turn/export', `/turns/${ids.done}/export`),
    write('POST', '/turns/:turn/fork', '/turns/none/fork', { at: 0 }),
    write('POST', '/imports', '/imports', { format: 'x', version: 1 }),
    // The call is a question: no worker answers it.
    write('POST', '/tool-calls/:call/result', `/tool-calls/${ids.call}/result`, { status: 'partial' }, [
      'operator',
      'answerer',
    ]),
    write('POST', '/tool-calls/:call/start', `/tool-calls/${ids.call}/start`, { host: 'h' }),
    inP('/questions', '/questions', [...readers, 'answerer']),
    inP('/approvals', '/approvals', [...readers, 'answerer']),
    write('POST', '/approvals/:approval/decision', '/approvals/none/decision', { decision: 'deny' }, [
      'operator',
      'answerer',
    ]),
    inP('/grants', '/grants', [...readers, 'answerer']),
    write('DELETE', '/grants/:grant', '/grants/none', {}, ['operator', 'answerer']),
    write('POST', '/ui-actions', '/ui-actions', { action_id: 'a', agent_id: 'ann', tool_name: 'x' }),
    write('POST', '/batches', '/batches', {}),
    inP('/batches', '/batches'),
    inP('/batches/:batch', `/batches/${ids.batch}`),
    inP('/schedules', '/schedules'),
    write('POST', '/schedules', '/schedules', { schedule: 'more', definition: daily }),
    inP('/schedules/:schedule', '/schedules/daily'),
    write('PUT', '/schedules/:schedule', '/schedules/daily', { definition: daily }),
    write('DELETE', '/schedules/:schedule', '/schedules/none', {}),
    write('POST', '/schedules/:schedule/pause', '/schedules/daily/pause', {}),
    write('POST', '/schedules/:schedule/resume', '/schedules/daily/resume', {}),
    write('POST', '/schedules/:schedule/run', '/schedules/daily/run', {}),
    inP('/schedules/:schedule/fires', '/schedules/daily/fires'),
    inP('/evals', '/evals'),
    write('POST', '/evals/:suite/runs', '/evals/none/runs', {}),
    inP('/eval-runs', '/eval-runs'),
    inP('/eval-runs/:run', `/eval-runs/${ids.run}`),
    inP('/eval-runs/:run/results', `/eval-runs/${ids.run}/results`),
    inP('/eval-runs/:run/results/:number', `/eval-runs/${ids.run}/results/0`),
    write('POST', '/eval-runs/:run/stop', '/eval-runs/none/stop', {}),
    inP('/cards/:card', `/cards/${ids.card}`, [...readers, 'worker']),
    inP('/boxes/:box/cards', `/boxes/${ids.box}/cards`, [...readers, 'worker']),
    write('POST', '/boxes', '/boxes', { card_ids: [ids.card] }),
    inP('/events', '/events?cursor=x', [...readers, 'worker']),
    get('/watchdog/interventions', '/watchdog/interventions'),
    get('/quotas', '/quotas'),
    one('POST', '/quotas/lift', '/quotas/lift', ['operator'], { body: { account: 'held' }, audited: true }),
    one('POST', '/workers/:target/claim', '/workers/none/claim', ['worker'], { body: {}, audited: true }),
    work('beat', {}),
    work('steps', {}),
    work('transcript', { entries: [{ kind: 'text', content: 'x' }] }),
    work('reserve', { reservation_id: 'r', tokens: 1 }),
    work('commit', { reservation_id: 'r', tokens: 1 }),
    work('release', { reservation_id: 'r' }),
    work('suspend', { calls: [{ tool_call_id: 'x', tool_name: 'x' }] }),
    work('deliver', { text: 'x' }),
    get('/board/tasks', '/board/tasks'),
    board('POST', '/board/tasks', '/board/tasks', { title: 'more' }),
    get('/board/checks', '/board/checks'),
    get('/board/tasks/:task', `/board/tasks/${ids.task}`),
    get('/board/tasks/:task/history', `/board/tasks/${ids.task}/history`),
    board('PATCH', '/board/tasks/:task', `/board/tasks/${ids.task}`, { action: 'freeze' }),
    board('POST', '/board/tasks/:task/dispatch', `/board/tasks/${ids.task}/dispatch`, {}),
    board('POST', '/board/tasks/bulk', '/board/tasks/bulk', { action: 'freeze', tasks: [{ taskId: 'none' }] }),
    board('POST', '/board/control', '/board/control', { paused: true }),
    board('POST', '/board/autopilot', '/board/autopilot', { maxSteps: 1 }),
    get('/board/events', '/board/events?cursor=x'),
    get('/health/components', '/health/components', allRoles),
    pipe('GET', '/session', '/session'),
    pipe('POST', '/session', '/session', { task_id: 'x' }),
    pipe('POST', '/session/:id/heartbeat', `/session/${ids.session}/heartbeat`, { can_realtime: true }),
    pipe('DELETE', '/session/:id', '/session/none'),
    pipe('POST', '/ingest/:id/events', `/ingest/${ids.session}/events`, events),
    pipe('POST', '/:id/events', `/${ids.session}/events`, events),
    pipe('POST', '/consistency/audit/start', '/consistency/audit/start', { session_id: ids.session }),
    pipe('POST', '/consistency/audit/end', '/consistency/audit/end', { session_id: ids.session }),
    pipe('GET', '/consistency/sentinel/tasks', '/consistency/sentinel/tasks'),
    pipe('POST', '/consistency/sentinel/feedback', '/consistency/sentinel/feedback', { type: 'x', updates: [] }),
    get('/views', '/views', [...readers, 'sensor']),
    seen('/tree', '/tree'),
    seen('/jobs/:job', `/jobs/${ids.job}`),
    seen('/search', '/search?pattern=*'),
    seen('/stats', '/stats'),
    seen('/blind-spots', '/blind-spots'),
    seen('/suspect-list', '/suspect-list'),
    one('PUT', '/views/:view/suspect-list', `${v}/suspect-list`, ['operator', 'sensor'], {
      body: { updates: [] },
      audited: true,
    }),
    seen('/sessions', '/sessions'),
    one('DELETE', '/views/:view/sessions/:id', `${v}/sessions/none`, ['operator', 'sensor'], { audited: true }),
    seen('/changes', '/changes'),
    seen('/diff', `/diff?left=${ids.source}&right=${ids.source}`),
    seen('/sync', '/sync?wait=0'),
    one('POST', '/views/:view/sync', `${v}/sync?wait=0`, [...readers, 'sensor'], { body: {} }),
    seen('/evidence', '/evidence'),
    one('POST', '/views/:view/evidence', `${v}/evidence`, ['operator', 'sensor'], { body: { paths: [], since: null } }),
    seen('/events', '/events?source=none'),
  ]
}
