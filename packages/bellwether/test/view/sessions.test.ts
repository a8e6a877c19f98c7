/** Sessions, leadership, commands and barriers, over real HTTP with a clock moved by hand. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { directory, file, old, openViewServer, scanned, type ViewServer } from './pipe-client.js'

let server: ViewServer
beforeEach(async () => {
  server = await openViewServer({ v: {}, other: {}, strict: { strict: true }, persistent: { live: false } })
})
afterEach(() => server.close())

describe('new directories', () => {
  it('[V3.1] new directories are announced to the other sensors of the source, each once, with their mtime', async () => {
    const [one, two] = [await server.connect('one'), await server.connect('two')]
    await one.snapshot(directory('/old'))
    await two.realtime(directory('/made', old + 5), file('/made/f'), directory('/old', old + 5))
    expect((await one.heartbeat({ wait_seconds: 5 })).body.commands).toEqual([
      { type: 'watch', directories: [{ path: '/made', modified_time: old + 5 }] },
    ])
    expect([await one.commands(), await two.commands()]).toEqual([[], []])
    await one.completeAudit('a1', [], directory('/audited'))
    expect(await two.commands()).toMatchObject([{ type: 'watch', directories: [{ path: '/audited' }] }])
    const three = await server.connect('three')
    expect(await three.commands()).toMatchObject([
      { type: 'watch', directories: [{ path: '/made' }, { path: '/audited' }] },
    ])
  })
})

describe('sessions', () => {
  it('[V1.1] the first session leads, later ones follow, and a follower replaces an ended leader at once', async () => {
    const one = await server.connect('one')
    const two = await server.connect('two')
    const three = await server.connect('three')
    expect([one.role, two.role, three.role]).toEqual(['leader', 'follower', 'follower'])
    await one.end()
    expect((await three.heartbeat()).body['role']).toBe('follower')
    expect((await two.heartbeat()).body['role']).toBe('leader')
    const back = await server.connect('one')
    expect(back.role).toBe('follower')
  })

  it('[V1.2] a waiting heartbeat of a follower returns its promotion at once', async () => {
    const one = await server.connect('one')
    const two = await server.connect('two')
    const waiting = two.heartbeat({ wait_seconds: 10 })
    const listed = async () => (await server.get('/views/v/sessions')).body.sessions
    expect(await listed()).toHaveLength(2)
    await one.end()
    const answer = await waiting
    expect(answer.body).toMatchObject({ role: 'leader', message: 'this session now leads the source' })
  })

  it('[V1.5] the session response carries the longer of both timeouts', async () => {
    const one = await server.connect('one', { timeoutSeconds: 5 })
    const two = await server.connect('two', { timeoutSeconds: 90 })
    expect(one.answer.body).toMatchObject({
      session_timeout_seconds: 30,
      audit_interval_sec: 1_000,
      sentinel_interval_sec: 300,
    })
    expect(two.answer.body).toMatchObject({ session_timeout_seconds: 90 })
    await server.pass(31)
    expect((await one.heartbeat()).status).toBe(419)
    expect((await two.heartbeat()).body['role']).toBe('leader')
  })

  it('[V1.1] a silent session times out, and its later requests get status 419', async () => {
    const one = await server.connect('one')
    await one.snapshot(file('/a'))
    await server.pass(31)
    const late = [await one.heartbeat(), await one.realtime(file('/b')), await one.end(), await one.startAudit('x')]
    expect(late.map(({ status }) => status)).toEqual([419, 419, 419, 419])
    expect(late[0]!.body).toMatchObject({ code: 'session_obsolete' })
    expect(late[0]!.headers['content-type']).toContain('application/problem+json')
  })

  it('[V1.1] silence counts from the start of a waiting heartbeat, not from its response', async () => {
    const one = await server.connect('one')
    const waiting = one.heartbeat({ wait_seconds: 10 })
    await server.get('/views/v/sessions')
    await server.pass(11)
    expect((await waiting).status).toBe(200)
    await server.pass(20)
    expect((await one.heartbeat()).status).toBe(419)
  })

  it('[V1.1] a server that was paused for an hour ends no session', async () => {
    const one = await server.connect('one')
    await server.pass(5)
    await server.clock.advance(3_600_000)
    server.fusion.step()
    expect((await one.heartbeat()).status).toBe(200)
  })

  it('[V1.1] a session can be ended by force, and its sensor gets status 419', async () => {
    const one = await server.connect('one')
    const two = await server.connect('two')
    expect((await server.call('DELETE', `/views/v/sessions/${one.id}`)).status).toBe(200)
    expect((await one.heartbeat()).status).toBe(419)
    expect((await two.heartbeat()).body['role']).toBe('leader')
    const waiting = two.heartbeat({ wait_seconds: 10 })
    await server.get('/views/v/sessions')
    await server.call('DELETE', `/views/v/sessions/${two.id}`)
    expect((await waiting).status).toBe(419)
  })

  it('[V1.4] a later heartbeat does not reset can_realtime', async () => {
    const one = await server.connect('one')
    await one.heartbeat({ can_realtime: true })
    await one.heartbeat({ can_realtime: false })
    expect((await server.get('/views/v/sessions')).body.sessions).toMatchObject([
      { can_realtime: true, role: 'leader' },
    ])
  })

  it('[V1.3] accepts snapshots of a new leader and rejects those of a follower', async () => {
    const one = await server.connect('one')
    const two = await server.connect('two')
    expect((await two.snapshot(file('/a'))).body).toMatchObject({ status: 409, code: 'not_leader' })
    await one.end()
    expect((await two.snapshot(file('/a'))).status).toBe(200)
    expect((await server.get('/views/v/tree')).body.children).toHaveLength(1)
  })

  it('[V6.10] a strict view accepts one session and rejects the next with 409 until the first has ended', async () => {
    const one = await server.connect('one', { view: 'strict' })
    const create = () => server.call('POST', '/pipe/session/', { task_id: 'two' }, { view: 'strict' })
    expect((await create()).body).toMatchObject({ status: 409, code: 'view_taken' })
    await one.end()
    expect((await create()).status).toBe(200)
  })

  it('[V6.10] one sensor can feed several views, each with its own key', async () => {
    const here = await server.connect('host')
    const there = await server.connect('host', { view: 'other' })
    await here.snapshot(file('/here'))
    await there.snapshot(file('/there'))
    const names = async (view: string) =>
      (await server.get(`/views/${view}/tree`, view)).body.children?.map(({ name }) => name)
    expect([await names('v'), await names('other')]).toEqual([['here'], ['there']])
    const foreign = await server.call('POST', `/pipe/session/${there.id}/heartbeat`, {}, { view: 'v' })
    expect(foreign.status).toBe(403)
  })

  it('[V6.8] a live view is empty and not ready when its last session ends; a persistent one stays readable', async () => {
    const live = await server.connect('one')
    const persistent = await server.connect('one', { view: 'persistent' })
    for (const sensor of [live, persistent]) await sensor.snapshot(file('/a'))
    await live.end()
    await persistent.end()
    expect((await server.get('/views/v/tree')).status).toBe(503)
    expect((await server.get('/views/persistent/tree', 'persistent')).body.children).toHaveLength(1)
    const again = await server.connect('two')
    expect((await server.get('/views/v/tree')).status).toBe(503)
    await again.snapshot()
    expect((await server.get('/views/v/tree')).body.children).toEqual([])
  })
})

describe('commands', () => {
  it('[V4.1] [V4.2] the next heartbeat carries a requested scan, and its result ends the job', async () => {
    const one = await server.connect('one')
    await one.snapshot(directory('/d'), file('/d/gone'))
    const scan = await server.get('/views/v/tree?path=/d&force-real-time=true')
    expect(scan.body).toMatchObject({ job_pending: true, path: '/d' })
    const [command] = await one.commands()
    expect(command).toEqual({ type: 'scan', path: '/d', recursive: true, job_id: scan.body.job_id })
    const job = { job_id: scan.body.job_id }
    await one.send('on_demand_job', [directory('/d'), file('/d/new'), scanned('/d')], { metadata: job })
    await one.send('on_demand_job', [], { sourceType: 'job_complete', metadata: job })
    expect((await server.get(`/views/v/jobs/${scan.body.job_id}`)).body).toMatchObject({
      job_pending: false,
      job_state: 'done',
      deleted: 1,
    })
    expect((await server.get('/views/v/tree?path=/d')).body.children?.map(({ name }) => name)).toEqual(['new'])
  })

  it('[V4.2] a waiting reader gets the tree after the scan', async () => {
    const one = await server.connect('one')
    await one.snapshot()
    const waiting = one.heartbeat({ wait_seconds: 10 })
    const reader = server.get('/views/v/tree?path=/d&on_demand_scan=1&wait=20')
    const [command] = (await waiting).body.commands ?? []
    const metadata = { job_id: command?.job_id }
    await one.send('on_demand_job', [directory('/d'), file('/d/x'), scanned('/d')], { metadata })
    await one.send('on_demand_job', [], { sourceType: 'job_complete', metadata })
    expect((await reader).body).toMatchObject({ path: '/d', job_pending: false, children: [{ name: 'x' }] })
  })

  it('[V4.1] a job without a result times out, and a job of an ended session goes to the next leader', async () => {
    const one = await server.connect('one', { timeoutSeconds: 300 })
    const two = await server.connect('two', { timeoutSeconds: 300 })
    await one.snapshot()
    const scan = await server.get('/views/v/tree?force-real-time=true')
    await one.commands()
    await one.end()
    expect(await two.commands()).toMatchObject([{ type: 'scan', job_id: scan.body.job_id }])
    await server.pass(61)
    expect((await server.get(`/views/v/jobs/${scan.body.job_id}`)).body).toMatchObject({ job_state: 'timed_out' })
  })

  it('[V4.1] two readers share a queued scan but not one that has begun', async () => {
    const one = await server.connect('one')
    await one.snapshot()
    const ask = async () => (await server.get('/views/v/tree?force-real-time=true')).body.job_id
    const [first, second] = [await ask(), await ask()]
    expect(second).toBe(first)
    expect(await one.commands()).toHaveLength(1)
    expect(await ask()).not.toBe(first)
  })

  it('[V4.2] a view that is not ready still accepts scans', async () => {
    const one = await server.connect('one')
    const scan = await server.get('/views/v/tree?path=/x&force-real-time=true')
    expect([scan.status, scan.body['job_pending']]).toEqual([202, true])
    expect(await one.commands()).toHaveLength(1)
    expect((await server.get('/views/other/tree?force-real-time=true', 'other')).status).toBe(503)
  })
})

describe('sync to now', () => {
  it('[V4.1] sync returns when every realtime sensor has passed the barrier', async () => {
    const one = await server.connect('one')
    const two = await server.connect('two')
    await one.snapshot()
    await two.heartbeat()
    const waiting = one.heartbeat({ wait_seconds: 10 })
    const reader = server.get('/views/v/sync?wait=20')
    const [command] = (await waiting).body.commands ?? []
    expect(command).toMatchObject({ type: 'barrier' })
    await one.send('realtime', [file('/mine')], { metadata: { barriers: [command?.barrier_id] } })
    await two.commands()
    await two.send('realtime', [], { metadata: { barriers: [command?.barrier_id] } })
    expect((await reader).body).toMatchObject({ synced: true, sensors: 2, passed: 2, missing: [] })
  })

  it('[V4.1] sync names the sessions that did not confirm in time or ended', async () => {
    const one = await server.connect('one')
    const two = await server.connect('two')
    await two.heartbeat()
    const waiting = two.heartbeat({ wait_seconds: 9 })
    const reader = server.get('/views/v/sync?wait=3')
    await waiting
    await one.end()
    await server.pass(4)
    const { body } = await reader
    expect(body).toMatchObject({ synced: false, sensors: 2, passed: 0 })
    expect(new Set(body['missing'] as string[])).toEqual(new Set([one.id, two.id]))
  })
})

it('[V6.8] lists sessions with role, source and agent status', async () => {
  const one = await server.connect('one')
  await one.heartbeat({ agent_status: { state: 'MESSAGE_SYNC', queue: 3 } })
  const { body } = await server.get('/views/v/sessions')
  expect(body).toMatchObject({
    count: 1,
    sessions: [
      {
        session_id: one.id,
        task_id: 'one',
        role: 'leader',
        source_id: 'default',
        source_uri: '/mnt/one',
        agent_status: { queue: 3 },
      },
    ],
  })
  expect((await server.call('GET', '/pipe/session/')).body).toMatchObject({ view_id: 'v', status: 'not_ready' })
})
