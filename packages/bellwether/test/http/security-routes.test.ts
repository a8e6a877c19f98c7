/**
 * Who may do what, over every route that the server has: without a key, with a wrong one, with every role, with keys that are limited
 * to another project or view, and with another project's ids. A route that the table does not speak of fails.
 */
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { KeyRole } from '@bellwether/protocol'
import { project } from '../support/kernel.js'
import { view, type Answer, type Door } from './test-server.js'
import { openWholeHouse, type Route, type WholeHouse } from './whole-server.js'

let house: WholeHouse
let door: Door
beforeAll(async () => {
  house = await openWholeHouse()
  door = house.door
})
afterAll(() => house.close())

const base = '/api/v1'
const roles: readonly KeyRole[] = ['admin', 'operator', 'worker', 'sensor', 'reader']
const problemType = 'application/problem+json'
const ask = ({ method, path, body }: Route, key: string | null) => door.ask(method, path, body, { key })
const at = ({ method, url }: Pick<Route, 'method' | 'url'>) => `${method} ${url}`
const leaks = (answer: Answer) => answer.text.includes('SECRET')

/** The request as it was sent, byte for byte: clients tidy URLs up. */
function raw(request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(door.url).port), '127.0.0.1', () => socket.write(request))
    let answer = ''
    socket.on('data', (data) => (answer += data.toString()))
    socket.on('close', () => resolve(answer))
    socket.on('error', reject)
  })
}

