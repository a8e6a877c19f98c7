/** Schedules over HTTP: definitions, roles, the rights of a file, run now, history and bad input. */
import { beforeAll, expect, it } from 'vitest'
import { scheduleFile } from '@bellwether/protocol/http'
import { defineFromFile } from '../../src/pmo/schedules/definitions.js'
import { project } from '../support/kernel.js'
import { fullServerPerFile } from './full-server.js'
import { addAgent, type Body } from './test-server.js'

const { server } = fullServerPerFile()
const path = `/projects/${project}/schedules`
const daily = { cron: '30 2 * * *', time_zone: 'Europe/Berlin', agent: 'ann', instruction: 'Work' }
const add = (schedule: string, definition: object = daily) => server.post(path, { schedule, definition })

beforeAll(() => addAgent(server, 'ann'))

it('adds, reads, changes, pauses, resumes and deletes a schedule, with its next instants in its time zone', async () => {
  const { status, body } = await add('nightly')
  expect(status).toBe(201)
  expect(body).toMatchObject({ source: 'api', problem: null, open: 0, last_fire: null, paused_at: null })
  expect(body['definition']).toMatchObject({ ...daily, missed: 'latest', overlap: 'skip' })
  const next = body['next_fires'] as string[]
  expect(next).toHaveLength(5)
  for (const at of next)
    expect(new Date(at).toLocaleTimeString('de', { timeZone: 'Europe/Berlin' })).toMatch(/^(?:0?2:30|0?3:00):00$/)
  expect((await add('nightly')).body).toMatchObject({ status: 409, code: 'schedule_exists' })
  const changed = await server.request('PUT', `${path}/nightly`, { definition: { ...daily, cron: '@hourly' } })
  expect(changed.body['definition']).toMatchObject({ cron: '@hourly' })
  expect((await server.post(`${path}/nightly/pause`)).body).toMatchObject({
    next_fires: [],
    paused_by: expect.any(String),
  })
  expect((await server.post(`${path}/nightly/resume`)).body).toMatchObject({ paused_at: null })
  const listed = (await server.get(path)).body['schedules'] as Body[]
  expect(listed.map((one) => one['schedule'])).toContain('nightly')
  await server.request('DELETE', `${path}/nightly`)
  expect((await server.get(`${path}/nightly`)).status).toBe(404)
})

it('runs a schedule now, once per idempotency key, and shows the turn and its outcome in the history', async () => {
  await add('now')
  const headers = { 'idempotency-key': 'once' }
  const first = await server.request('POST', `${path}/now/run`, undefined, { headers })
  expect(first.status).toBe(202)
  const again = await server.request('POST', `${path}/now/run`, undefined, { headers })
  expect(again.body).toEqual(first.body)
  const { fires } = (await server.get(`${path}/now/fires`)).body as { fires: Body[] }
  expect(fires).toEqual([
    expect.objectContaining({ kind: 'manual', status: 'started', agent_turn_id: first.body['agent_turn_id'] }),
  ])
  expect((await server.get(`/projects/${project}/turns/${String(first.body['agent_turn_id'])}`)).status).toBe(200)
  expect((await server.get(`${path}/now`)).body).toMatchObject({ open: 1, last_fire: { kind: 'manual' } })
})

it('a schedule of a file can be paused and run, and only its file can change or delete it', async () => {
  const read = { definition: scheduleFile.parse(daily) }
  await defineFromFile(server.kernel, { projectId: project, schedule: 'filed' }, { origin: 'h:/x', by: 'file', read })
  for (const [method, body] of [
    ['PUT', { definition: daily }],
    ['DELETE', undefined],
  ] as const)
    expect((await server.request(method, `${path}/filed`, body)).body).toMatchObject({
      status: 409,
      code: 'schedule_in_file',
      hint: expect.stringContaining('edit or delete the file'),
    })
  expect((await server.post(`${path}/filed/pause`)).status).toBe(200)
  expect((await server.post(`${path}/filed/run`)).status).toBe(202)
})

it('readers read schedules; only operators and admins of the project change them, and every change is audited', async () => {
  await add('guarded')
  const as = (role: 'reader' | 'operator' | 'worker') => ({ key: server.keys[role] })
  expect((await server.request('GET', `${path}/guarded`, undefined, as('reader'))).status).toBe(200)
  for (const verb of ['pause', 'resume', 'run'])
    for (const role of ['reader', 'worker'] as const)
      expect((await server.request('POST', `${path}/guarded/${verb}`, undefined, as(role))).status).toBe(403)
  expect((await server.request('POST', `${path}/guarded/pause`, undefined, as('operator'))).status).toBe(200)
  const { audit } = (await server.get('/audit?limit=5')).body as { audit: Body[] }
  expect(JSON.stringify(audit)).toContain('/schedules/guarded/pause')
})

it.each<[object, RegExp]>([
  [{ ...daily, cron: '61 * * * *' }, /"cron": "61 \* \* \* \*" is not a cron expression/],
  [{ ...daily, time_zone: 'Europe/Berln' }, /did you mean "Europe\/Berlin"/],
  [{ every: '1s', agent: 'ann', instruction: 'x' }, /"every": "1s" must be from 10s to 366d/],
  [{ ...daily, agent: 'anne' }, /has no agent "anne"/],
  [{ ...daily, every: '1h' }, /either "cron" or "every"/],
  [{ cron: '@daily' }, /either "agent" with "instruction", or "task"/],
  [{ ...daily, crn: 'x' }, /crn/],
  [{ cron: '@daily', task: { title: 'x', verify: ['rm -rf /'] } }, /verify/],
])('rejects %j with the key and the rule, and stores nothing', async (definition, expected) => {
  const { status, body } = await add('bad', definition)
  expect([400, 404]).toContain(status)
  expect(body['detail']).toMatch(expected)
  expect((await server.get(`${path}/bad`)).status).toBe(404)
})
