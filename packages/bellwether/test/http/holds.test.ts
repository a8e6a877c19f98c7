/** Held accounts over HTTP: who sees them, what a parked turn shows, and lifting a hold. */
import { beforeAll, expect, it } from 'vitest'
import { project } from '../support/kernel.js'
import { claimTurnOf } from './full-server.js'
import { addAgent, addTurn, serverPerFile } from './test-server.js'

const server = serverPerFile()
beforeAll(async () => {
  await addAgent(server, 'ann')
})

it('lists a hold, shows the account in the turn and its agent, and lifts it once', async () => {
  const { kernel } = server
  expect((await server.get('/quotas')).body).toEqual({ holds: [], limits: [] })
  await addTurn(server, 'ann')
  const turn = await claimTurnOf(server, 'ann')
  const until = new Date(Date.now() + 3_600_000)
  const limit = { account: 'claude', until, reason: '5-hour limit reached' }
  const hold = await kernel.holdAccount(turn, limit, 7_200)
  expect(await kernel.park(turn, hold, 7_200)).toBe('suspended')

  const shown = `account claude until ${until.toISOString().slice(11, 16)} UTC`
  expect((await server.get(`/projects/${project}/turns/${turn.agentTurnId}`)).body).toMatchObject({
    status: 'suspended',
    current_tool: shown,
  })
  const listed = { account: 'claude', reason: '5-hour limit reached', window: 1, probing: false, turns: 1 }
  expect((await server.get('/quotas')).body).toMatchObject({ holds: [{ ...listed, until: until.toISOString() }] })
  const events = await kernel.db.query<{ payload: object }>({
    text: "select payload from state.events where agent_turn_id = $1 and payload ->> 'status' = 'suspended'",
    values: [turn.agentTurnId],
  })
  expect(events).toMatchObject([{ payload: { metadata: { current_tool: shown } } }])
  expect((await server.get('/quotas', { key: server.keys.reader })).body).toMatchObject({ holds: [listed] })

  const other = await server.key('admin', { project: 'q' })
  expect((await server.get('/quotas', { key: other })).body).toEqual({ holds: [], limits: [] })
  const lift = (key = server.keys.operator) => server.post('/quotas/lift', { account: 'claude' }, { key })
  expect((await lift(other)).status).toBe(403)
  expect((await lift(server.keys.reader)).status).toBe(403)
  expect(await lift()).toMatchObject({ status: 200, body: { account: 'claude', status: 'lifted' } })
  expect(await lift()).toMatchObject({ status: 404 })
  expect((await server.get('/quotas')).body).toEqual({ holds: [], limits: [] })
})