describe('every route', () => {
  it('is in the table, and the table names none that is not there', () => {
    const there = door.server.routes
      .filter(({ method, url }) => method !== 'HEAD' && url.startsWith(base) && url !== `${base}/openapi.json`)
      .map(({ method, url }) => ({ method, url: url.slice(base.length) }))
    expect(house.routes.map(at).toSorted()).toEqual(there.map(at).toSorted())
  })

  it('needs a key, and a right one, as a problem that says so', async () => {
    for (const route of house.routes) {
      for (const key of [null, 'bw_wrong-wrong-wrong']) {
        const answer = await ask(route, key)
        expect([at(route), answer.status]).toEqual([at(route), 401])
        expect(answer.headers).toMatchObject({ 'content-type': problemType, 'www-authenticate': 'Bearer' })
        expect(answer.body).toMatchObject({ code: 'unauthorized', detail: expect.any(String) })
      }
    }
  })

  it('is refused to every role that may not, before anything is done', async () => {
    for (const route of house.routes) {
      for (const role of roles.filter((one) => one !== 'admin' && !route.who.includes(one))) {
        const answer = await ask(route, door.keys[role])
        expect([role, at(route), answer.status, leaks(answer)]).toEqual([role, at(route), 403, false])
      }
    }
  })

  it('is refused to the most powerful key that is limited to another project or view', async () => {
    const keys = {
      project: await door.key('admin', { project: 'q' }),
      view: await door.key('admin', { view: 'other' }),
    }
    // What says something of the key itself, or lists what the key reaches: nothing, here.
    const harmless = [
      'GET /me',
      'GET /projects',
      'GET /views',
      'GET /health/components',
      'POST /logins',
      'DELETE /logins',
    ]
    for (const route of house.routes) {
      for (const [limit, key] of Object.entries(keys)) {
        const answer = await ask(route, key)
        const may = harmless.includes(at(route)) || (limit === 'project' && at(route) === 'GET /watchdog/interventions')
        // The view that an admin's key feeds is looked for, and is not there.
        const gone = limit === 'view' && route.url.startsWith('/pipe')
        const wanted = may ? [200, 201] : gone ? [404] : [403]
        expect([limit, at(route), wanted.includes(answer.status), answer.status]).toEqual([
          limit,
          at(route),
          true,
          answer.status,
        ])
        expect([at(route), leaks(answer)]).toEqual([at(route), false])
      }
    }
  })

  it('knows nothing of another project’s ids, whoever asks', async () => {
    const lists = ['/workers', '/agents', '/turns', '/questions', '/batches']
    for (const route of house.routes.filter(({ url }) => url.startsWith('/projects/:project/'))) {
      const inQ = { ...route, path: route.path.replace(`/projects/${project}/`, '/projects/q/') }
      const answer = await ask(inQ, door.keys.admin)
      const isList = route.method === 'GET' && lists.some((list) => route.path.endsWith(list))
      // What makes something new makes it in q, which is then its own.
      const isNew = route.method === 'PUT' || /(ui-actions|:agent\/turns)$/.test(route.url)
      const wanted = isList ? [200] : isNew ? [200, 202, 404, 400] : [400, 404]
      expect([at(route), wanted.includes(answer.status), answer.status]).toEqual([at(route), true, answer.status])
      expect([at(route), leaks(answer)]).toEqual([at(route), false])
    }
  })

  it('is open to each role that may, and none fails inside', async () => {
    for (const route of house.routes.filter(({ url }) => !url.endsWith('/dispatch') && !url.endsWith('/autopilot'))) {
      for (const role of roles.filter((one) => one === 'admin' || route.who.includes(one))) {
        const answer = await ask(route, door.keys[role])
        expect([role, at(route), answer.status === 403 || answer.status >= 500, answer.status]).toEqual([
          role,
          at(route),
          false,
          answer.status,
        ])
      }
    }
    expect(door.lines.filter((line) => line.level === 'error')).toEqual([])
  })

  it('that changes something is in the audit log with who did it, also when it was refused; those that only look are not', async () => {
    for (const route of house.routes) {
      const key = await door.key('reader', { view: 'nowhere' })
      const { key_id: actor } = (await door.get('/me', { key })).body as unknown as { key_id: string }
      const answer = await ask(route, key)
      const { audit } = (await door.get(`/audit?actor=${actor}`)).body as unknown as { audit: object[] }
      const path = `${base}${route.path.split('?')[0]}`
      const deed = { actor, method: route.method, path, status: answer.status, address: '127.0.0.1' }
      expect([at(route), audit]).toMatchObject([at(route), route.audited ? [deed] : []])
    }
  })

  it('answers nothing that a browser would run, whatever agents wrote', async () => {
    for (const route of house.routes.filter(({ method, url }) => method === 'GET' && !url.endsWith('/events'))) {
      const { headers, status } = await ask(route, door.keys.admin)
      expect([at(route), status, headers['content-type']]).toEqual([at(route), 200, 'application/json; charset=utf-8'])
      expect([at(route), headers]).toEqual([
        at(route),
        expect.objectContaining({
          'x-content-type-options': 'nosniff',
          'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
          'cache-control': 'no-store',
        }),
      ])
    }
  })

  it('cannot be reached around the door, however its URL is spelled', async () => {
    const line = (start: string) => raw(`${start} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`)
    const asks = [
      ['GET /%61pi/v1/health/components', 401],
      ['GET http://x/api/v1/health/components', 401],
      ['GET /api/v1/health/components/', 401],
      ['GET //api/v1/health/components', 404],
      ['GET /api/v1/../v1/health/components', 401],
      ['GET /api/v1/%2e%2e/v1/health/components', 401],
      ['GET /p/../api/v1/health/components', 200],
      ['HEAD /api/v1/health/components', 401],
      ['GET /API/V1/health/components', 404],
      [`GET /api/v1/projects/${project}/turns;x=1`, 401],
      [`GET /api/v1/projects/${project}%2fturns`, 401],
      [`GET /api/v1/views/${view}/tree%00`, 401],
      ['GET /api/v1/keys%0d%0ax:%20y', 401],
    ] as const
    for (const [start, status] of asks) {
      const answer = await line(start)
      expect([start, answer.split(' ')[1]]).toEqual([start, String(status)])
      expect(answer).not.toContain('SECRET')
    }
  })

  it('of streams opens none for HEAD', async () => {
    const streams = house.routes.filter(({ url }) => url.endsWith('/events') && !url.startsWith('/pipe'))
    expect(streams).toHaveLength(3)
    for (const { path } of streams) {
      const answer = await door.ask('HEAD', path.split('?')[0]!)
      expect([path, answer.status]).toEqual([path, 404])
    }
  })
})
