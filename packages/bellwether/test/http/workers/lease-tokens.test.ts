/** Attacks on the turns of other workers: every request for a claimed turn must show the lease token of its last claim. */
import { describe, expect, it } from 'vitest'
import { putLeaseTokens } from '../../../src/kernel/access/lease-tokens.js'
import { project } from '../../support/kernel.js'
import { serverPerFile, type Body } from '../test-server.js'
import { workerClient } from './worker-client.js'

const server = serverPerFile()
const { agent, enqueue, claim, callWorkerApi, counts, pass, target } = workerClient(server)
const p = `/projects/${project}`

/** A valid body for each request about a claimed turn. */
const requests: Readonly<Record<string, object>> = {
  beat: {},
  steps: { cards: [{ type: 'agent.thought', content: { text: 'forged' } }] },
  transcript: { entries: [{ kind: 'text', content: 'forged' }] },
  reserve: { reservation_id: 'forged', tokens: 1 },
  commit: { reservation_id: 'forged', tokens: 1 },
  release: { reservation_id: 'forged' },
  suspend: { calls: [{ tool_call_id: 'forged', tool_name: 'x' }] },
  deliver: { text: 'forged' },
}
const limited = { instruction: 'do it', budget: { max_tokens: 1_000 } }

async function claimed(name: string, body: object = limited): Promise<Body> {
  await enqueue(await agent(name), body)
  const [turn] = await claim()
  return turn!
}

/** Suspends on a tool and answers it, so that the next claim resumes the turn with the same epoch. */
async function suspended(turn: Body): Promise<void> {
  const call = `${turn.agent_turn_id}-call`
  await callWorkerApi(turn, 'suspend', { calls: [{ tool_call_id: call, tool_name: 'lookup' }] })
  await server.post(`${p}/tool-calls/${call}/result`, { status: 'success', result: 1 })
}

const local = { workerId: 'local', max: 10, resumeLeaseSeconds: 30 }

describe('a lease token', () => {
  it('covers every route of a claimed turn', () => {
    const routes = server.http.routes.map(({ url }) => url).filter((url) => url.startsWith('/api/v1/turns/:turn/'))
    expect(routes.map((url) => url.slice('/api/v1/turns/:turn/'.length)).toSorted()).toEqual(
      Object.keys(requests).toSorted(),
    )
  })

  it('a lease token is needed: with the right epoch and a missing, empty or foreign token every request is refused and changes nothing', async () => {
    const other = await claimed('other')
    const turn = await claimed('victim')
    const before = await counts()
    const forged = [
      [undefined, 'lease_token_missing'],
      ['', 'wrong_lease_token'],
      [other.lease_token, 'wrong_lease_token'],
      [`${turn.lease_token} `, 'wrong_lease_token'],
    ] as const
    for (const [what, body] of Object.entries(requests))
      for (const [lease_token, code] of forged)
        expect([what, (await callWorkerApi({ ...turn, lease_token }, what, body)).body]).toMatchObject([
          what,
          { status: 403, code },
        ])
    expect(await counts()).toEqual(before)
    expect((await callWorkerApi(turn, 'deliver', { text: 'mine' })).body).toEqual({ status: 'ended' })
    expect((await callWorkerApi(turn, 'deliver', { text: 'mine' })).body).toEqual({ status: 'already' })
  })

  it('a lease token is new with each claim, random, and stored as a hash only', async () => {
    const turns = [await claimed('one'), await claimed('two')]
    const tokens = turns.map((turn) => String(turn.lease_token))
    expect(new Set(tokens).size).toBe(2)
    for (const one of tokens) expect(Buffer.from(one, 'base64url')).toHaveLength(32)
    const { text } = await server.t.one<{ text: string }>('select json_agg(l)::text as text from state.lease_tokens l')
    expect(tokens.filter((one) => text.includes(one) || text.includes(Buffer.from(one).toString('hex')))).toEqual([])
  })

  it('ends with a resume by another worker, which keeps the epoch', async () => {
    const asked = await claimed('asks')
    await suspended(asked)
    const [resumed] = await claim()
    expect(resumed).toMatchObject({ kind: 'resume', turn_epoch: asked.turn_epoch })
    const before = await counts()
    for (const [what, body] of Object.entries(requests))
      expect([what, (await callWorkerApi(asked, what, body)).body]).toMatchObject([
        what,
        { status: 409, code: 'stale' },
      ])
    expect(await counts()).toEqual(before)
    expect((await callWorkerApi(resumed!, 'deliver', { text: 'mine' })).status).toBe(200)
  })

  it('ends with a resume by a worker with a database connection of its own', async () => {
    const asked = await claimed('asks')
    await suspended(asked)
    const { turns } = await server.kernel.claim({ ...local, workerTarget: target() })
    expect(turns).toMatchObject([{ kind: 'resume', turnEpoch: asked.turn_epoch }])
    expect(await server.kernel.resume(turns[0]!, local.workerId)).toBe('resumed')
    expect((await callWorkerApi(asked, 'deliver', { text: 'forged' })).body).toMatchObject({ code: 'stale' })
  })

  it('ends with a takeover: the silent worker gets stale, and with the new epoch it is refused', async () => {
    const silent = await claimed('silent')
    await pass(40)
    const [successor] = await claim()
    expect(successor).toMatchObject({ taken_over: true, turn_epoch: silent.turn_epoch! + 1 })
    expect((await callWorkerApi(silent, 'deliver', { text: 'x' })).body).toMatchObject({ code: 'stale' })
    const guess = { ...silent, turn_epoch: successor!.turn_epoch }
    expect((await callWorkerApi(guess, 'deliver', { text: 'x' })).body).toMatchObject({ code: 'stale' })
    await pass(40)
    const [third] = await claim()
    // Two claims later its token is like any other wrong one.
    const old = await callWorkerApi({ ...silent, turn_epoch: third!.turn_epoch }, 'deliver', { text: 'x' })
    expect(old.body).toMatchObject({ status: 403, code: 'wrong_lease_token' })
    expect((await callWorkerApi(third!, 'deliver', { text: 'mine' })).status).toBe(200)
  })

  it('does not exist for the turn of a worker with a database connection of its own', async () => {
    await enqueue(await agent('inside'))
    const { turns } = await server.kernel.claim({ ...local, workerTarget: target() })
    const fence = { agent_turn_id: turns[0]!.agentTurnId, turn_epoch: turns[0]!.turnEpoch }
    expect((await callWorkerApi({ ...fence, lease_token: 'x' }, 'deliver', { text: 'x' })).body).toMatchObject({
      code: 'wrong_lease_token',
    })
    await server.kernel.deliver({ ...turns[0]!, status: 'success', content: { text: 'mine' } })
  })

  it('a late answer to an old claim does not replace the token of a later one', async () => {
    const first = await claimed('late')
    await pass(40)
    const [second] = await claim()
    const fence = { projectId: project, agentId: '', agentTurnId: first.agent_turn_id!, turnEpoch: first.turn_epoch! }
    const holder = { workerId: 'http:late', workerTarget: target(), keyId: 'k' }
    for (const isResume of [false, true])
      expect(await putLeaseTokens(server.kernel.db, [{ fence, leaseToken: 'late' }], holder, isResume)).toEqual(
        new Set(),
      )
    expect((await callWorkerApi(second!, 'deliver', { text: 'mine' })).status).toBe(200)
  })

  it('retention removes it with its turn', async () => {
    const turn = await claimed('pruned')
    await callWorkerApi(turn, 'deliver', { text: 'done' })
    const stored = 'select count(*)::int as count from state.lease_tokens where agent_turn_id = $1'
    expect(await server.t.one(stored, turn.agent_turn_id)).toEqual({ count: 1 })
    await server.t.advance(3_600)
    await server.t.all('select state.prune(0.01, 1000)')
    expect(await server.t.one(stored, turn.agent_turn_id)).toEqual({ count: 0 })
  })
})

