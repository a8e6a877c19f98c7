/**
 * The server keeps the HTTP contract: every route of the contract exists, every route of the server is in the contract, and the real
 * responses of each route, success and problem, match their schemas. `request` of test-server.ts checks every response.
 */
import { defined } from '@bellwether/base'
import { routes, type Route, type Trail } from '@bellwether/protocol/http'
import { beforeAll, describe, expect, it } from 'vitest'
import { sealed } from '../../src/http/routes/trails.js'
import { project, target } from '../support/kernel.js'
import { until } from '../support/until.js'
import { exercised, isStream } from './contract.js'
import { readEvents } from './reader.js'
import { addAgent, addTurn, openLink, type Body, view } from './test-server.js'
import { claimTurnOf, fullServerPerFile, secret } from './full-server.js'

interface Operation {
  readonly summary?: string
  readonly security?: readonly object[]
  readonly responses: Readonly<Record<string, { readonly content?: object }>>
}

const full = fullServerPerFile()
const { server } = full
const base = '/api/v1'
const p = `/projects/${project}`
const contract = Object.entries(routes as Readonly<Record<string, Route>>)
// Pages for browsers, and the second URL of the OpenAPI description.
const pages = ['/', '/p/*', '/bell.svg', '/assets/*', `${base}/openapi.json`]

beforeAll(async () => {
  for (const name of ['dan', 'tom']) await addAgent(server, name)
})

/** Stops the turns of the agent until the request has its response. */
async function stopTurnsUntil(request: Promise<unknown>, agentId: string): Promise<void> {
  let isOver = false
  const over = request.finally(() => (isOver = true))
  await until('the request has its response', async () => {
    const { turns } = (await server.get(`${p}/turns?agent=${agentId}`)).body
    for (const { agent_turn_id: turn, ended_at: endedAt } of turns!)
      if (endedAt === null) await server.post(`${p}/turns/${String(turn)}/stop`, {})
    return isOver ? true : undefined
  })
  await over
}

const claimed = (agentId: string) => claimTurnOf(server, agentId)

describe('tasks', () => {
  const task = async (body: object) => String((await server.post('/board/tasks', body)).body['taskId'])
  const listed = async (taskId: string) =>
    ((await server.get('/board/tasks')).body['tasks'] as Body[]).find((one) => one['taskId'] === taskId)!

  it('a task shows what it waits for, its place in the queue and the reason', async () => {
    const first = await task({ title: 'first', agent: 'dan', priority: 9 })
    const second = await task({ title: 'second', agent: 'dan', priority: 3 })
    const third = await task({ title: 'third', agent: 'dan', dependencies: [first] })
    expect(await listed(first)).toMatchObject({
      waitCode: null,
      next: { place: 1, of: 3, assignee: 'dan', why: expect.stringContaining('priority 9') },
      recovery: null,
      budget: null,
      costMicros: null,
    })
    expect((await listed(second))['next']).toMatchObject({
      place: 2,
      of: 3,
      why: expect.stringContaining('is 3, not 9'),
    })
    expect(await listed(third)).toMatchObject({ waitCode: 'dependency', next: null })
    await server.request('PATCH', `/board/tasks/${second}`, { action: 'freeze' })
    expect(await listed(second)).toMatchObject({ waitCode: 'frozen', next: null })
    await server.request('PATCH', `/board/tasks/${first}`, { action: 'freeze' })
  })

  it('[H7.6] a task shows its runs with turns, its spending by kind and in money, and the state of its recovery', async () => {
    // The next agent of the recovery chain.
    await addAgent(server, 'coder')
    const id = await task({ title: 'fails', agent: 'tom', priority: 50 })
    const dispatched = server.post(`/board/tasks/${id}/dispatch`)
    const turn = await claimed('tom')
    const usage = { input_tokens: 5_000, output_tokens: 700, cache_write_tokens: 300, cache_read_tokens: 90_000 }
    const step = { stepId: `${id}-step`, phase: 'think', status: 'done', metadata: { usage, cost_micros: 12_340_000 } }
    await server.kernel.record({ ...turn, step })
    await server.kernel.deliver({ ...turn, status: 'failed', content: { text: 'no' }, error: 'broke' })
    expect((await dispatched).status).toBe(200)
    const shown = (await server.get(`/board/tasks/${id}`)).body
    expect(shown).toMatchObject({
      status: 'blocked',
      waitCode: 'cooldown',
      costMicros: 12_340_000,
      recovery: {
        reasonCode: 'spawn_failed',
        attempt: 1,
        maxAttempts: 2,
        action: 'retry',
        recoveryState: 'recovery_scheduled',
        nextAssignee: 'coder',
        reminders: 0,
      },
      budget: {
        agent: 'tom',
        tokenUsage: 6_000,
        inputTokens: 5_000,
        outputTokens: 700,
        cacheWriteTokens: 300,
        cacheReadTokens: 90_000,
        costMicros: 12_340_000,
        retryCount: 1,
        limits: { maxTaskTokens: null, maxTaskCostUsd: 20 },
        nearest: { unit: 'micros', used: 12_340_000, limit: 20_000_000, fraction: 0.617 },
      },
      runs: [{ agentTurnId: turn.agentTurnId, turnStatus: 'failed', costMicros: 12_340_000, agent: 'tom' }],
    })
    expect(await listed(id)).toMatchObject({ costMicros: 12_340_000, waitCode: 'cooldown', recovery: { attempt: 1 } })
  })
})

