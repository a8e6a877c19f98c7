/**
 * `Idempotency-Key`: the same request again gets the same answer and does nothing; another body with the same key is refused. The
 * promise itself is kept by kernel/answers.ts; this is its way to and from HTTP.
 */
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { storeResponse, openResponse } from '../kernel/access/idempotency.js'
import type { Kernel } from '../kernel/kernel.js'

export interface Answer {
  readonly status: number
  readonly body: object
}

/** `work` is given the id that it must be done under, when there is one. */
export async function once(
  kernel: Kernel,
  request: FastifyRequest,
  reply: FastifyReply,
  projectId: string,
  work: (inboxId: string | undefined) => Promise<Answer>,
): Promise<FastifyReply> {
  const key = keyOf(request)
  if (key === undefined) {
    const { status, body } = await work(undefined)
    return reply.code(status).send(body)
  }
  const scope = `${request.method} ${pathOf(request)}`
  const name = { projectId, scope, key }
  const opened = await openResponse(kernel.db, kernel.ids, name, request.body)
  if (opened.mismatch) {
    throw new Terminal('this idempotency key came with another body before', {
      code: 'idempotency_key_reused',
      hint: 'use a new key for a new request',
    })
  }
  if (opened.stored !== undefined)
    return reply.code(opened.stored.status).header('idempotent-replay', 'true').send(opened.stored.answer)
  const { status, body } = await work(opened.inboxId)
  const kept = await storeResponse(kernel.db, name, { status, answer: body })
  return reply.code(kept.status).send(kept.answer)
}

function keyOf(request: FastifyRequest): string | undefined {
  const told = request.headers['idempotency-key']
  if (told === undefined) return undefined
  if (typeof told === 'string' && /^[\x21-\x7e]{1,200}$/.test(told)) return told
  throw new InvalidInput('Idempotency-Key must be 1 to 200 visible ASCII characters', { code: 'invalid_request' })
}

/** What is asked for, by its decoded names and not by how the URL spelled them. */
function pathOf(request: FastifyRequest): string {
  const params = Object.values(request.params as Record<string, string>)
  return `${request.routeOptions.url ?? ''} ${JSON.stringify(params)}`
}