describe('forged requests', () => {
  const auditOf = async (key: string) => {
    const { key_id } = (await server.get('/me', { key })).body
    return (await server.get(`/audit?actor=${String(key_id)}&limit=500`)).body['audit'] as Body[]
  }

  it('forged requests are in the audit log: an unknown turn, a wrong token, a foreign project, a target that the key may not serve', async () => {
    const turn = await claimed('watched')
    const path = `/turns/${turn.agent_turn_id}/beat`
    const body = { turn_epoch: turn.turn_epoch, lease_token: 'guess' }
    const key = await server.key('worker')
    const ofTarget = await server.key('worker', { targets: ['mine'] })
    const ofProject = await server.key('worker', { project: 'q' })
    const statuses = [
      await server.post('/turns/none/beat', body, { key }),
      await server.post(path, body, { key }),
      await server.post(path, { ...body, lease_token: turn.lease_token }, { key: ofTarget }),
      await server.post(`/workers/${target()}/claim`, {}, { key: ofTarget }),
      await server.post(path, { ...body, lease_token: turn.lease_token }, { key: ofProject }),
    ].map(({ status }) => status)
    expect(statuses).toEqual([404, 403, 403, 403, 403])
    const row = (more: object) => expect.objectContaining({ role: 'worker', method: 'POST', ...more })
    expect(await auditOf(key)).toEqual([
      row({ path: `/api/v1${path}`, status: 403, code: 'wrong_lease_token' }),
      row({ path: '/api/v1/turns/none/beat', status: 404, code: 'not_found' }),
    ])
    expect(await auditOf(ofTarget)).toEqual([
      row({ path: `/api/v1/workers/${target()}/claim`, code: 'forbidden' }),
      row({ path: `/api/v1${path}`, code: 'forbidden' }),
    ])
    expect(await auditOf(ofProject)).toEqual([row({ path: `/api/v1${path}`, code: 'forbidden' })])
  })

  it('fill the audit log with a bounded number of rows per key, and honest requests with none', async () => {
    const turn = await claimed('flooded')
    const key = await server.key('worker')
    for (let sent = 0; sent < 60; sent += 1)
      await server.post(`/turns/${turn.agent_turn_id}/beat`, { turn_epoch: 1, lease_token: `${sent}` }, { key })
    const rows = (await auditOf(key)).length
    expect(rows).toBeGreaterThanOrEqual(20)
    expect(rows).toBeLessThan(40)
    const honest = await server.key('worker')
    await server.post(
      `/turns/${turn.agent_turn_id}/beat`,
      { turn_epoch: turn.turn_epoch, lease_token: turn.lease_token },
      { key: honest },
    )
    expect(await auditOf(honest)).toEqual([])
  })
})
