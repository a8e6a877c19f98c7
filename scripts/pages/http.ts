/** docs/reference/http.md and docs/reference/events.md: every route, field, problem and event, from the HTTP contract and the table of roles. */
import { keyRoles } from '../../packages/protocol/src/index.js'
import { problem, routeGroups, type Route } from '../../packages/protocol/src/http/index.js'
import { deletedRow, fileEvent, fileRow } from '../../packages/protocol/src/pipe.js'
import { schemaOf } from '../../packages/bellwether/src/http/openapi.js'
import { problemStatuses } from '../../packages/bellwether/src/http/problem.js'
import { allows } from '../../packages/bellwether/src/http/roles.js'
import { generated, page } from './pages.js'

interface Json {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, Json>>
  readonly required?: readonly string[]
  readonly items?: Json
  readonly anyOf?: readonly Json[]
  readonly oneOf?: readonly Json[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly format?: string
  readonly default?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly maxLength?: number
  readonly maxItems?: number
  readonly $ref?: string
}

type Schema = Parameters<typeof schemaOf>[0]

const isNull = ({ type }: Json) => type === 'null'
const variants = (json: Json): readonly Json[] =>
  json.anyOf ?? json.oneOf ?? (Array.isArray(json.type) ? json.type.map((type: string) => ({ ...json, type })) : [json])

function typeOf(json: Json): string {
  const all = variants(json)
  if (all.length > 1) return [...new Set(all.map(typeOf))].join(' or ')
  const [one = json] = all
  if (one.$ref !== undefined) return one.$ref === '#' ? 'the same object' : `\`${one.$ref.split('/').at(-1)}\``
  if (one.const !== undefined) return code(one.const)
  if (one.enum !== undefined) return one.enum.map(code).join(', ')
  if (one.items !== undefined)
    return `list of ${typeOf(one.items)}${one.maxItems === undefined ? '' : `, at most ${count(one.maxItems)}`}`
  if (one.format === 'date-time') return 'time'
  const { minimum: min, maximum: max, maxLength } = one
  // The limits of safe integers say nothing.
  const bounds = [min, max].filter((bound) => bound !== undefined && Math.abs(bound) < Number.MAX_SAFE_INTEGER)
  const name = String(one.type ?? 'any value')
  if (bounds.length === 2) return `${name} ${count(min!)} to ${count(max!)}`
  if (bounds.length === 1) return `${name} ${min === bounds[0] ? 'from' : 'up to'} ${count(bounds[0]!)}`
  return maxLength === undefined ? name : `${name}, at most ${count(maxLength)} characters`
}

const code = (value: unknown) => `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``
const count = (number: number) => number.toLocaleString('en')

interface Field {
  readonly name: string
  readonly json: Json
  readonly required: boolean
}

/** All fields, nested ones by path. A field that only some variants have is optional. */
function fieldsOf(json: Json, at = ''): Field[] {
  const objects = variants(json).filter((one) => !isNull(one))
  const fields = new Map<string, Field>()
  for (const one of objects) {
    for (const [name, inner] of Object.entries(one.properties ?? {})) {
      const path = at === '' ? name : `${at}.${name}`
      const required = objects.every((other) => other.required?.includes(name) === true)
      for (const field of [{ name: path, json: inner, required }, ...fieldsOf(inner, path)])
        if (!fields.has(field.name)) fields.set(field.name, field)
    }
    for (const field of one.items === undefined ? [] : fieldsOf(one.items, `${at}[]`))
      if (!fields.has(field.name)) fields.set(field.name, field)
  }
  return [...fields.values()]
}

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

function table(schema: Schema, heading: string): string[] {
  const fields = fieldsOf(schemaOf(schema) as Json)
  if (fields.length === 0) return []
  return [
    '',
    `| ${heading} | type | |`,
    '|---|---|---|',
    ...fields.map(({ name, json, required }) => {
      const fallback = json.default === undefined || json.default === '' ? '' : ` (default ${code(json.default)})`
      const note = [required ? '' : 'optional', json.description ?? ''].filter((text) => text !== '').join('; ')
      return `| \`${name}\` | ${cell(typeOf(json) + fallback)} | ${cell(note)} |`
    }),
  ]
}

