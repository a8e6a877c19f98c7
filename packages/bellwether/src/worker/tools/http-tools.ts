/**
 * HTTP tools, declared in `tools.json`: each is one request to one declared origin. Always: arguments fill the path, the query and
 * the body, and never the origin; a secret comes from the environment and goes to that origin alone; an answer is read up to its
 * bound. A declaration that is wrong is told and left out; the others work.
 */
import { afterExecutions, InvalidInput } from '@bellwether/protocol'
import { z } from 'zod'
import { expandEnvironment } from '../../ports/tools/expand-environment.js'
import { httpRequest, type HttpResponse } from '../../ports/tools/http-request.js'
import { classifyStatus } from '../../ports/retry.js'
import { ToolFailure } from '../../ports/tools/tool-failure.js'
import { checkSchema, type Arguments } from './arguments.js'
import { timeoutMaxSeconds } from './define-tool.js'
import { ownName } from './names.js'
import { problemsOf, readDeclarations } from './read-file.js'
import { resultMaxBytes } from './result.js'
import type { CallContext, HostedTool } from './tool.js'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

const shape = z.strictObject({
  description: z.string().min(1).max(4_096),
  parameters: z.record(z.string(), z.unknown()).default({ type: 'object', properties: {} }),
  url: z.string().min(1).max(4_096),
  method: z.enum(methods).default('POST'),
  headers: z
    .record(z.string().regex(/^[A-Za-z0-9-]{1,100}$/, 'is not the name of a header'), z.string().max(8_192))
    .default({}),
  timeout_seconds: z.number().positive().max(timeoutMaxSeconds).optional(),
  idempotent: z.boolean().optional(),
  after_execution: z.enum(afterExecutions).optional(),
  response_bytes_max: z.number().int().min(1).max(resultMaxBytes).default(131_072),
  allow_private: z.boolean().default(false),
})
type Shape = z.output<typeof shape>
const keys = Object.keys(shape.shape)
const fileShape = z.strictObject({ tools: z.record(z.string(), z.unknown()) })

// More is a mistake: someone pasted the wrong file.
const toolsMax = 500

export interface HttpTools {
  readonly tools: readonly HostedTool[]
  readonly problems: readonly string[]
}

type Environment = Readonly<Record<string, string | undefined>>

/** Throws when the file is there and is no JSON, or not of this form. */
export function readHttpTools(path: string, env?: Environment): HttpTools {
  const declarations = readDeclarations(path)
  if (declarations === undefined) return { tools: [], problems: [] }
  const file = fileShape.safeParse(declarations.values)
  if (!file.success) {
    throw new InvalidInput(problemsOf(file.error, declarations, [], ['tools']).join('; '), {
      code: 'tools_file_bad',
      hint: '{"tools": {"NAME": {"description": …, "parameters": …, "url": …}}}',
    })
  }
  const tools: HostedTool[] = []
  const problems: string[] = []
  for (const [name, value] of Object.entries(file.data.tools).slice(0, toolsMax)) {
    const above = ['tools', name]
    const parsed = shape.safeParse(value)
    if (!parsed.success) {
      problems.push(...problemsOf(parsed.error, declarations, above, keys))
      continue
    }
    try {
      tools.push(httpTool(ownName(name), parsed.data, env))
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      const hint = error.hint === undefined ? '' : ` (${error.hint})`
      problems.push(`${declarations.at(above)}: ${name}: ${error.message}${hint}`)
    }
  }
  return { tools, problems }
}

const placeholder = /\{([A-Za-z0-9_]{1,64})\}/g

export function httpTool(name: string, declared: Shape, env?: Environment): HostedTool {
  checkSchema(declared.parameters)
  const template = expandEnvironment(declared.url, env)
  const origin = originOf(template)
  const headers = Object.fromEntries(
    Object.entries(declared.headers).map(([key, value]) => [key.toLowerCase(), header(expandEnvironment(value, env))]),
  )
  const { timeout_seconds, idempotent, after_execution } = declared
  return {
    name,
    description: declared.description,
    parameters: declared.parameters,
    ...(timeout_seconds === undefined ? {} : { timeoutSeconds: timeout_seconds }),
    // Reading may be repeated.
    idempotent: idempotent ?? declared.method === 'GET',
    ...(after_execution === undefined ? {} : { afterExecution: after_execution }),
    run: (args, context) => call(declared, template, origin, headers, args, context),
  }
}

