/** Tests failures of health units and how they are reported, over real HTTP. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { directory, file, old, openViewServer, type ViewServer } from './pipe-client.js'

let server: ViewServer
beforeEach(async () => {
  server = await openViewServer({ live: {}, persistent: { live: false }, other: {} })
})
afterEach(() => server.close())

/** Makes writes to this view's tree fail like a bug would; returns a function that repairs it. */
function breakTree(view: string): () => void {
  const { tree } = server.fusion.view(view).sources.get('default')!
  const put = tree.put.bind(tree)
  tree.put = () => {
    throw new TypeError('a bug')
  }
  return () => {
    tree.put = put
  }
}

describe('a failed fusion pipe', () => {
  it('[V5.3] stops writes to its view only: a live view is unavailable, a persistent one and others stay readable', async () => {
    const sensors = {
      live: await server.connect('h', { view: 'live' }),
      persistent: await server.connect('h', { view: 'persistent' }),
      other: await server.connect('h', { view: 'other' }),
    }
    for (const sensor of Object.values(sensors)) await sensor.snapshot(file('/a'))
    breakTree('live')
    breakTree('persistent')
    for (const view of ['live', 'persistent'] as const) {
      expect((await sensors[view].realtime(file('/b'))).status).toBe(500)
      const rejected = await sensors[view].realtime(file('/b'))
      expect([rejected.status, rejected.body['code']]).toEqual([503, 'pipe_failed'])
    }
    expect((await sensors.other.realtime(file('/b'))).status).toBe(200)
    expect((await server.get('/views/live/tree', 'live')).body).toMatchObject({ status: 503, code: 'view_unavailable' })
    expect((await server.get('/views/persistent/tree', 'persistent')).status).toBe(200)
    expect((await server.get('/views/other/tree', 'other')).body.children).toHaveLength(2)
    expect((await sensors.live.heartbeat()).body.health).toMatchObject({
      status: 'failed',
      troubled: { 'fusion_pipe:live/default': 'failed', 'view:live': 'failed', 'view:persistent': 'degraded' },
    })
  })

  /** Breaks the pipe of the live view and returns its sensor. */
  async function withFailedPipe() {
    const sensor = await server.connect('h', { view: 'live' })
    await sensor.snapshot(file('/a'))
    const repair = breakTree('live')
    await sensor.realtime(file('/b'))
    repair()
    expect((await server.get('/views/live/tree', 'live')).status).toBe(503)
    return sensor
  }
  type Sensor = Awaited<ReturnType<typeof withFailedPipe>>
  const complete = (sensor: Sensor, jobId: string, more: object = {}) =>
    sensor.send('on_demand_job', [], {
      sourceType: 'job_complete',
      isEnd: true,
      metadata: { job_id: jobId, complete: true, ...more },
    })
  /** The job id of the scan command that the sensor gets. */
  const commandOf = async (sensor: Sensor) => {
    const [command] = (await sensor.heartbeat({ wait_seconds: 5 })).body.commands ?? []
    expect(command).toMatchObject({ type: 'scan' })
    return String(command?.job_id)
  }

  it('[V5.3] [V5.7] answers a requested scan with what the sensor reports, marked as such, and leaves the view unchanged', async () => {
    const sensor = await withFailedPipe()
    const asked = server.get('/views/live/tree?path=/d&force-real-time=1&wait=20', 'live')
    const jobId = await commandOf(sensor)
    const rows = [directory('/d'), file('/d/found', old, { size: 77 }), file('/d/link', old, { is_symlink: true })]
    expect((await sensor.send('on_demand_job', rows, { metadata: { job_id: jobId } })).status).toBe(200)
    await complete(sensor, jobId)
    const { status, body } = await asked
    expect([status, body['direct'], body['job_pending']]).toEqual([200, true, false])
    expect(body.children).toMatchObject([
      { path: '/d/found', size: 77, content_type: 'file', last_agent_id: 'h' },
      { path: '/d/link', content_type: 'symlink' },
    ])
    expect((await server.get(`/views/live/jobs/${jobId}`, 'live')).body).toMatchObject({ direct: true, rows: 3 })
    await server.pass(2)
    expect((await server.get('/views/live/tree?path=/d', 'live')).status).toBe(404)
    expect((await server.get('/views/live/tree', 'live')).body).not.toHaveProperty('direct')
  })

  it('[V5.7] answers 202 while the sensor scans, and 503 at once if the sensor cannot scan', async () => {
    const sensor = await withFailedPipe()
    const pending = await server.get('/views/live/tree?force-real-time=1', 'live')
    expect([pending.status, pending.body['job_pending']]).toEqual([202, true])
    await complete(sensor, await commandOf(sensor))
    const asked = server.get('/views/live/tree?force-real-time=1&wait=20', 'live')
    await complete(sensor, await commandOf(sensor), { complete: false, error: 'the root is unmounted' })
    const failed = await asked
    expect([failed.status, failed.body['code']]).toEqual([503, 'scan_failed'])
    expect(failed.text).toContain('the root is unmounted')
  })

  it('[V5.7] applies a scan that begins after the restart, and ends one that the failure interrupted', async () => {
    const sensor = await server.connect('h', { view: 'live' })
    await sensor.snapshot(file('/a'))
    const { body } = await server.get('/views/live/tree?force-real-time=1', 'live')
    const first = { metadata: { job_id: String(body.job_id) } }
    await sensor.send('on_demand_job', [file('/found')], first)
    const repair = breakTree('live')
    await sensor.realtime(file('/b'))
    repair()
    expect((await sensor.send('on_demand_job', [file('/more')], first)).status).toBe(503)
    const job = (await server.get(`/views/live/jobs/${body.job_id}`, 'live')).body
    expect(job).toMatchObject({ job_state: 'failed', direct: false })
    await server.pass(2)
    const next = (await server.get('/views/live/tree?force-real-time=1', 'live')).body
    const second = { metadata: { job_id: String(next.job_id) } }
    expect((await sensor.send('on_demand_job', [file('/later')], second)).status).toBe(200)
    await complete(sensor, String(next.job_id))
    const { children } = (await server.get('/views/live/tree', 'live')).body
    expect(children?.map(({ path }) => path)).toContain('/later')
  })

  it('[V5.4] a failed fusion pipe restarts after a pause, counts the restart and logs each change', async () => {
    const sensor = await server.connect('h', { view: 'live' })
    await sensor.snapshot(file('/a'))
    const repair = breakTree('live')
    await sensor.realtime(file('/b'))
    repair()
    expect((await sensor.realtime(file('/b'))).status).toBe(503)
    await server.pass(2)
    // It restarts without a request.
    expect((await server.get('/views/live/tree', 'live')).status).toBe(200)
    expect((await sensor.realtime(file('/b'))).status).toBe(200)
    const { components, summary } = (await server.get('/health/components')).body
    expect(components?.find(({ name }) => name === 'live/default')).toMatchObject({ state: 'ok', restarts: 1 })
    expect(summary).toMatchObject({ status: 'ok', restarts: 1, changes: 4 })
    const logged = server.lines
      .filter(({ fields }) => fields['health'] === true)
      .map(({ fields }) => [fields['unit'], fields['to']].join(' '))
    expect(logged).toEqual([
      'fusion_pipe:live/default failed',
      'view:live failed',
      'fusion_pipe:live/default ok',
      'view:live ok',
    ])
  })
})

