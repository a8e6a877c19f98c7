/** Claims of HTTP workers: waiting, races, lost responses, and the server's watchdog over claimed turns. */
import { request, type IncomingMessage } from 'node:http'
import { describe, expect, it } from 'vitest'
import { project } from '../../support/kernel.js'
import { until } from '../../support/until.js'
import { guardOn } from '../../support/watchdog.js'
import { serverPerFile } from '../test-server.js'
import { workerClient } from './worker-client.js'

const server = serverPerFile()
const { target, as, agent, enqueue, claim, callWorkerApi, detail, pass } = workerClient(server)
const p = `/projects/${project}`

describe('claims', () => {
  it('a waiting claim returns when a turn is enqueued, or empty after its wait', async () => {
    const agentId = await agent('wait')
    expect(await claim({ wait_seconds: 0.05 })).toEqual([])
    const waiting = [claim({ wait_seconds: 40, max: 1 }), claim({ wait_seconds: 40, max: 1 })]
    await until('both to have signed in', async () => {
      const rows = await server.t.all(`select from state.workers where worker_target = $1`, target())
      return rows.length > 0 ? true : undefined
    })
    const first = await enqueue(agentId)
    const winner = await Promise.race(waiting)
    expect(winner).toMatchObject([{ agent_turn_id: first }])
    const second = await enqueue(await agent('wait-2'))
    const all = (await Promise.all(waiting)).flat().map((turn) => turn.agent_turn_id)
    expect(new Set(all)).toEqual(new Set([first, second]))
    expect(all).toHaveLength(2)
  })

  it('[T1.1] concurrent claims never give one turn to two workers', async () => {
    const made: string[] = []
    for (let at = 0; at < 30; at += 1) made.push(await enqueue(await agent(`race-${at}`)))
    const got = await Promise.all(Array.from({ length: 12 }, () => claim({ max: 5, wait_seconds: 0.2 })))
    const rest = await claim({ max: 32 })
    const all = [...got.flat(), ...rest].map((turn) => turn.agent_turn_id)
    expect(new Set(all)).toEqual(new Set(made))
    expect(all).toHaveLength(made.length)
  })

  it('a claim whose client has disconnected takes nothing', async () => {
    const agentId = await agent('gone')
    const headers = { 'x-api-key': server.keys.worker, 'content-type': 'application/json' }
    const gone = new Promise((resolve) =>
      server.http.app.server.once('request', (incoming: IncomingMessage) => incoming.socket.once('close', resolve)),
    )
    const pending = request(`${server.url}/api/v1/workers/${target()}/claim`, { method: 'POST', headers, agent: false })
    pending.on('error', () => undefined)
    pending.end(JSON.stringify({ wait_seconds: 40 }))
    await until('it to have signed in', async () => {
      const rows = await server.t.all(`select from state.workers where worker_target = $1`, target())
      return rows.length > 0 ? true : undefined
    })
    pending.destroy()
    await gone
    const turnId = await enqueue(agentId)
    expect((await claim({ wait_seconds: 50 }))[0]).toMatchObject({ agent_turn_id: turnId })
  })

  it('a waiting claim ends in time although another transaction locks a head', async () => {
    const agentId = await agent('locked')
    await enqueue(agentId)
    let release = () => {}
    const over = new Promise<void>((resolve) => (release = resolve))
    let lock = () => {}
    const locked = new Promise<void>((resolve) => (lock = resolve))
    const holding = server.t.db.transaction(async (tx) => {
      await tx.query({ text: 'select from state.agent_state_head where agent_id = $1 for update', values: [agentId] })
      lock()
      await over
    })
    await locked
    expect(await claim()).toEqual([])
    release()
    await holding
    expect(await claim({ wait_seconds: 50 })).toHaveLength(1)
  })

  it('[W2.3b] a resumed turn whose claim response was lost is taken over with the same results', async () => {
    const turnId = await enqueue(await agent('lost-answer'))
    const [turn] = await claim()
    await callWorkerApi(turn!, 'suspend', { calls: [{ tool_call_id: `${turnId}-r`, tool_name: 'grep' }] })
    await server.post(`${p}/tool-calls/${turnId}-r/result`, { status: 'success', result: 7 })
    const [lost] = await claim()
    expect(lost).toMatchObject({ kind: 'resume' })
    await pass(40)
    const [again] = await claim()
    expect(again).toMatchObject({ agent_turn_id: turnId, taken_over: true, results: [{ result: 7 }] })
    expect((await callWorkerApi(lost!, 'deliver', { text: 'x' })).body).toMatchObject({ code: 'stale' })
    expect((await callWorkerApi(again!, 'deliver', { text: 'seven' })).status).toBe(200)
  })

  it('[W2.3a] a result whose worker died before it applied it is handed out again', async () => {
    const turnId = await enqueue(await agent('ledger'))
    const [turn] = await claim()
    await callWorkerApi(turn!, 'suspend', { calls: [{ tool_call_id: `${turnId}-l`, tool_name: 'grep' }] })
    await server.post(`${p}/tool-calls/${turnId}-l/result`, { status: 'success', result: 8 })
    // An in-process worker claims the receipt and dies before it resumes.
    const claimant = { workerTarget: target(), workerId: 'dead', max: 1, resumeLeaseSeconds: 30 }
    expect((await server.kernel.claim(claimant)).turns).toMatchObject([{ kind: 'resume' }])
    expect(await claim()).toEqual([])
    const waiting = claim({ wait_seconds: 40 })
    await pass(35)
    expect(await waiting).toMatchObject([{ agent_turn_id: turnId, kind: 'resume', results: [{ result: 8 }] }])
  })

  it('[W2.2a] the server’s watchdog times out a tool that never answers, and the turn continues', async () => {
    const turnId = await enqueue(await agent('hang'))
    const [turn] = await claim()
    await callWorkerApi(turn!, 'suspend', { calls: [{ tool_call_id: `${turnId}-h`, tool_name: 'grep' }] })
    await pass(40)
    const [next] = await claim()
    expect(next).toMatchObject({ kind: 'resume', results: [{ status: 'timeout', error: { code: 'tool_timeout' } }] })
    await callWorkerApi(next!, 'deliver', { text: 'gave up', status: 'failed', error: 'tool_timeout' })
    expect(await detail(turnId)).toMatchObject({ status: 'failed', error: 'tool_timeout' })
  })

  it('[W2.5] turns behind a full worker that beats are not timed out', async () => {
    await enqueue(await agent('busy-a'))
    const waiting = await enqueue(await agent('busy-b'))
    const [turn] = await claim({ max: 1, worker_id: 'small' })
    const guard = guardOn(server.t, {}, target())
    const beatAndGuard = async () => {
      await callWorkerApi(turn!, 'beat')
      await guard.step()
    }
    await beatAndGuard()
    for (let seconds = 0; seconds < 60; seconds += 5) {
      await server.t.advance(5)
      await beatAndGuard()
    }
    expect(await detail(waiting)).toMatchObject({ status: 'dispatched' })
    await callWorkerApi(turn!, 'deliver', { text: 'ok' })
    for (let seconds = 0; seconds < 60; seconds += 5) {
      await server.t.advance(5)
      await guard.step()
    }
    expect(await detail(waiting)).toMatchObject({ status: 'timeout', error: 'dispatch_timeout' })
  })

  it('a restarted server watches the claims of the previous one', async () => {
    const turnId = await enqueue(await agent('restart'))
    await claim()
    const fresh = await import('../../../src/http/remote/watch.js')
    const { t, kernel } = server
    const log = { info: () => undefined, warn: () => undefined, error: () => undefined }
    const settings = { watchdogIntervalSeconds: 5, inboxProcessingTimeoutSeconds: 30, maxDeaths: 3 }
    const watch = fresh.openRemoteWatch({ kernel, clock: t.clock, log, settings, onFreed: () => undefined })
    await watch.step()
    for (let seconds = 0; seconds < 40; seconds += 5) {
      await t.advance(5)
      await watch.step()
    }
    expect((await claim())[0]).toMatchObject({ agent_turn_id: turnId, taken_over: true })
  })

  it('claims of more targets than the watchdog can watch drop the oldest, and active ones continue', async () => {
    const turnId = await enqueue(await agent('crowd'))
    for (let at = 0; at < 210; at += 1) await server.post(`/workers/crowd-${at}/claim`, {}, as())
    expect((await claim())[0]).toMatchObject({ agent_turn_id: turnId })
  })
})