/** The part that no argument may touch. */
function originOf(template: string): string {
  const before = /^https?:\/\/[^/?#]*/i.exec(template)?.[0]
  if (before === undefined || before.includes('{') || !URL.canParse(before)) {
    throw new InvalidInput('url must begin with http:// or https:// and a host that is written out', {
      code: 'invalid_url',
      hint: 'arguments may stand in the path and the query, as {name}',
    })
  }
  const { origin, username, password } = new URL(before)
  if (username !== '' || password !== '')
    throw new InvalidInput('url must not hold a user or a password: use headers', { code: 'invalid_url' })
  return origin
}

function header(value: string): string {
  if (/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) return value
  throw new InvalidInput('a header has characters that no header can have', { code: 'invalid_header' })
}

async function call(
  declared: Shape,
  template: string,
  origin: string,
  headers: Readonly<Record<string, string>>,
  args: Arguments,
  context: CallContext,
): Promise<unknown> {
  const { url, rest } = filled(template, origin, args)
  const inBody = declared.method === 'POST' || declared.method === 'PUT' || declared.method === 'PATCH'
  if (!inBody) for (const [key, value] of Object.entries(rest)) url.searchParams.append(key, textOf(value))
  const answer = await httpRequest({
    url,
    method: declared.method,
    headers: {
      accept: 'application/json, text/*;q=0.9, */*;q=0.1',
      // What is packed could unpack to anything.
      'accept-encoding': 'identity',
      'user-agent': 'bellwether',
      // The same for every try of one call: the other side can tell a repetition.
      'idempotency-key': context.toolCallId,
      ...(context.traceparent === null ? {} : { traceparent: context.traceparent }),
      ...(inBody ? { 'content-type': 'application/json' } : {}),
      ...headers,
    },
    ...(inBody ? { body: JSON.stringify(rest) } : {}),
    allowPrivate: declared.allow_private,
    responseMaxBytes: declared.response_bytes_max,
    signal: context.signal,
  })
  return resultOf(answer)
}

/** Arguments into the template; what has no place there is left for the query or the body. */
function filled(template: string, origin: string, args: Arguments): { url: URL; rest: Arguments } {
  const used = new Set<string>()
  const query = template.indexOf('?')
  const text = template.replace(placeholder, (_whole, name: string, at: number) => {
    used.add(name)
    const value = Object.hasOwn(args, name) ? args[name] : undefined
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean')
      throw new ToolFailure(`${name} is part of the address and must be a text or a number`, {
        code: 'invalid_arguments',
      })
    const filling = String(value).toWellFormed()
    if ((query === -1 || at < query) && climbs(filling))
      throw new ToolFailure(`${name} is part of the address and cannot be ${JSON.stringify(filling.slice(0, 40))}`, {
        code: 'invalid_arguments',
      })
    return encodeURIComponent(filling)
  })
  const url = new URL(text)
  const parts = (path: string) => path.split('/').length
  const shape = new URL(template.replace(placeholder, 'x'))
  // `..` in an argument would climb to another path of the same server.
  if (url.origin !== origin || parts(url.pathname) !== parts(shape.pathname))
    throw new ToolFailure('the arguments lead to another address than the declared one', { code: 'address_refused' })
  return { url, rest: Object.fromEntries(Object.entries(args).filter(([name]) => !used.has(name))) }
}

/** Nothing at all names the folder above; so do dots between slashes, once a server has decoded them. */
const climbs = (text: string) => text === '' || text.split(/[\\/]/).some((part) => /^\.{1,2}$/.test(part.trim()))

const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

const shownMaxChars = 2_000

function resultOf({ status, headers, body, truncated }: HttpResponse): unknown {
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity')
    throw new ToolFailure(`the answer is packed (${encoding.slice(0, 40)}), which was not asked for`, {
      code: 'packed_answer',
    })
  const type = headers['content-type'] ?? ''
  const text = body.toString('utf8')
  if (status < 200 || status >= 300) {
    const { inDoubt, retryable } = classifyStatus(status, retryAfterMs(headers['retry-after']))
    const shown = text.slice(0, shownMaxChars)
    throw new ToolFailure(`the server answered ${status}${shown === '' ? '' : `: ${shown}`}`, {
      code: `http_${status}`,
      inDoubt,
      retryable: retryable,
      afterMs: retryAfterMs(headers['retry-after']),
    })
  }
  // Under a key of its own: nothing that a stranger's server says stands where only a tool host may speak.
  return { status, body: bodyOf(text, type, truncated), ...(truncated ? { truncated: true } : {}) }
}

function bodyOf(text: string, type: string, truncated: boolean): unknown {
  if (truncated || !/[/+]json\b/i.test(type)) return text
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text // it says that it is JSON and is not: the model may still read it
  }
}

// A server that asks for more is as good as away.
const retryAfterMaxMs = 60_000

function retryAfterMs(value: string | undefined): number {
  const seconds = Number(value)
  return Number.isFinite(seconds) && seconds > 0 ? Math.min(retryAfterMaxMs, seconds * 1_000) : 0
}