describe('a view whose state is broken', () => {
  const unitOf = async (name: string) =>
    (await server.get('/health/components')).body.components?.find((unit) => unit.name === name)

  it('[V5.1] [V5.4] drops a source whose pipe keeps failing, counts the restart, and is filled again by its sensor', async () => {
    const sensor = await server.connect('h', { view: 'live' })
    const other = await server.connect('h', { view: 'persistent' })
    for (const one of [sensor, other]) await one.snapshot(file('/a'))
    breakTree('live')
    for (let failures = 1; failures < 5; failures += 1) {
      expect((await sensor.realtime(file('/b'))).status).toBe(500)
      await server.pass(2 ** failures)
    }
    expect(await unitOf('live')).toMatchObject({ state: 'ok', restarts: 0 })
    expect((await sensor.realtime(file('/b'))).status).toBe(500)
    expect((await sensor.heartbeat()).status).toBe(419)
    expect(await unitOf('live')).toMatchObject({ state: 'ok', restarts: 1 })
    const again = await server.connect('h', { view: 'live' })
    await again.snapshot(file('/a'), file('/b'))
    expect((await server.get('/views/live/tree', 'live')).body.children).toHaveLength(2)
    expect((await other.realtime(file('/b'))).status).toBe(200)
  })

  it('[V5.3] [V5.4] a view whose sweep fails is unavailable, counts its restarts and recovers; other views are swept', async () => {
    const sensor = await server.connect('h', { view: 'live', timeoutSeconds: 3_600 })
    const silent = await server.connect('h', { view: 'other' })
    for (const one of [sensor, silent]) await one.snapshot(file('/a'))
    const { tree } = server.fusion.view('live').sources.get('default')!
    tree.freeRemoved = () => {
      throw new TypeError('a bug')
    }
    await server.pass(1)
    expect((await server.get('/views/live/tree', 'live')).status).toBe(503)
    expect(await unitOf('live')).toMatchObject({ state: 'failed', restarts: 1, error: 'a bug' })
    await server.pass(40)
    expect(silent.id === '' || (await silent.heartbeat()).status).toBe(419)
    // The fifth failure drops the source, and with it what was broken.
    await server.pass(2)
    expect((await unitOf('live'))?.['state']).toBe('ok')
    const again = await server.connect('h', { view: 'live' })
    await again.snapshot(file('/a'))
    expect((await server.get('/views/live/tree', 'live')).status).toBe(200)
    expect(Number((await unitOf('live'))?.['restarts'])).toBe(6)
  })
})

