/**
 * Checks responses of a running server against the HTTP contract, and records which routes were exercised. A response must
 * match its schema and must not have a field that the schema lacks.
 */
import { isDeepStrictEqual } from 'node:util'
import { eventStream, problem, problemType, routes, type Route } from '@bellwether/protocol/http'
import type { z } from 'zod'

const base = '/api/v1'
const table = Object.entries(routes as Readonly<Record<string, Route>>).map(([key, route]) => {
  const [method, path] = key.split(' ') as [string, string]
  const url = `${route.outside === true ? '' : base}${path}`
  return {
    key,
    route,
    method,
    pattern: new RegExp(`^${url.replaceAll(/:\w+/g, '[^/]+')}/?$`),
    fixed: !path.includes(':'),
  }
})

export interface ResponseCheck {
  readonly method: string
  readonly url: string
  readonly status: number
  readonly type: string
  readonly body: unknown
}

/** The statuses with which each route has responded. */
export const exercised = new Map<string, Set<number>>()

function keyFor(method: string, url: string): string | undefined {
  const path = new URL(url, 'http://x').pathname
  const found = table.filter((one) => one.method === method && one.pattern.test(path))
  return (found.find(({ fixed }) => fixed) ?? found[0])?.key
}

/** Throws if the response breaks the contract. */
export function checkResponse({ method, url, status, type, body }: ResponseCheck): void {
  const key = keyFor(method, url)
  if (key === undefined && status < 400) return
  const at = `${key ?? `${method} ${url}`}: ${status} ${type}`
  if (key !== undefined) exercised.set(key, (exercised.get(key) ?? new Set()).add(status))
  const answer = key === undefined ? undefined : (routes as Readonly<Record<string, Route>>)[key]!.responses[status]
  if (typeof answer === 'string') {
    if (status < 300 && !type.startsWith(answer)) throw new Error(`${at}: not ${answer}`)
  } else if (answer !== undefined) checkBody(at, answer, body)
  else if (status < 400 || type !== problemType) throw new Error(`${at}: not in the contract`)
  else checkBody(at, problem, body)
}

/** Throws if an event of a stream breaks the contract. */
export function checkEvent(url: string, event: string, data: unknown): void {
  const key = keyFor('GET', url)
  const route = (routes as Readonly<Record<string, Route>>)[key ?? '']
  const schema = route?.events?.[event] ?? route?.events?.['*']
  if (schema === undefined) throw new Error(`${key}: event ${event} is not in the contract`)
  exercised.set(key!, (exercised.get(key!) ?? new Set()).add(200))
  checkBody(`${key}: event ${event}`, schema, data)
}

function checkBody(at: string, schema: z.ZodType, body: unknown): void {
  const result = schema.safeParse(body)
  if (!result.success)
    throw new Error(`${at}: ${result.error.issues.map((one) => `${one.path.join('.')}: ${one.message}`).join('; ')}`)
  if (!isDeepStrictEqual(result.data, body))
    throw new Error(`${at}: ${extra(body, result.data).join(', ')} not in the contract`)
}

/** Paths of fields that parsing has dropped. */
function extra(body: unknown, parsed: unknown, at = ''): string[] {
  if (typeof body !== 'object' || body === null) return []
  return Object.entries(body).flatMap(([name, value]) => {
    const other = (parsed as Readonly<Record<string, unknown>> | null)?.[name]
    return other === undefined && value !== undefined ? [`${at}${name}`] : extra(value, other, `${at}${name}.`)
  })
}

export const isStream = (key: string) =>
  (routes as Readonly<Record<string, Route>>)[key]?.responses[200] === eventStream