it('health lists supervised parts with their errors, only to keys without a limit', async () => {
  const { body } = await server.get('/health/components')
  expect(body['summary']).toMatchObject({ status: 'failed', troubled: { 'part:worker py': 'failed' } })
  const shown = (body['components'] as Body[]).filter((one) => one['kind'] === 'part')
  expect(shown).toMatchObject([
    { name: secret, state: 'ok', status: 'ready', pid: 1, error: null },
    { name: 'worker py', state: 'failed', restarts: 7, error: 'exit code 1', next_start_at: 'soon' },
  ])
  for (const limits of [{ project }, { view: 'other' }]) {
    const { text } = await server.get('/health/components', { key: await server.key('reader', limits) })
    // Neither the list nor the summary contains processes, or a view that the key may not read.
    expect([text.includes('worker py'), text.includes('fusion_pipe')]).toEqual([false, false])
  }
})

it('health and readiness name a target whose turns wait for a worker, and stop when one is back', async () => {
  const waiting = async () => {
    const { body } = await server.get('/readyz')
    return { status: body.status, targets: body['targets_without_workers'] }
  }
  const target = 'far-away'
  const limited = await server.key('reader', { project })
  const targets = async (key?: string) => {
    const { body } = await server.get('/health/components', defined({ key }))
    return (body['components'] as Body[]).filter((one) => one['kind'] === 'target')
  }
  await server.kernel.putAgents([{ projectId: project, agentId: 'stranded', workerTarget: target }])
  for (const agentId of ['stranded', 'stranded']) await addTurn(server, agentId)
  expect((await waiting()).targets).not.toContain(target)
  await server.t.all(
    `update state.agent_state_head set updated_at = state.now() - interval '70 seconds' where worker_target = $1`,
    target,
  )
  const now = await waiting()
  // The server works: a missing worker does not make it unready.
  expect(now).toMatchObject({ status: 'ready', targets: expect.arrayContaining([target]) as string[] })
  expect((await targets()).filter((one) => one['name'] === target)).toMatchObject([
    { state: 'failed', because: null, error: `no worker for target "${target}": 1 turn waits`, depends_on: [] },
  ])
  expect(await targets(limited)).toEqual([])
  await server.t.all(`select state.sign_in('far-1', $1, 4, 4)`, target)
  expect((await waiting()).targets).not.toContain(target)
  expect((await targets()).map((one) => one['name'])).not.toContain(target)
})

