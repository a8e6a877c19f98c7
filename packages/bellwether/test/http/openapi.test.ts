/** The description of the API is complete, and the server does what it says. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { wrongIn, type JsonSchema } from './json-schema.js'
import { openWholeHouse, type WholeHouse } from './whole-server.js'

interface Operation {
  readonly summary?: string
  readonly security?: readonly object[]
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema?: JsonSchema }>> }>
  >
}
interface Description {
  readonly openapi: string
  readonly security: readonly object[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

let house: WholeHouse
let told: Description
beforeAll(async () => {
  house = await openWholeHouse()
  told = (await house.door.get('/openapi.json', { key: null })).body as unknown as Description
})
afterAll(() => house.close())

const base = '/api/v1'
const open = ['/healthz', '/readyz', '/metrics', '/login', '/openapi.json']
const pages = ['/', '/p/*', '/bell.svg', '/assets/*', `${base}/openapi.json`]
const operation = (method: string, url: string): Operation | undefined =>
  told.paths[url.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]

describe('the description', () => {
  it('has every route, with a summary, what it answers, what its problems look like, and whether it needs a key', () => {
    const missing = house.door.server.routes
      .filter(({ method, url }) => method !== 'HEAD' && !pages.includes(url))
      .flatMap(({ method, url }) => {
        const at = `${method} ${url}`
        const found = operation(method, url)
        if (found === undefined) return [`${at} is not described`]
        const answers = Object.entries(found.responses)
        const good = answers.filter(([status]) => /^[23]\d\d$/.test(status))
        const schema = (one: (typeof answers)[number][1]) => Object.values(one.content ?? {})[0]?.schema
        return [
          ...(found.summary === undefined ? [`${at} has no summary`] : []),
          ...(good.length === 0 || good.some(([, one]) => schema(one) === undefined) ? [`${at} has no answer`] : []),
          ...['4XX', '5XX']
            .filter((status) => found.responses[status]?.content?.['application/problem+json']?.schema === undefined)
            .map((status) => `${at} has no problem for ${status}`),
          ...(((found.security ?? told.security).length === 0) === open.includes(url) ? [] : [`${at}: wrong security`]),
        ]
      })
    expect(missing).toEqual([])
    expect(told.openapi).toBe('3.1.0')
    expect(JSON.stringify(told)).not.toContain('"$ref":"#"')
  })

  it('names nothing that is not there', () => {
    const there = new Set(house.door.server.routes.map(({ method, url }) => `${method} ${url}`))
    const named = Object.entries(told.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`),
    )
    expect(named.filter((one) => !there.has(one))).toEqual([])
  })
})

describe('the server', () => {
  it('answers every route that reads as it is described, and with no field that is not', async () => {
    const wrong: string[] = []
    let answered = 0
    const asks = [
      ...house.routes.filter((route) => route.method === 'GET' && !route.url.endsWith('/events')),
      { method: 'GET', url: '/healthz', path: '/healthz' },
      { method: 'GET', url: '/readyz', path: '/readyz' },
    ]
    for (const { method, url, path } of asks) {
      const answer = await house.door.get(path)
      const found = operation(method, url) ?? operation(method, `${base}${url}`)
      const [one] = Object.entries(found?.responses[answer.status]?.content ?? {})
      const media = one?.[1]
      if (media?.schema === undefined || !String(answer.headers['content-type']).startsWith(one![0]))
        wrong.push(`${method} ${url}: ${answer.status} ${answer.headers['content-type']} is not described`)
      else wrong.push(...wrongIn(answer.body, media.schema).map((what) => `${method} ${url}: ${what}`))
      answered += answer.status === 200 ? 1 : 0
    }
    expect(wrong).toEqual([])
    expect(answered).toBe(asks.length)
  })

  it('answers what changes something as it is described', async () => {
    const wrong: string[] = []
    for (const { method, url, path, body } of house.routes.filter((route) => route.method !== 'GET')) {
      // Its turn would take longer than this test.
      if (url.endsWith('/dispatch')) continue
      const { status, body: told_, headers } = await house.door.ask(method, path, body)
      const found = operation(method, `${base}${url}`)
      const media =
        found?.responses[status >= 400 ? '4XX' : status]?.content?.[String(headers['content-type']).split(';')[0]!]
      if (media?.schema === undefined) wrong.push(`${method} ${url}: ${status} is not described`)
      else wrong.push(...wrongIn(told_, media.schema).map((what) => `${method} ${url}: ${what}`))
    }
    expect(wrong).toEqual([])
  })
})
