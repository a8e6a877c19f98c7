/**
 * The API's description (OpenAPI 3.1): what each route declares of requests, and what the tables beside this file say of answers. Always:
 * every route is in it with its answers and its problems; a test walks all of them. Costs nothing until somebody asks.
 */
import type { SwaggerTransform } from '@fastify/swagger'
import { jsonSchemaTransform } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { base } from '../app.js'
import { problemType } from '../problem.js'
import { shape, type Docs, type RouteDoc } from './doc.js'
import { boardDocs, houseDocs, statusDocs } from './server-docs.js'
import { kernelDocs, workerDocs } from './kernel-docs.js'
import { pipeDocs, viewDocs } from './view-docs.js'

const inApi: Docs = { ...kernelDocs, ...workerDocs, ...houseDocs, ...boardDocs, ...viewDocs, ...pipeDocs }
const all = new Map<string, RouteDoc>([
  ...Object.entries(statusDocs),
  ...Object.entries(inApi).map(([route, doc]) => [route.replace(' ', ` ${base}`), doc] as const),
])

const problem = shape({
  type: z.string(),
  title: z.string(),
  status: z.number(),
  code: z.string().describe('decide by it'),
  detail: z.string().describe('for people'),
  hint: z.string().optional(),
  missing: z.array(z.string()).optional(),
})
const refused = { description: 'Refused', content: { [problemType]: { schema: problem } } }
const failed = { description: 'Cannot be done now; Retry-After says when to ask again', content: refused.content }

function answersOf({ answers }: RouteDoc): Record<string, unknown> {
  const told = Object.entries(answers).map(([status, answer]) => {
    const [type, schema] = typeof answer === 'string' ? [answer, z.string()] : ['application/json', answer]
    const description = (typeof answer === 'string' ? undefined : answer.description) ?? 'Done'
    return [status, { description, content: { [type]: { schema } } }] as const
  })
  return { ...Object.fromEntries(told), '4XX': refused, '5XX': failed }
}

export const describeRoute: SwaggerTransform = (document) => {
  const { route, schema, url } = document
  const doc = all.get(`${String(route.method)} ${url}`)
  // HEAD is what GET is; pages are for people.
  if (route.method === 'HEAD' || doc === undefined) return { schema: { hide: true }, url }
  const { hide: _hide, ...declared } = (schema ?? {}) as Record<string, unknown>
  const { answers: _answers, open, ...more } = doc
  const whole = { ...more, ...declared, response: answersOf(doc), ...(open === true ? { security: [] } : {}) }
  return jsonSchemaTransform({ ...document, schema: whole } as never) as ReturnType<SwaggerTransform>
}
