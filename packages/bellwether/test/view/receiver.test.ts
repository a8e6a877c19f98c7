/** Tests that a server whose listening socket fails listens again by itself. The socket is shut down for real. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import koffi from 'koffi'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { probeIntervalMs } from '../../src/runtime/parts/listen.js'
import { file, openViewServer, type ViewServer } from './pipe-client.js'
import { until } from '../support/until.js'

let server: ViewServer
beforeEach(async () => {
  server = await openViewServer({ live: {}, persistent: { live: false } })
})
afterEach(() => server.close())

const shutDown = koffi.load('libc.so.6').func('int shutdown(int, int)') as (fd: number, how: number) => number
const bothDirections = 2

/** `accept` fails from now on. Node does not report this. */
async function breakSocket(): Promise<void> {
  const { _handle: handle } = server.app.server as unknown as { readonly _handle: { readonly fd: number } }
  expect(shutDown(handle.fd, bothDirections)).toBe(0)
  expect(await canConnect()).toBe(false)
  await until('the next probe is due', async () => server.clock.sleepers > 0 || undefined)
  await server.clock.advance(probeIntervalMs)
}

async function canConnect(): Promise<boolean> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

const receiver = () => server.fusion.health.get('receiver:http')
const failedTimes = (times: number) =>
  until(`failure ${times} of the receiver`, async () => receiver()?.restarts === times || undefined)

it('[V5.6] [V5.4] [V5.3] a server whose socket fails binds it again with growing pauses and counts the restarts; until then its pipes fail, /readyz reports it, and only persistent views answer', async () => {
  const sensor = await server.connect('h', { view: 'live' })
  const other = await server.connect('h', { view: 'persistent' })
  for (const one of [sensor, other]) await one.snapshot(file('/a'))
  expect((await server.call('GET', '/readyz')).body).toMatchObject({ status: 'ready', receiver: true })
  await breakSocket()
  await failedTimes(1)
  expect(await canConnect()).toBe(false)
  // Requests of established connections are still answered, and report the failure.
  const { status, body } = await server.call('GET', '/readyz')
  expect(status).toBe(503)
  expect(body).toEqual({ status: 'not_ready', receiver: false, views: { live: false, persistent: true } })
  expect((await sensor.realtime(file('/b'))).body).toMatchObject({ status: 503, code: 'receiver_failed' })
  expect((await sensor.startAudit('a')).body).toMatchObject({ status: 503, code: 'receiver_failed' })
  expect((await sensor.heartbeat()).body.health).toMatchObject({
    troubled: { 'receiver:http': 'failed', 'fusion_pipe:live/default': 'failed', 'view:live': 'failed' },
  })
  expect((await server.get('/views/live/tree', 'live')).body).toMatchObject({ status: 503, code: 'view_unavailable' })
  expect((await server.get('/views/persistent/tree', 'persistent')).body.children).toHaveLength(1)

  // Another program takes the port: the receiver fails again, pauses longer, and tries again.
  const blocker = createServer().listen(Number(new URL(server.url).port), '127.0.0.1')
  await once(blocker, 'listening')
  await server.clock.advance(250)
  await failedTimes(2)
  expect(receiver()?.error).toContain('EADDRINUSE')
  blocker.close()
  await once(blocker, 'close')
  await server.clock.advance(499)
  expect(await canConnect()).toBe(false)
  await server.clock.advance(1)
  await until('the receiver listens', async () => receiver()?.state === 'ok' || undefined)
  expect(await canConnect()).toBe(true)
  expect((await server.call('GET', '/readyz')).body).toMatchObject({ status: 'ready', receiver: true })
  expect((await sensor.realtime(file('/b'))).status).toBe(200)
  expect((await server.get('/views/live/tree', 'live')).body.children).toHaveLength(2)
  const { components } = (await server.get('/health/components')).body
  expect(components?.find(({ kind }) => kind === 'receiver')).toMatchObject({ state: 'ok', restarts: 2, error: null })

  // It works more than once.
  await breakSocket()
  await failedTimes(3)
  await server.clock.advance(1_000)
  await until('the receiver listens again', async () => receiver()?.state === 'ok' || undefined)
  expect((await sensor.heartbeat()).status).toBe(200)
})

it('a probe that finds no free file descriptor does not restart the receiver', async () => {
  const libc = koffi.load('libc.so.6')
  koffi.struct('rlimit', { soft: 'uint64', hard: 'uint64' })
  const read = libc.func('int getrlimit(int, _Out_ rlimit *)') as (resource: number, limit: object) => number
  const write = libc.func('int setrlimit(int, rlimit *)') as (resource: number, limit: object) => number
  const openFiles = 7
  const limit = { soft: 0, hard: 0 }
  expect(read(openFiles, limit)).toBe(0)
  await until('the next probe is due', async () => server.clock.sleepers > 0 || undefined)
  expect(write(openFiles, { ...limit, soft: 0 })).toBe(0)
  try {
    await server.clock.advance(probeIntervalMs)
    await until('the probe has failed', async () => server.clock.sleepers > 0 || undefined)
  } finally {
    write(openFiles, limit)
  }
  expect(receiver()).toMatchObject({ state: 'ok', restarts: 0 })
})
