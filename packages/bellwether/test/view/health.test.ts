/** Failures of parts, and who hears of them, over real HTTP. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { file, openDesk, type Desk } from './pipe-client.js'

let desk: Desk
beforeEach(async () => {
  desk = await openDesk({ live: {}, kept: { live: false }, other: {} })
})
afterEach(() => desk.close())

/** Makes the next write into this view's tree fail as a bug would. */
function breakTree(view: string): () => void {
  const { tree } = desk.fusion.view(view).sources.get('default')!
  const put = tree.put.bind(tree)
  tree.put = () => {
    throw new TypeError('a bug')
  }
  return () => {
    tree.put = put
  }
}

describe('a failed fusion pipe', () => {
  it('[V5.3] stops writes to its view only: a live one is unavailable but passes scans on, others stay readable', async () => {
    const sensors = {
      live: await desk.connect('h', { view: 'live' }),
      kept: await desk.connect('h', { view: 'kept' }),
      other: await desk.connect('h', { view: 'other' }),
    }
    for (const sensor of Object.values(sensors)) await sensor.snapshot(file('/a'))
    breakTree('live')
    breakTree('kept')
    for (const view of ['live', 'kept'] as const) {
      expect((await sensors[view].realtime(file('/b'))).status).toBe(500)
      const refused = await sensors[view].realtime(file('/b'))
      expect([refused.status, refused.body['code']]).toEqual([503, 'pipe_failed'])
    }
    expect((await sensors.other.realtime(file('/b'))).status).toBe(200)
    expect((await desk.get('/views/live/tree', 'live')).body).toMatchObject({ status: 503, code: 'view_unavailable' })
    expect((await desk.get('/views/live/tree?force-real-time=1', 'live')).body['job_pending']).toBe(true)
    expect((await desk.get('/views/kept/tree', 'kept')).status).toBe(200)
    expect((await desk.get('/views/other/tree', 'other')).body.children).toHaveLength(2)
    expect((await sensors.live.heartbeat()).body.health).toMatchObject({
      status: 'failed',
      troubled: { 'fusion_pipe:live/default': 'failed', 'view:live': 'failed', 'view:kept': 'degraded' },
    })
  })

  it('[V5.4] restarts itself after a pause, counts it, and each change is in the log', async () => {
    const sensor = await desk.connect('h', { view: 'live' })
    await sensor.snapshot(file('/a'))
    const mend = breakTree('live')
    await sensor.realtime(file('/b'))
    mend()
    expect((await sensor.realtime(file('/b'))).status).toBe(503)
    await desk.pass(2)
    // Nobody has to send anything for it to be back.
    expect((await desk.get('/views/live/tree', 'live')).status).toBe(200)
    expect((await sensor.realtime(file('/b'))).status).toBe(200)
    const { components, summary } = (await desk.get('/health/components')).body
    expect(components?.find(({ name }) => name === 'live/default')).toMatchObject({ state: 'ok', restarts: 1 })
    expect(summary).toMatchObject({ status: 'ok', restarts: 1, changes: 4 })
    const told = desk.lines
      .filter(({ fields }) => fields['health'] === true)
      .map(({ fields }) => [fields['unit'], fields['to']].join(' '))
    expect(told).toEqual([
      'fusion_pipe:live/default failed',
      'view:live failed',
      'fusion_pipe:live/default ok',
      'view:live ok',
    ])
  })
})

describe('a sensor’s units', () => {
  it('[V5.4] [V5.3] come with its heartbeat, are listed with what they amount to, and go with its session', async () => {
    const sensor = await desk.connect('h', { view: 'live' })
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
        ((await desk.get('/health/components')).body.components ?? []).map(({ kind, name, state }) => [
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

  it('[V5.4] the receiver’s failure fails every pipe, and its return is told too', async () => {
    const sensor = await desk.connect('h', { view: 'live' })
    desk.fusion.receiver('no file descriptors')
    expect((await sensor.heartbeat()).body.health).toMatchObject({
      status: 'failed',
      troubled: { 'fusion_pipe:live/default': 'failed' },
    })
    desk.fusion.receiver(undefined)
    expect((await sensor.heartbeat()).body.health).toMatchObject({ status: 'ok', restarts: 1 })
  })
})

it('[V5.4] healthz, readyz and metrics answer without a key', async () => {
  const sensor = await desk.connect('h', { view: 'live' })
  await sensor.snapshot(file('/a'))
  const ask = (path: string) => desk.call('GET', path, undefined, { key: null })
  expect((await ask('/healthz')).body).toEqual({ status: 'ok' })
  const fetched = await fetch(`${desk.url}/metrics`)
  expect(await fetched.text()).toContain('bellwether_view_entries{view="live",source="default"} 1')
  expect((await fetch(`${desk.url}/readyz`)).status).toBe(503)
})