describe('a sensor’s units', () => {
  it('[V5.4] [V5.3] registers the units of a heartbeat with their effective state and drops them with the session', async () => {
    const sensor = await server.connect('h', { view: 'live' })
    const units = (state: string) => ({
      agent_status: {
        units: [
          { kind: 'source', name: 'fs', state, restarts: 2, error: state === 'ok' ? null : 'unmounted' },
          { kind: 'sensor_pipe', name: 'live', state: 'ok' },
          { kind: 'view', name: 'live', state: 'failed' },
        ],
      },
    })
    const answer = await sensor.heartbeat(units('failed'))
    expect(answer.body.health).toMatchObject({ status: 'failed' })
    const listed = async () =>
      Object.fromEntries(
        ((await server.get('/health/components')).body.components ?? []).map(({ kind, name, state }) => [
          `${kind}:${name}`,
          state,
        ]),
      )
    expect(await listed()).toMatchObject({
      [`source:live/${sensor.id}/fs`]: 'failed',
      [`sensor_pipe:live/${sensor.id}/live`]: 'failed',
      'view:live': 'ok',
    })
    await sensor.heartbeat(units('ok'))
    expect(await listed()).toMatchObject({ [`sensor_pipe:live/${sensor.id}/live`]: 'ok' })
    await sensor.end()
    expect(Object.keys(await listed())).toHaveLength(4)
  })
})

it('[V5.4] healthz, readyz and metrics need no key', async () => {
  const sensor = await server.connect('h', { view: 'live' })
  await sensor.snapshot(file('/a'))
  const ask = (path: string) => server.call('GET', path, undefined, { key: null })
  expect((await ask('/healthz')).body).toEqual({ status: 'ok' })
  const fetched = await fetch(`${server.url}/metrics`)
  expect(await fetched.text()).toContain('bellwether_view_entries{view="live",source="default"} 1')
  expect((await fetch(`${server.url}/readyz`)).status).toBe(503)
})
