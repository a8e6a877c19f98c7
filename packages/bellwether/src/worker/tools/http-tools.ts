/**
 * HTTP tools, declared in `tools.json`: each call is one request to the declared origin. Arguments fill the path, the query and the
 * body, never the origin; a secret comes from the environment and is sent to that origin only; the response is read up to a limit.
 * An invalid declaration is reported and skipped; the other tools work.
 */
import { defined, parseJson, textOrJson } from '@bellwether/base'
import { afterExecutions, InvalidInput } from '@bellwether/protocol'
import { z } from 'zod'
import { expandEnvironment } from '../../ports/tools/expand-environment.js'
import { httpRequest, type HttpResponse } from '../../ports/tools/http-request.js'
import { classifyStatus } from '../../ports/retry.js'
import { ToolFailure } from '../../ports/tools/tool-failure.js'
import { checkSchema, type Arguments } from './arguments.js'
import { approveMaxSeconds, timeoutMaxSeconds } from './define-tool.js'
import { readTools, type DeclaredTools } from './read-file.js'
import { resultMaxBytes } from './result.js'
import type { CallContext, HostedTool } from './tool.js'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

const shape = z.strictObject({
  description: z.string().min(1).max(4_096),
  parameters: z.record(z.string(), z.unknown()).default({ type: 'object', properties: {} }),
  url: z.string().min(1).max(4_096),
  method: z.enum(methods).default('POST'),
  headers: z
    .record(z.string().regex(/^[A-Za-z0-9-]{1,100}$/, 'is not a valid header name'), z.string().max(8_192))
    .default({}),
  timeout_seconds: z.number().positive().max(timeoutMaxSeconds).optional(),
  idempotent: z.boolean().optional(),
  after_execution: z.enum(afterExecutions).optional(),
  approve: z.literal('ask').optional(),
  approve_within_seconds: z.number().positive().max(approveMaxSeconds).optional(),
  response_bytes_max: z.number().int().min(1).max(resultMaxBytes).default(131_072),
  allow_private: z.boolean().default(false),
})
type Shape = z.output<typeof shape>
type Environment = Readonly<Record<string, string | undefined>>

/** Throws if the file exists and is not JSON of this form. */
export const readHttpTools = (path: string, env?: Environment): DeclaredTools =>
  readTools(path, {
    shape,
    form: '{"tools": {"NAME": {"description": …, "parameters": …, "url": …}}}',
    tool: (name, declared) => httpTool(name, declared, env),
  })

const placeholder = /\{([A-Za-z0-9_]{1,64})\}/g

function httpTool(name: string, declared: Shape, env?: Environment): HostedTool {
  const parameters = closed(declared.parameters)
  checkSchema(parameters)
  const template = expandEnvironment(declared.url, env)
  const origin = originOf(template)
  const headers = Object.fromEntries(
    Object.entries(declared.headers).map(([key, value]) => [key.toLowerCase(), header(expandEnvironment(value, env))]),
  )
  const { timeout_seconds, idempotent, after_execution, approve, approve_within_seconds } = declared
  return {
    name,
    description: declared.description,
    parameters,
    // A GET request may be repeated.
    idempotent: idempotent ?? declared.method === 'GET',
    ...defined({
      timeoutSeconds: timeout_seconds,
      afterExecution: after_execution,
      approve,
      approveWithinSeconds: approve_within_seconds,
    }),
    run: (args, context) => call(declared, template, origin, headers, args, context),
  }
}

/** A model may pass only declared arguments, unless the declaration itself allows others. */
function closed(parameters: Arguments): Arguments {
  if ('additionalProperties' in parameters || 'unevaluatedProperties' in parameters) return parameters
  const combined = ['$ref', 'allOf', 'anyOf', 'oneOf', 'if'].find((keyword) => keyword in parameters)
  if (combined !== undefined)
    throw new InvalidInput(`"parameters" uses "${combined}" and does not say whether other arguments are allowed`, {
      code: 'invalid_schema',
      hint: 'add "additionalProperties": false and list every argument in "properties", or add "additionalProperties": true',
    })
  return { ...parameters, additionalProperties: false }
}

