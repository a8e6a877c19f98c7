/**
 * The server keeps the HTTP contract: every route of the contract exists, every route of the server is in the contract, and
 * the real answers of each route, success and problem, match their schemas. `ask` of test-server.ts checks every answer.
 */
import { routes, type Route } from '@bellwether/protocol/http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import { project, target } from '../support/kernel.js'
import { exercised, isStream } from './contract.js'
import { readEvents } from './reader.js'
import { addAgent, addTurn, view, type Door } from './test-server.js'
import { openWholeHouse, type WholeHouse } from './whole-server.js'

interface Operation {
  readonly summary?: string
  readonly security?: readonly object[]
  readonly responses: Readonly<Record<string, { readonly content?: object }>>
}

let house: WholeHouse
let door: Door
beforeAll(async () => {
  house = await openWholeHouse()
  door = house.door
})
afterAll(() => house.close())

const base = '/api/v1'
const contract = Object.entries(routes as Readonly<Record<string, Route>>)
// Pages for people, and the second place of the description.
const pages = ['/', '/p/*', '/bell.svg', '/assets/*', `${base}/openapi.json`]

describe('the HTTP contract', () => {
  it('has exactly the routes that the server has', () => {
    const served = door.server.routes
      .filter(({ method, url }) => method !== 'HEAD' && !pages.includes(url))
      .map(({ method, url }) => `${method} ${url}`)
    const declared = contract.map(([key, { outside }]) => (outside === true ? key : key.replace(' ', ` ${base}`)))
    expect(served.toSorted()).toEqual(declared.toSorted())
  })

  it('describes every route as OpenAPI 3.1, with its answers, its problems and whether it needs a key', async () => {
    const { body } = await door.get('/openapi.json', { key: null })
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

  it('holds for the real answers of every route', async () => {
    const p = `/projects/${project}`
    for (const { method, url, path, body } of house.routes) {
      await door.ask(method, path, body, { key: null })
      if (!url.endsWith('/events') || method !== 'GET') await door.ask(method, path, body)
    }
    // Routes that the walk above cannot answer with success, because it names nothing that exists.
    for (const path of ['/healthz', '/readyz', '/metrics', '/login?token=none', '/openapi.json']) await door.get(path)
    const { key_id: key } = (await door.post('/keys', { role: 'reader' })).body
    await door.post(`/keys/${String(key)}/rotate`, {})
    await door.ask('DELETE', `/keys/${String(key)}`)
    await addAgent(door, 'cid')
    const turn = await addTurn(door, 'cid')
    const claimed = (await door.post(`/workers/${target}/claim`, { max: 9 })).body.turns!.find(
      (one) => one.agent_turn_id === turn,
    )
    await door.post(`/turns/${turn}/beat`, { turn_epoch: claimed!.turn_epoch })
    await door.post(`${p}/turns/${turn}/stop`, { reason: 'enough' })
    await door.post('/board/control', { paused: false })
    const { taskId } = (await door.post('/board/tasks', { title: 'run', agent: 'cid' })).body
    const dispatched = door.post(`/board/tasks/${String(taskId)}/dispatch`)
    const claim = { workerTarget: target, workerId: 'w', max: 9, resumeLeaseSeconds: 30 }
    let run: ClaimedTurn | undefined
    while (run === undefined) run = (await door.kernel.claim(claim)).turns.find((one) => one.agentId === 'cid')
    await door.kernel.deliver({ ...run, status: 'success', content: { text: 'done' } })
    await dispatched
    const { body: session } = await door.post('/pipe/session', { task_id: 'x:s1' }, { key: door.keys.sensor })
    await door.ask('DELETE', `/pipe/session/${String(session['session_id'])}`, undefined, { key: door.keys.sensor })
    const { body: other } = await door.post('/pipe/session', { task_id: 'y:s1' }, { key: door.keys.sensor })
    await door.ask('DELETE', `/views/${view}/sessions/${String(other['session_id'])}`)
    for (const path of [`${p}/events?cursor=0:0`, '/board/events?cursor=0', `/views/${view}/events`]) {
      const reader = await readEvents(`${door.url}${base}${path}`, { key: door.keys.admin })
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

  it('refuses a body that its schema refuses, and names the key', async () => {
    for (const [path, body] of [
      ['/board/autopilot', { maxSteps: 0 }],
      ['/board/control', { paused: 'yes' }],
      [`/projects/${project}/agents/bob/turns`, { instruction: 'x', budget: { max_tokens: -1 } }],
    ] as const) {
      const answer = await door.post(path, body)
      expect(answer.body).toMatchObject({ status: 400, code: 'invalid_request', detail: expect.stringMatching(/"\w/) })
    }
  })
})
