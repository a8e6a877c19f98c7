/**
 * Derives the OpenAPI 3.1 description from the HTTP contract. Nothing about a route is written here. Loaded by the first
 * request for the description, because most servers are never asked.
 */
import { defined } from '@bellwether/base'
import { built, problem, problemType, routes, type Route, type RouteKey } from '@bellwether/protocol/http'
import { z } from 'zod'
import { apiBase } from '@bellwether/protocol'
import { sessionCookie, sessionHeader } from './sign-in/browser-sessions.js'

/** The JSON schema of a request or a response. */
export const schemaOf = (schema: z.ZodType): object => {
  const { $schema: _dialect, ...json } = z.toJSONSchema(built(schema), {
    io: 'input',
    unrepresentable: 'any',
    cycles: 'ref',
    reused: 'inline',
  })
  return json
}

const refused = { content: { [problemType]: { schema: schemaOf(problem) } } }

function responsesOf({ responses, events }: Route): object {
  const described = Object.entries(responses).map(([status, response]) => {
    if (typeof response !== 'string') {
      const content = { 'application/json': { schema: schemaOf(response) } }
      return [status, { description: response.description ?? 'Success', content }] as const
    }
    const schema =
      events === undefined
        ? { type: 'string' }
        : { description: 'the data of one event, by event name', properties: mapped(events) }
    return [status, { description: 'Success', content: { [response]: { schema } } }] as const
  })
  return {
    ...Object.fromEntries(described),
    '4XX': { description: 'The request was refused', ...refused },
    '5XX': { description: 'The server cannot handle the request now; Retry-After says when to try again', ...refused },
  }
}

const mapped = (schemas: Readonly<Record<string, z.ZodType>>) =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, schemaOf(schema)]))

function parametersOf(schema: z.ZodObject | undefined, place: 'path' | 'query'): object[] {
  if (schema === undefined) return []
  const { properties = {}, required = [] } = schemaOf(schema) as { properties?: object; required?: readonly string[] }
  return Object.entries(properties).map(([name, one]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    schema: one as object,
  }))
}

function operationOf(route: Route): object {
  const parameters = [...parametersOf(route.params, 'path'), ...parametersOf(route.query, 'query')]
  return {
    summary: route.summary,
    ...defined({ description: route.description }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined
      ? {}
      : { requestBody: { content: { 'application/json': { schema: schemaOf(route.body) } } } }),
    responses: responsesOf(route),
    ...(route.outside === true ? { security: [] } : {}),
  }
}

/** `served`: whether this server has the route; a part that it runs without has no routes. */
export function describeApi(served: (key: string) => boolean): Record<string, unknown> {
  const paths: Record<string, Record<string, object>> = {}
  for (const key of (Object.keys(routes) as RouteKey[]).filter(served)) {
    const route: Route = routes[key]
    const [method = '', path = ''] = key.split(' ')
    const url = `${route.outside === true ? '' : apiBase}${path}`.replaceAll(/:(\w+)/g, '{$1}')
    paths[url] = { ...paths[url], [method.toLowerCase()]: operationOf(route) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Bellwether', version: '1', description: 'Runs a fleet of AI agents so that every turn ends.' },
    components: {
      securitySchemes: {
        key: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        bearer: { type: 'http', scheme: 'bearer' },
        session: { type: 'apiKey', in: 'cookie', name: sessionCookie },
        page: { type: 'apiKey', in: 'header', name: sessionHeader },
      },
    },
    security: [{ key: [] }, { bearer: [] }, { session: [], page: [] }],
    paths,
  }
}
