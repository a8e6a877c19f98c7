/**
 * Registers handlers by their key in the HTTP contract. Method, path, validation, status and types come from the
 * contract; a handler only returns its response.
 */
import type { IncomingMessage } from 'node:http'
import { linkAbort, type Clock, type LinkedAbort, type Log } from '@bellwether/base'
import { apiBase, InvalidInput, Terminal } from '@bellwether/protocol'
import {
  bodyBytes,
  eventStream,
  routes,
  type ResponseFrom,
  type BodyOf,
  type ParamsOf,
  type QueryOf,
  type Route,
  type RouteKey,
} from '@bellwether/protocol/http'
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import type { z } from 'zod'
import type { Kernel } from '../kernel/kernel.js'
import type { Fusion } from '../view/fusion.js'
import { mustBeLive } from './auth.js'
import type { Tail } from './tail.js'

export type RequestOf<Key extends RouteKey> = FastifyRequest<{
  Params: ParamsOf<Key>
  Querystring: QueryOf<Key>
  Body: BodyOf<Key>
}>
/** `reply` is for responses that are not one JSON value in memory: streams, hand-written JSON and stored responses. */
type Handlers = {
  readonly [Key in RouteKey]: (
    request: RequestOf<Key>,
    reply: FastifyReply,
  ) => ResponseFrom<Key> | FastifyReply | Promise<ResponseFrom<Key> | FastifyReply>
}

/** The lowest status of the contract is sent unless the handler sets another with `reply.code`. */
export type Api = <Key extends RouteKey>(key: Key, handler: Handlers[Key]) => void

export function apiOf(app: FastifyInstance): Api {
  return (key, handler) => {
    const route: Route = routes[key]
    const [method, path] = key.split(' ') as [HTTPMethods, string]
    const status = Math.min(...Object.keys(route.responses).map(Number))
    // A read that waited for seconds returns nothing to a key that was revoked during the wait. A write has taken effect.
    const mayWait = method === 'GET' && route.outside !== true
    app.route({
      method,
      url: route.outside === true ? path : `${apiBase}${path}`,
      bodyLimit: route.bodyBytesMax ?? bodyBytes.small,
      exposeHeadRoute: method === 'GET' && route.responses[status] !== eventStream,
      handler: (request, reply) => {
        if (route.params !== undefined) request.params = read(route.params, request.params, 'path')
        if (route.query !== undefined) request.query = read(route.query, request.query, 'query')
        // An absent body counts as an empty object: the error then names the missing keys.
        if (route.body !== undefined) request.body = read(route.body, request.body ?? {}, 'body')
        void reply.code(status)
        const response = (handler as (request: FastifyRequest, reply: FastifyReply) => unknown)(request, reply)
        return mayWait && response instanceof Promise ? response.then(whileLive(request, reply)) : response
      },
    })
  }
}

const whileLive =
  ({ grant }: FastifyRequest, reply: FastifyReply) =>
  (response: unknown): unknown => {
    if (grant !== undefined && !reply.sent) mustBeLive(grant)
    return response
  }

// An error repeats some of the client's own text.
const messageMax = 500
const keyMax = 200

function read(schema: z.ZodType, value: unknown, part: string): unknown {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const issues = result.error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `"${path.join('.').slice(0, keyMax)}": ${message}`,
  )
  throw new InvalidInput(`Invalid ${part}: ${issues.join('; ')}`.slice(0, messageMax), {
    code: 'invalid_request',
    hint: 'correct the request; GET /openapi.json describes it',
  })
}

export interface KernelParts {
  readonly kernel: Kernel
  readonly tail: Tail
  readonly clock: Clock
  readonly log: Log
  /** Ends long polls and streams when the server stops. */
  readonly signal: AbortSignal
}

export interface ViewParts {
  readonly fusion: Fusion
  /** Ends long polls and streams when the server stops. */
  readonly signal: AbortSignal
}

export function notFound(what: string): Terminal {
  return new Terminal(`${what} does not exist`, { code: 'not_found' })
}

export function noTurn(turn: string, project: string): Terminal {
  return new Terminal(`Turn "${turn}" in project "${project}" does not exist`, {
    code: 'not_found',
    hint: '`bellwether turn list` lists the turns of the project',
  })
}

/** A signal that aborts when the client disconnects or the server stops. Call `abort` when the request is done. */
export function linkClient({ socket }: IncomingMessage, stopping: AbortSignal): Pick<LinkedAbort, 'signal' | 'abort'> {
  const link = linkAbort(stopping)
  const disconnected = () => link.abort()
  socket.once('close', disconnected)
  if (socket.destroyed) disconnected()
  return {
    signal: link.signal,
    abort() {
      socket.off('close', disconnected)
      link.abort()
    },
  }
}