/** The scheme and host of the URL, which arguments cannot change. */
function originOf(template: string): string {
  const before = /^https?:\/\/[^/?#]*/i.exec(template)?.[0]
  if (before === undefined || before.includes('{') || !URL.canParse(before)) {
    throw new InvalidInput('"url" must start with http:// or https:// and a literal host', {
      code: 'invalid_url',
      hint: 'use {name} only in the path and the query',
    })
  }
  const { origin, username, password } = new URL(before)
  if (username !== '' || password !== '')
    throw new InvalidInput('"url" must not contain a user or password. Use "headers"', { code: 'invalid_url' })
  return origin
}

function header(value: string): string {
  if (/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) return value
  throw new InvalidInput('a header value contains invalid characters', { code: 'invalid_header' })
}

async function call(
  declared: Shape,
  template: string,
  origin: string,
  headers: Readonly<Record<string, string>>,
  args: Arguments,
  context: CallContext,
): Promise<unknown> {
  const { url, rest } = fillUrl(template, origin, args)
  const inBody = declared.method === 'POST' || declared.method === 'PUT' || declared.method === 'PATCH'
  const names = new Set(url.searchParams.keys())
  if (!inBody)
    for (const [key, value] of Object.entries(rest)) {
      // Servers differ in which of two values they read.
      if (names.has(key))
        throw new ToolFailure(`"${key}" is a fixed part of the URL query and cannot be an argument`, {
          code: 'invalid_arguments',
        })
      url.searchParams.append(key, textOrJson(value))
    }
  const response = await httpRequest({
    url,
    method: declared.method,
    headers: {
      accept: 'application/json, text/*;q=0.9, */*;q=0.1',
      // A compressed response could expand to any size.
      'accept-encoding': 'identity',
      'user-agent': 'bellwether',
      // The same for every try of a call, so that the server can recognise a repetition.
      'idempotency-key': context.toolCallId,
      ...defined({ traceparent: context.traceparent ?? undefined }),
      ...(inBody ? { 'content-type': 'application/json' } : {}),
      ...headers,
    },
    ...(inBody ? { body: JSON.stringify(rest) } : {}),
    allowPrivate: declared.allow_private,
    responseMaxBytes: declared.response_bytes_max,
    signal: context.signal,
  })
  return resultOf(response)
}

/** Fills the URL template; the other arguments are left for the query or the body. */
function fillUrl(template: string, origin: string, args: Arguments): { url: URL; rest: Arguments } {
  const used = new Set<string>()
  const query = template.indexOf('?')
  const text = template.replace(placeholder, (_match, name: string, at: number) => {
    used.add(name)
    const value = Object.hasOwn(args, name) ? args[name] : undefined
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean')
      throw new ToolFailure(`"${name}" is part of the URL and must be a string or a number`, {
        code: 'invalid_arguments',
      })
    const filling = String(value).toWellFormed()
    if ((query === -1 || at < query) && climbs(filling))
      throw new ToolFailure(`"${name}" is part of the URL path and cannot be ${JSON.stringify(filling.slice(0, 40))}`, {
        code: 'invalid_arguments',
      })
    return encodeURIComponent(filling)
  })
  const url = new URL(text)
  const parts = (path: string) => path.split('/').length
  const shape = new URL(template.replace(placeholder, 'x'))
  // `..` in an argument would lead to another path of the same server.
  if (url.origin !== origin || parts(url.pathname) !== parts(shape.pathname))
    throw new ToolFailure('the arguments lead to a URL outside the declared one', { code: 'address_refused' })
  return { url, rest: Object.fromEntries(Object.entries(args).filter(([name]) => !used.has(name))) }
}

/** Whether the text names a parent path: it is empty, or it has dot segments after the server decodes it. */
const climbs = (text: string) => text === '' || text.split(/[\\/]/).some((part) => /^\.{1,2}$/.test(part.trim()))

const shownMaxChars = 2_000

function resultOf({ status, headers, body, truncated }: HttpResponse): unknown {
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity')
    throw new ToolFailure(
      `the response is compressed (${encoding.slice(0, 40)}), although the request did not allow it`,
      { code: 'compressed_response' },
    )
  const type = headers['content-type'] ?? ''
  const text = body.toString('utf8')
  if (status < 200 || status >= 300) {
    const { inDoubt, retryable } = classifyStatus(status, retryAfterMs(headers['retry-after']))
    const shown = text.slice(0, shownMaxChars)
    throw new ToolFailure(`the server responded with ${status}${shown === '' ? '' : `: ${shown}`}`, {
      code: `http_${status}`,
      inDoubt,
      retryable: retryable,
      afterMs: retryAfterMs(headers['retry-after']),
    })
  }
  // The body has its own key, so that a server cannot set `__cg_control` on the result.
  return { status, body: bodyOf(text, type, truncated), ...(truncated ? { truncated: true } : {}) }
}

function bodyOf(text: string, type: string, truncated: boolean): unknown {
  if (truncated || !/[/+]json\b/i.test(type)) return text
  // If the content type says JSON, but the body is not, the model can still read it.
  return parseJson(text) ?? text
}

// A longer Retry-After counts as an unavailable server.
const retryAfterMaxMs = 60_000

function retryAfterMs(value: string | undefined): number {
  const seconds = Number(value)
  return Number.isFinite(seconds) && seconds > 0 ? Math.min(retryAfterMaxMs, seconds * 1_000) : 0
}
