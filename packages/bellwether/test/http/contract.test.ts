/**
 * The server keeps the HTTP contract: every route of the contract exists, every route of the server is in the contract, and the
 * real responses of each route, success and problem, match their schemas. `request` of test-server.ts checks every response.
 */
import { routes, type Route } from '@bellwether/protocol/http'
import { describe, expect, it } from 'vitest'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import { project, target } from '../support/kernel.js'
import { exercised, isStream } from './contract.js'
import { readEvents } from './reader.js'
import { addAgent, addTurn, view } from './test-server.js'
import { fullServerPerFile } from './full-server.js'

interface Operation {
  readonly summary?: string
  readonly security?: readonly object[]
  readonly responses: Readonly<Record<string, { readonly content?: object }>>
}

const full = fullServerPerFile()
const { server } = full

const base = '/api/v1'
const contract = Object.entries(routes as Readonly<Record<string, Route>>)
// Pages for browsers, and the second URL of the OpenAPI description.
const pages = ['/', '/p/*', '/bell.svg', '/assets/*', `${base}/openapi.json`]

describe('the HTTP contract', () => {
  it('the HTTP contract has exactly the routes of the server', () => {
    const served = server.http.routes
      .filter(({ method, url }) => method !== 'HEAD' && !pages.includes(url))
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
      expect([key, Object.keys(operation!.responses)]).toEqual([key, [...Object.keys(route.answers), '4XX', '5XX']])
    }
    expect(Object.values(paths).flatMap((one) => Object.keys(one))).toHaveLength(contract.length)
  })

  it('the real responses of every route match the contract', async () => {
    const p = `/projects/${project}`
    for (const { method, url, path, body } of full.routes) {
      await server.request(method, path, body, { key: null })
      if (!url.endsWith('/events') || method !== 'GET') await server.request(method, path, body)
    }
    // The loop above names no existing records for these routes, so they have not succeeded yet.
    for (const path of ['/healthz', '/readyz', '/metrics', '/login?token=none', '/openapi.json']) await server.get(path)
    const { key_id: key } = (await server.post('/keys', { role: 'reader' })).body
    await server.post(`/keys/${String(key)}/rotate`, {})
    await server.request('DELETE', `/keys/${String(key)}`)
    await addAgent(server, 'cid')
    const turn = await addTurn(server, 'cid')
    const claimed = (await server.post(`/workers/${target}/claim`, { max: 9 })).body.turns!.find(
      (one) => one.agent_turn_id === turn,
    )
    await server.post(`/turns/${turn}/beat`, { turn_epoch: claimed!.turn_epoch })
    await server.post(`${p}/turns/${turn}/stop`, { reason: 'enough' })
    await server.post('/board/control', { paused: false })
    const { taskId } = (await server.post('/board/tasks', { title: 'run', agent: 'cid' })).body
    const dispatched = server.post(`/board/tasks/${String(taskId)}/dispatch`)
    const claim = { workerTarget: target, workerId: 'w', max: 9, resumeLeaseSeconds: 30 }
    let run: ClaimedTurn | undefined
    while (run === undefined) run = (await server.kernel.claim(claim)).turns.find((one) => one.agentId === 'cid')
    await server.kernel.deliver({ ...run, status: 'success', content: { text: 'done' } })
    await dispatched
    const { body: session } = await server.post('/pipe/session', { task_id: 'x:s1' }, { key: server.keys.sensor })
    await server.request('DELETE', `/pipe/session/${String(session['session_id'])}`, undefined, {
      key: server.keys.sensor,
    })
    const { body: other } = await server.post('/pipe/session', { task_id: 'y:s1' }, { key: server.keys.sensor })
    await server.request('DELETE', `/views/${view}/sessions/${String(other['session_id'])}`)
    for (const path of [`${p}/events?cursor=0:0`, '/board/events?cursor=0', `/views/${view}/events`]) {
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
    expect(contract.filter(([key]) => isStream(key))).toHaveLength(3)
  })

  it('a body that does not match its schema is rejected with the name of the key', async () => {
    for (const [path, body] of [
      ['/board/autopilot', { maxSteps: 0 }],
      ['/board/control', { paused: 'yes' }],
      [`/projects/${project}/agents/bob/turns`, { instruction: 'x', budget: { max_tokens: -1 } }],
    ] as const) {
      const answer = await server.post(path, body)
      expect(answer.body).toMatchObject({ status: 400, code: 'invalid_request', detail: expect.stringMatching(/"\w/) })
    }
  })
})