function rolesOf(method: string, path: string, route: Route): string {
  if (route.outside === true) return 'no key needed'
  return keyRoles.filter((role) => allows(role, method, path)).join(', ')
}

function routeLines(key: string, route: Route): string[] {
  const [method = '', path = ''] = key.split(' ')
  const answers = Object.entries(route.responses).flatMap(([status, answer]) => {
    if (typeof answer === 'string')
      return [
        '',
        `Answer ${status}: ${route.events === undefined ? `\`${answer}\`` : '[server-sent events](events.md)'}`,
      ]
    const about = answer.description === undefined ? '' : `: ${answer.description}`
    return ['', `Answer ${status}${about}`, ...table(answer, 'field')]
  })
  return [
    '',
    `### ${key}`,
    '',
    `${route.summary}.${route.description === undefined ? '' : ` ${route.description}`}`,
    '',
    `Roles: ${rolesOf(method, path, route)}.`,
    ...(route.params === undefined ? [] : table(route.params, 'in the path')),
    ...(route.query === undefined ? [] : table(route.query, 'in the query')),
    ...(route.body === undefined ? [] : table(route.body, 'in the body')),
    ...answers,
  ]
}

const groups = Object.entries(routeGroups) as [string, Readonly<Record<string, Route>>][]

export function httpPage(): string {
  const codes = Object.entries(problemStatuses)
  const statuses = [...new Set(codes.map(([, status]) => status))].toSorted((one, other) => one - other)
  return page(
    '# HTTP reference',
    '',
    generated,
    '',
    'Every route with its roles, its request and its responses. Paths are below `/api/v1` unless no key is needed. [The HTTP API](../http.md)',
    'explains keys, paging, waiting and idempotency, with examples. `GET /openapi.json` is the same description for programs.',
    '',
    '## Problems',
    '',
    'An error is `application/problem+json`. Programs decide by `code`.',
    ...table(problem, 'field'),
    '',
    '| status | codes |',
    '|---|---|',
    ...statuses.map((status) => {
      const own = codes.filter((one) => one[1] === status).map(([name]) => code(name))
      return `| ${status} | ${own.join(', ')} |`
    }),
    '',
    'Any other code of an invalid request has status 400, of a rejected one 409, of a temporary failure 503 with `Retry-After`. An',
    'unexpected error is 500 `internal`.',
    ...groups.flatMap(([title, routes]) => [
      '',
      `## ${title}`,
      ...Object.entries(routes).flatMap(([key, route]) => routeLines(key, route)),
    ]),
    '',
    '## Rows of the pipe',
    '',
    'A view checks each event and row of an ingest request by itself, and rejects a malformed row alone.',
    ...table(fileEvent.omit({ rows: true }), 'of an event'),
    ...table(fileRow, 'of a row (insert, update)'),
    ...table(deletedRow, 'of a row (delete)'),
  )
}

export function eventsPage(): string {
  const streams = groups
    .flatMap(([, routes]) => Object.entries(routes))
    .filter(([, route]) => route.events !== undefined)
  return page(
    '# Events reference',
    '',
    generated,
    '',
    'Every server-sent event of the API. `data:` is one JSON object with the fields below. `id:` is the position of the event: send the last',
    'one as `Last-Event-ID`, and the stream continues after it. The server sends a comment at least every 15 s.',
    ...streams.flatMap(([key, route]) => [
      '',
      `## ${key}`,
      '',
      `${route.summary}.${route.description === undefined ? '' : ` ${route.description}`}`,
      ...[...new Set(Object.values(route.events!))].flatMap((schema) => [
        '',
        `### ${namesOf(route.events!, schema)}`,
        ...table(schema, 'field'),
      ]),
    ]),
  )
}

function namesOf(events: NonNullable<Route['events']>, schema: Schema): string {
  const names = Object.keys(events).filter((name) => events[name] === schema)
  return names.map((name) => (name === '*' ? 'all other events' : name)).join(', ')
}