describe('the HTTP contract', () => {
  it('the HTTP contract has exactly the routes of the server', () => {
    const served = server.http.routes
      .filter(
        ({ method, url }) =>
          method !== 'HEAD' &&
          !pages.includes(url) &&
          !(method === 'GET' && ['/login', '/login/callback'].includes(url)),
      )
      .map(({ method, url }) => `${method} ${url}`)
    const declared = contract.map(([key, { outside }]) => (outside === true ? key : key.replace(' ', ` ${base}`)))
    expect(served.toSorted()).toEqual(declared.toSorted())
  })

  it('OpenAPI 3.1 describes every route of the contract with its responses, its problems and whether it needs a key', async () => {
    const { body } = await server.get('/openapi.json', { key: null })
    expect(body['openapi']).toBe('3.1.0')
    const paths = body['paths'] as Readonly<Record<string, Readonly<Record<string, Operation>>>>
    for (const [key, route] of contract) {
      const [method, path] = key.split(' ') as [string, string]
      const url = `${route.outside === true ? '' : base}${path}`.replaceAll(/:(\w+)/g, '{$1}')
      const operation = paths[url]?.[method.toLowerCase()]
      expect([key, operation?.summary, operation?.security]).toEqual([
        key,
        route.summary,
        route.outside === true ? [] : undefined,
      ])
      expect([key, Object.keys(operation!.responses)]).toEqual([key, [...Object.keys(route.responses), '4XX', '5XX']])
    }
    expect(Object.values(paths).flatMap((one) => Object.keys(one))).toHaveLength(contract.length)
  })

  it('the real responses of every route match the contract', async () => {
    for (const { method, url, path, body } of full.routes) {
      await server.request(method, path, body, { key: null })
      if (!url.endsWith('/events') || method !== 'GET') await server.request(method, path, body)
    }
    // The loop above names no existing records for these routes, so they have not succeeded yet.
    for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json']) await server.get(path)
    await openLink(server, String((await server.post('/logins')).body['path']))
    await server.get('/login/provider')
    const { url: provider, secret } = (await server.post('/login/provider')).body
    await server.post('/login/callback', { response: new URL(String(provider)).search, secret })
    const { key_id: key } = (await server.post('/keys', { role: 'reader' })).body
    await server.post(`/keys/${String(key)}/rotate`, {})
    await server.request('DELETE', `/keys/${String(key)}`)
    await server.request('DELETE', `${p}/schedules/daily`)
    const { runs } = (await server.get(`${p}/eval-runs`)).body as unknown as { runs: Body[] }
    await server.post(`${p}/eval-runs/${String(runs[0]!['run_id'])}/stop`)
    await server.request('PUT', `${p}/tools/deploy`, { options: { approve: 'ask' } })
    await addTurn(server, 'tom')
    const asks = { toolCallId: 'deploy-1', toolName: 'deploy', args: {} }
    await server.kernel.suspend({ ...(await claimed('tom')), stepId: 's', calls: [asks] }, 30)
    const { approvals } = (await server.get(`${p}/approvals`)).body as unknown as { approvals: Body[] }
    const approval = `${p}/approvals/${String(approvals[0]!['approval_id'])}/decision`
    await server.post(approval, { decision: 'allow', for: 'agent' })
    const { grants } = (await server.get(`${p}/grants`)).body as unknown as { grants: Body[] }
    await server.request('DELETE', `${p}/grants/${String(grants[0]!['grant_id'])}`)
    await addAgent(server, 'cid')
    const turn = await addTurn(server, 'cid')
    const { turns } = (await server.post(`/workers/${target}/claim`, { max: 9 })).body
    const { turn_epoch, lease_token } = turns!.find((one) => one.agent_turn_id === turn)!
    await server.post(`/turns/${turn}/beat`, { turn_epoch, lease_token })
    await server.post(`/turns/${turn}/reserve`, { turn_epoch, lease_token, reservation_id: 'r', tokens: 1 })
    for (const settle of [{ reservation_id: 'r', tokens: 1 }, { reservation_id: 'r' }])
      await server.post(`/turns/${turn}/${'tokens' in settle ? 'commit' : 'release'}`, {
        turn_epoch,
        lease_token,
        ...settle,
      })
    const fence = { projectId: project, agentId: 'cid', agentTurnId: turn, turnEpoch: Number(turn_epoch) }
    await server.kernel.holdAccount(fence, { account: 'full', reason: 'limit reached' }, 60)
    await server.post('/quotas/lift', { account: 'full' })
    await server.post(`${p}/turns/${turn}/messages`, { text: 'one more thing' })
    await server.post(`${p}/turns/${turn}/stop`, { reason: 'enough' })
    await server.post(`${p}/turns/${turn}/continue`, { instruction: 'go on' })
    await server.get(`${p}/turns/${turn}/replay`)
    await server.post(`${p}/turns/${turn}/fork`, { at: 0 })
    const { body: trail } = await server.get(`${p}/turns/${turn}/export`)
    const elsewhere = {
      ...(trail['turn'] as Body),
      agent_turn_id: 'imported',
      deliverable_card_id: null,
      output_box_id: null,
    }
    const empty = { context: [], cards: [], steps: [], waits: [], receipts: [], transcript: [] }
    await server.post(`${p}/imports`, sealed({ ...trail, ...empty, turn: elsewhere } as unknown as Trail))
    await server.post('/board/control', { paused: false })
    const { taskId } = (await server.post('/board/tasks', { title: 'run', agent: 'cid' })).body
    const dispatched = server.post(`/board/tasks/${String(taskId)}/dispatch`)
    // Its turn waits behind others of the agent.
    await stopTurnsUntil(dispatched, 'cid')
    const sensor = { key: server.keys.sensor }
    const { body: session } = await server.post('/pipe/session', { task_id: 'x:s1' }, sensor)
    await server.request('DELETE', `/pipe/session/${String(session['session_id'])}`, undefined, sensor)
    const { body: other } = await server.post('/pipe/session', { task_id: 'y:s1' }, sensor)
    await server.request('DELETE', `/views/${view}/sessions/${String(other['session_id'])}`)
    const transcript = `${p}/turns/${turn}/transcript/events`
    for (const path of [`${p}/events?cursor=0:0`, '/board/events?cursor=0', `/views/${view}/events`, transcript]) {
      const reader = await readEvents(`${server.url}${base}${path}`, { key: server.keys.admin })
      await reader.next(path, () => true)
      reader.cut()
    }
    const never = contract.flatMap(([key, { outside }]) => {
      const statuses = [...(exercised.get(key) ?? [])]
      return [
        ...(statuses.some((status) => status < 400) ? [] : [`${key} without success`]),
        ...(outside === true || statuses.some((status) => status >= 400) ? [] : [`${key} without a problem`]),
      ]
    })
    expect(never).toEqual([])
    expect(contract.filter(([key]) => isStream(key))).toHaveLength(4)
  })

  it('a body that does not match its schema is rejected with the name of the key', async () => {
    for (const [path, body] of [
      ['/board/autopilot', { maxSteps: 0 }],
      ['/board/control', { paused: 'yes' }],
      [`${p}/agents/bob/turns`, { instruction: 'x', budget: { max_tokens: -1 } }],
    ] as const) {
      const response = await server.post(path, body)
      expect(response.body).toMatchObject({
        status: 400,
        code: 'invalid_request',
        detail: expect.stringMatching(/"\w/),
      })
    }
    const two = await server.post('/board/control', { paused: 'yes', pausd: true })
    expect(two.body).toMatchObject({ detail: expect.stringMatching(/"paused": .*; .*"pausd"/) })
  })
})
