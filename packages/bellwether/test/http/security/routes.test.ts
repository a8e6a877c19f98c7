/**
 * The permissions of every route of the server: without a key, with a wrong one, with every role, with keys that are limited to
 * another project or view, and with ids of another project. A route that is missing in the table fails.
 */
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import type { KeyRole } from '@bellwether/protocol'
import { project } from '../../support/kernel.js'
import { view, type Response } from '../test-server.js'
import { fullServerPerFile, type Route } from '../full-server.js'

const full = fullServerPerFile()
const { server } = full

const base = '/api/v1'
const roles: readonly KeyRole[] = ['admin', 'operator', 'worker', 'sensor', 'reader', 'answerer']
const problemType = 'application/problem+json'
const ask = ({ method, path, body }: Route, key: string | null) => server.request(method, path, body, { key })
const at = ({ method, url }: Pick<Route, 'method' | 'url'>) => `${method} ${url}`
const leaks = (response: Response) => response.text.includes('SECRET')

/** Sends a request byte for byte; HTTP clients would normalize the URL. */
function raw(request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1', () => socket.write(request))
    let answer = ''
    socket.on('data', (data) => (answer += data.toString()))
    socket.on('close', () => resolve(answer))
    socket.on('error', reject)
  })
}

describe('every route', () => {
  it('the table lists exactly the routes of the server', () => {
    const there = server.http.routes
      .filter(({ method, url }) => method !== 'HEAD' && url.startsWith(base) && url !== `${base}/openapi.json`)
      .map(({ method, url }) => ({ method, url: url.slice(base.length) }))
    expect(full.routes.map(at).toSorted()).toEqual(there.map(at).toSorted())
  })

  it('every route answers a missing or wrong key with a problem', async () => {
    // All at once: each unknown key waits for the next read of the keys.
    const requests = full.routes.flatMap((route) => [null, 'bw_wrong-wrong-wrong'].map((key) => ({ route, key })))
    await Promise.all(
      requests.map(async ({ route, key }) => {
        const response = await ask(route, key)
        expect([at(route), response.status]).toEqual([at(route), 401])
        expect(response.headers).toMatchObject({ 'content-type': problemType, 'www-authenticate': 'Bearer' })
        expect(response.body).toMatchObject({ code: 'unauthorized', detail: expect.any(String) })
      }),
    )
  })

  it('every route refuses the roles that may not call it, before it acts', async () => {
    for (const route of full.routes) {
      for (const role of roles.filter((one) => one !== 'admin' && !route.who.includes(one))) {
        const answer = await ask(route, server.keys[role])
        expect([role, at(route), answer.status, leaks(answer)]).toEqual([role, at(route), 403, false])
      }
    }
  })

  it('every route refuses an admin key that is limited to another project or view', async () => {
    const keys = {
      project: await server.key('admin', { project: 'q' }),
      view: await server.key('admin', { view: 'other' }),
    }
    // Routes about the key itself, and lists of what the key may read, which are empty here.
    const harmless = [
      'GET /me',
      'GET /projects',
      'GET /views',
      'GET /health/components',
      'POST /logins',
      'DELETE /logins',
    ]
    const ofItsProject = ['GET /quotas', 'GET /watchdog/interventions', 'POST /workers/:target/claim']
    for (const route of full.routes) {
      for (const [limit, key] of Object.entries(keys)) {
        const answer = await ask(route, key)
        const may = harmless.includes(at(route)) || (limit === 'project' && ofItsProject.includes(at(route)))
        // The view of this admin key does not exist.
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

  it('every route of a project treats ids of another project as unknown, for every key', async () => {
    const lists =
      '/workers /agents /turns /questions /approvals /grants /batches /schedules /trends /trends.csv /evals /eval-runs'.split(
        ' ',
      )
    for (const route of full.routes.filter(({ url }) => url.startsWith('/projects/:project/'))) {
      const inQ = { ...route, path: route.path.replace(`/projects/${project}/`, '/projects/q/') }
      const answer = await ask(inQ, server.keys.admin)
      // A bulk action answers per row, here that there is no such turn.
      const isList =
        (route.method === 'GET' && lists.some((list) => route.path.endsWith(list))) || route.url.endsWith('/bulk')
      // Routes that create records create them in q.
      const isNew = route.method === 'PUT' || /(ui-actions|:agent\/turns)$/.test(route.url)
      const wanted = isList ? [200] : isNew ? [200, 202, 404, 400] : [400, 404]
      expect([at(route), wanted.includes(answer.status), answer.status]).toEqual([at(route), true, answer.status])
      expect([at(route), leaks(answer)]).toEqual([at(route), false])
    }
  })

  it('every route accepts each role that may call it, without an internal error', async () => {
    for (const route of full.routes.filter(({ url }) => !url.endsWith('/dispatch') && !url.endsWith('/autopilot'))) {
      for (const role of roles.filter((one) => one === 'admin' || route.who.includes(one))) {
        const answer = await ask(route, server.keys[role])
        expect([role, at(route), answer.status === 403 || answer.status >= 500, answer.status]).toEqual([
          role,
          at(route),
          false,
          answer.status,
        ])
      }
    }
    expect(server.lines.filter((line) => line.level === 'error')).toEqual([])
  })

  it('the audit log records every call that changes something with its actor, also if refused, and no read', async () => {
    for (const route of full.routes) {
      const key = await server.key('reader', { view: 'nowhere' })
      const { key_id: actor } = (await server.get('/me', { key })).body as unknown as { key_id: string }
      const answer = await ask(route, key)
      const { audit } = (await server.get(`/audit?actor=${actor}`)).body as unknown as { audit: object[] }
      const path = `${base}${route.path.split('?')[0]}`
      const entry = { actor, method: route.method, path, status: answer.status, address: '127.0.0.1' }
      expect([at(route), audit]).toMatchObject([at(route), route.audited ? [entry] : []])
    }
  })

  it('no route returns text of agents in a form that a browser runs', async () => {
    for (const route of full.routes.filter(({ method, url }) => method === 'GET' && !url.endsWith('/events'))) {
      const { headers, status } = await ask(route, server.keys.admin)
      const file = route.url.endsWith('/text') ? 'txt' : route.url.endsWith('.csv') ? 'csv' : undefined
      const type = file === 'txt' ? 'text/plain' : file === 'csv' ? 'text/csv' : 'application/json'
      expect([at(route), status, headers['content-type']]).toEqual([at(route), 200, `${type}; charset=utf-8`])
      expect([at(route), headers]).toEqual([
        at(route),
        expect.objectContaining({
          'x-content-type-options': 'nosniff',
          'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
          'cache-control': 'no-store',
        }),
      ])
      const disposition = String(headers['content-disposition'])
      const name = new RegExp(`^attachment; filename="[\\w-]+\\.${file}"$`)
      expect([at(route), name.test(disposition)]).toEqual([at(route), file !== undefined])
    }
  })

  it('no spelling of a URL bypasses the key check', async () => {
    const line = (start: string) => raw(`${start} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`)
    const requests = [
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
    for (const [start, status] of requests) {
      const answer = await line(start)
      expect([start, answer.split(' ')[1]]).toEqual([start, String(status)])
      expect(answer).not.toContain('SECRET')
    }
  })

  it('HEAD opens no stream', async () => {
    const streams = full.routes.filter(({ url }) => url.endsWith('/events') && !url.startsWith('/pipe'))
    expect(streams).toHaveLength(4)
    for (const { path } of streams) {
      const answer = await server.request('HEAD', path.split('?')[0]!)
      expect([path, answer.status]).toEqual([path, 404])
    }
  })
})
