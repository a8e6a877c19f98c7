/**
 * `Idempotency-Key`: a repeated request gets the first response and changes nothing; the same key with another body is
 * refused. kernel/access/idempotency.ts keeps the promise; this file reads the request and sends the response.
 */
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { openResponse, storeResponse } from '../kernel/access/idempotency.js'
import type { Kernel } from '../kernel/kernel.js'

/** `work` gets the id to create its row under, if the request has a key. */
export async function once<T extends object>(
  kernel: Kernel,
  request: FastifyRequest,
  reply: FastifyReply,
  projectId: string,
  work: (inboxId: string | undefined) => Promise<T>,
): Promise<T | FastifyReply> {
  const key = keyOf(request)
  if (key === undefined) return work(undefined)
  const scope = `${request.method} ${pathOf(request)}`
  const name = { projectId, scope, key }
  const opened = await openResponse(kernel.db, kernel.ids, name, request.body)
  if (opened.mismatch) {
    throw new Terminal('This Idempotency-Key was used with another body', {
      code: 'idempotency_key_reused',
      hint: 'use a new key for a new request',
    })
  }
  if (opened.stored !== undefined)
    return reply.code(opened.stored.status).header('idempotent-replay', 'true').send(opened.stored.body)
  const body = await work(opened.inboxId)
  const stored = await storeResponse(kernel.db, name, { status: reply.statusCode, body })
  return reply.code(stored.status).send(stored.body)
}

function keyOf(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key === 'string' && /^[\x21-\x7e]{1,200}$/.test(key)) return key
  throw new InvalidInput('Idempotency-Key must be 1 to 200 visible ASCII characters', { code: 'invalid_request' })
}

/** The route with its decoded parameters, because a URL can be spelled in several ways. */
function pathOf(request: FastifyRequest): string {
  const params = Object.values(request.params as Record<string, string>)
  return `${request.routeOptions.url ?? ''} ${JSON.stringify(params)}`
}
