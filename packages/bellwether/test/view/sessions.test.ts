/** Sessions, leadership, commands and barriers, over real HTTP with a clock moved by hand. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { directory, file, openDesk, scanned, type Desk } from './pipe-client.js'

let desk: Desk
beforeEach(async () => {
  desk = await openDesk({
    v: {},
    other: {},
    strict: { strict: true },
    kept: { live: false },
  })
})
afterEach(() => desk.close())

describe('sessions', () => {
  it('[V1.1] the first leads, later ones follow, and a leader that goes is replaced at once', async () => {
    const one = await desk.connect('one')
    const two = await desk.connect('two')
    const three = await desk.connect('three')
    expect([one.role, two.role, three.role]).toEqual(['leader', 'follower', 'follower'])
    await one.end()
    expect((await three.heartbeat()).body['role']).toBe('follower')
    expect((await two.heartbeat()).body['role']).toBe('leader')
    const back = await desk.connect('one')
    expect(back.role).toBe('follower')
  })

  it('[V1.2] a follower that waits for news hears of its promotion at once', async () => {
    const one = await desk.connect('one')
    const two = await desk.connect('two')
    const waiting = two.heartbeat({ wait_seconds: 10 })
    const listed = async () => (await desk.get('/views/v/sessions')).body.sessions
    expect(await listed()).toHaveLength(2)
    await one.end()
    const answer = await waiting
    expect(answer.body).toMatchObject({ role: 'leader', message: 'you lead this source now' })
  })

  it('[V1.5] the timeout is the longer one, and is told', async () => {
    const one = await desk.connect('one', { timeoutSeconds: 5 })
    const two = await desk.connect('two', { timeoutSeconds: 90 })
    expect(one.answer.body).toMatchObject({
      session_timeout_seconds: 30,
      audit_interval_sec: 1_000,
      sentinel_interval_sec: 300,
    })
    expect(two.answer.body).toMatchObject({ session_timeout_seconds: 90 })
    await desk.pass(31)
    expect((await one.heartbeat()).status).toBe(419)
    expect((await two.heartbeat()).body['role']).toBe('leader')
  })

  it('[V1.1] a silent session times out; whatever it still sends is answered 419', async () => {
    const one = await desk.connect('one')
    await one.snapshot(file('/a'))
    await desk.pass(31)
    const late = [await one.heartbeat(), await one.realtime(file('/b')), await one.end(), await one.startAudit('x')]
    expect(late.map(({ status }) => status)).toEqual([419, 419, 419, 419])
    expect(late[0]!.body).toMatchObject({ code: 'session_obsolete' })
    expect(late[0]!.headers['content-type']).toContain('application/problem+json')
  })

  it('[V1.1] a sensor that stopped while it waited for news is silent since it asked, not since the answer', async () => {
    const one = await desk.connect('one')
    const waiting = one.heartbeat({ wait_seconds: 10 })
    await desk.get('/views/v/sessions')
    await desk.pass(11)
    expect((await waiting).status).toBe(200)
    await desk.pass(20)
    expect((await one.heartbeat()).status).toBe(419)
  })

  it('[V1.1] a server that was paused for an hour ends nobody', async () => {
    const one = await desk.connect('one')
    await desk.pass(5)
    await desk.clock.advance(3_600_000)
    desk.fusion.step()
    expect((await one.heartbeat()).status).toBe(200)
  })

  it('[V1.1] a session can be ended by force, and its sensor is told to make a new one', async () => {
    const one = await desk.connect('one')
    const two = await desk.connect('two')
    expect((await desk.call('DELETE', `/views/v/sessions/${one.id}`)).status).toBe(200)
    expect((await one.heartbeat()).status).toBe(419)
    expect((await two.heartbeat()).body['role']).toBe('leader')
    const waiting = two.heartbeat({ wait_seconds: 10 })
    await desk.get('/views/v/sessions')
    await desk.call('DELETE', `/views/v/sessions/${two.id}`)
    expect((await waiting).status).toBe(419)
  })

  it('[V1.4] once a sensor could follow changes, an older word does not take it back', async () => {
    const one = await desk.connect('one')
    await one.heartbeat({ can_realtime: true })
    await one.heartbeat({ can_realtime: false })
    expect((await desk.get('/views/v/sessions')).body.sessions).toMatchObject([{ can_realtime: true, role: 'leader' }])
  })

  it('[V1.3] a new leader may send its snapshot, a follower may not', async () => {
    const one = await desk.connect('one')
    const two = await desk.connect('two')
    expect((await two.snapshot(file('/a'))).body).toMatchObject({ status: 409, code: 'not_leader' })
    await one.end()
    expect((await two.snapshot(file('/a'))).status).toBe(200)
    expect((await desk.get('/views/v/tree')).body.children).toHaveLength(1)
  })

  it('[V6.10] a strict view takes one session and answers 409 to the next, until the first is over', async () => {
    const one = await desk.connect('one', { view: 'strict' })
    const asked = () => desk.call('POST', '/pipe/session/', { task_id: 'two' }, { view: 'strict' })
    expect((await asked()).body).toMatchObject({ status: 409, code: 'view_taken' })
    await one.end()
    expect((await asked()).status).toBe(200)
  })

  it('[V6.10] one sensor can feed several views, by the key of each', async () => {
    const here = await desk.connect('host')
    const there = await desk.connect('host', { view: 'other' })
    await here.snapshot(file('/here'))
    await there.snapshot(file('/there'))
    const names = async (view: string) =>
      (await desk.get(`/views/${view}/tree`, view)).body.children?.map(({ name }) => name)
    expect([await names('v'), await names('other')]).toEqual([['here'], ['there']])
    const foreign = await desk.call('POST', `/pipe/session/${there.id}/heartbeat`, {}, { view: 'v' })
    expect(foreign.status).toBe(403)
  })

  it('[V6.8] a live view is empty and not ready when its last session ends; a persistent one stays readable', async () => {
    const live = await desk.connect('one')
    const kept = await desk.connect('one', { view: 'kept' })
    for (const sensor of [live, kept]) await sensor.snapshot(file('/a'))
    await live.end()
    await kept.end()
    expect((await desk.get('/views/v/tree')).status).toBe(503)
    expect((await desk.get('/views/kept/tree', 'kept')).body.children).toHaveLength(1)
    const again = await desk.connect('two')
    expect((await desk.get('/views/v/tree')).status).toBe(503)
    await again.snapshot()
    expect((await desk.get('/views/v/tree')).body.children).toEqual([])
  })
})

describe('commands', () => {
  it('[V4.1] [V4.2] a scan asked by a reader comes with the next heartbeat, and its answer ends the job', async () => {
    const one = await desk.connect('one')
    await one.snapshot(directory('/d'), file('/d/gone'))
    const asked = await desk.get('/views/v/tree?path=/d&force-real-time=true')
    expect(asked.body).toMatchObject({ job_pending: true, path: '/d' })
    const [command] = await one.commands()
    expect(command).toEqual({ type: 'scan', path: '/d', recursive: true, job_id: asked.body.job_id })
    const job = { job_id: asked.body.job_id }
    await one.send('on_demand_job', [directory('/d'), file('/d/new'), scanned('/d')], { metadata: job })
    await one.send('on_demand_job', [], { sourceType: 'job_complete', metadata: job })
    expect((await desk.get(`/views/v/jobs/${asked.body.job_id}`)).body).toMatchObject({
      job_pending: false,
      job_state: 'done',
      deleted: 1,
    })
    expect((await desk.get('/views/v/tree?path=/d')).body.children?.map(({ name }) => name)).toEqual(['new'])
  })

  it('[V4.2] a reader that waits gets the tree as the scan left it', async () => {
    const one = await desk.connect('one')
    await one.snapshot()
    const heard = one.heartbeat({ wait_seconds: 10 })
    const reader = desk.get('/views/v/tree?path=/d&on_demand_scan=1&wait=20')
    const [command] = (await heard).body.commands ?? []
    const metadata = { job_id: command?.job_id }
    await one.send('on_demand_job', [directory('/d'), file('/d/x'), scanned('/d')], { metadata })
    await one.send('on_demand_job', [], { sourceType: 'job_complete', metadata })
    expect((await reader).body).toMatchObject({ path: '/d', job_pending: false, children: [{ name: 'x' }] })
  })

  it('[V4.1] a job that no sensor answers times out; one whose sensor goes is given to the next leader', async () => {
    const one = await desk.connect('one', { timeoutSeconds: 300 })
    const two = await desk.connect('two', { timeoutSeconds: 300 })
    await one.snapshot()
    const asked = await desk.get('/views/v/tree?force-real-time=true')
    await one.commands()
    await one.end()
    expect(await two.commands()).toMatchObject([{ type: 'scan', job_id: asked.body.job_id }])
    await desk.pass(61)
    expect((await desk.get(`/views/v/jobs/${asked.body.job_id}`)).body).toMatchObject({ job_state: 'timed_out' })
  })

  it('[V4.1] two readers share a scan that no sensor has taken, and do not share one that has begun', async () => {
    const one = await desk.connect('one')
    await one.snapshot()
    const ask = async () => (await desk.get('/views/v/tree?force-real-time=true')).body.job_id
    const [first, second] = [await ask(), await ask()]
    expect(second).toBe(first)
    expect(await one.commands()).toHaveLength(1)
    expect(await ask()).not.toBe(first)
  })

  it('[V4.2] a view that is not ready still passes scans on', async () => {
    const one = await desk.connect('one')
    const asked = await desk.get('/views/v/tree?path=/x&force-real-time=true')
    expect([asked.status, asked.body['job_pending']]).toEqual([202, true])
    expect(await one.commands()).toHaveLength(1)
    expect((await desk.get('/views/other/tree?force-real-time=true', 'other')).status).toBe(503)
  })
})

describe('sync to now', () => {
  it('[V4.1] answers when every realtime sensor has passed the barrier', async () => {
    const one = await desk.connect('one')
    const two = await desk.connect('two')
    await one.snapshot()
    await two.heartbeat()
    const waiting = one.heartbeat({ wait_seconds: 10 })
    const reader = desk.get('/views/v/sync?wait=20')
    const [command] = (await waiting).body.commands ?? []
    expect(command).toMatchObject({ type: 'barrier' })
    await one.send('realtime', [file('/mine')], { metadata: { barriers: [command?.barrier_id] } })
    await two.commands()
    await two.send('realtime', [], { metadata: { barriers: [command?.barrier_id] } })
    expect((await reader).body).toMatchObject({ synced: true, asked: 2, passed: 2, missing: [] })
  })

  it('[V4.1] says who did not answer, when the time is up or a session ended', async () => {
    const one = await desk.connect('one')
    const two = await desk.connect('two')
    await two.heartbeat()
    const waiting = two.heartbeat({ wait_seconds: 9 })
    const reader = desk.get('/views/v/sync?wait=3')
    await waiting
    await one.end()
    await desk.pass(4)
    const { body } = await reader
    expect(body).toMatchObject({ synced: false, asked: 2, passed: 0 })
    expect(new Set(body['missing'] as string[])).toEqual(new Set([one.id, two.id]))
  })
})

it('[V6.8] sessions are listed with role, source and what their sensor says of itself', async () => {
  const one = await desk.connect('one')
  await one.heartbeat({ agent_status: { state: 'MESSAGE_SYNC', queue: 3 } })
  const { body } = await desk.get('/views/v/sessions')
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
  expect((await desk.call('GET', '/pipe/session/')).body).toMatchObject({ view_id: 'v', status: 'not_ready' })
})
