/** A request that waits gets nothing after its key was revoked or rotated: streams, long polls and claims check before each hand-out. */
import { beforeAll, describe, expect, it } from 'vitest'
import { project, target } from '../../support/kernel.js'
import { until } from '../../support/until.js'
import { readEvents } from '../reader.js'
import { addAgent, addTurn, serverPerFile, view } from '../test-server.js'

const server = serverPerFile()
beforeAll(async () => {
  await addAgent(server, 'ann')
})

const p = `/projects/${project}`
const idOf = async (key: string) => String((await server.get('/me', { key })).body['key_id'])
const revoke = async (key: string) => server.request('DELETE', `/keys/${await idOf(key)}`)
const stop = (turn: string) => server.post(`${p}/turns/${turn}/stop`)
/** Resolves when a request for the route was admitted and waits. */
const waits = (route: string) =>
  until(`a request for ${route}`, async () => (server.waiting(route) > 0 ? true : undefined))

describe('a revoked key', () => {
  it.each([
    ['revocation', (key: string) => revoke(key)],
    ['rotation', async (key: string) => server.post(`/keys/${await idOf(key)}/rotate`)],
  ])('gets no event after its %s: the stream ends', async (_how, end) => {
    const key = await server.key('reader')
    const reader = await readEvents(`${server.url}/api/v1${p}/events`, { key })
    await reader.next('hello', ({ event }) => event === 'hello')
    await end(key)
    await stop(await addTurn(server, 'ann'))
    await reader.ended
    expect(reader.events.map(({ event }) => event)).toEqual(['hello'])
  })

  it('gets no turn from a wait that began before', async () => {
    const key = await server.key('reader')
    const turn = await addTurn(server, 'ann')
    const waiting = server.get(`${p}/turns/${turn}?wait=50`, { key })
    await waits('/projects/:project/turns/:turn')
    await revoke(key)
    await stop(turn)
    expect((await waiting).status).toBe(401)
  })

  it('claims no turn with a request that began before: the turn stays for other workers', async () => {
    const key = await server.key('worker')
    const claim = (as: string, wait: number) =>
      server.post(`/workers/${target}/claim`, { worker_id: 'w', max: 1, wait_seconds: wait }, { key: as })
    const waiting = claim(key, 50)
    await waits('/workers/:target/claim')
    await revoke(key)
    const turn = await addTurn(server, 'ann')
    expect((await waiting).status).toBe(401)
    const { turns } = (await claim(server.keys.worker, 50)).body
    expect(turns).toMatchObject([{ agent_turn_id: turn }])
    await stop(turn)
  })

  it('gets no commands from a heartbeat that began before', async () => {
    const key = await server.key('sensor', { view })
    const { body } = await server.post('/pipe/session', { task_id: 'a:1', session_timeout_seconds: 120 }, { key })
    const session = String(body['session_id'])
    const waiting = server.post(`/pipe/session/${session}/heartbeat`, { can_realtime: true, wait_seconds: 20 }, { key })
    await waits('/pipe/session/:id/heartbeat')
    await revoke(key)
    await server.get(`/views/${view}/tree?path=/&force-real-time=true`)
    expect((await waiting).status).toBe(401)
  })

  it('leads no view any longer: its session ends, however long the timeout that it asked for', async () => {
    const [key, next] = [await server.key('sensor', { view }), await server.key('sensor', { view })]
    const connect = async (task_id: string, as: string) => {
      const info = { source_id: 'held' }
      const { body } = await server.post(
        '/pipe/session',
        { task_id, client_info: info, session_timeout_seconds: 604_800 },
        { key: as },
      )
      return body as unknown as { session_id: string; role: string }
    }
    const [held, waiting] = [await connect('held:1', key), await connect('held:2', next)]
    expect([held.role, waiting.role]).toEqual(['leader', 'follower'])
    await revoke(key)
    const { role } = await until('the other sensor leads', async () => {
      server.fusion.step()
      const { body } = await server.post(`/pipe/session/${waiting.session_id}/heartbeat`, {}, { key: next })
      return body['role'] === 'leader' ? { role: 'leader' } : undefined
    })
    expect(role).toBe('leader')
  })
})
