/** What the routes share: the types of a route with zod schemas, the parts that they are made of, and small schemas. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock, Log } from '@bellwether/base'
import { cardTypes, isToken, Terminal } from '@bellwether/protocol'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { Kernel } from '../kernel/kernel.js'
import type { Tail } from './tail.js'

export type Api = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, ZodTypeProvider>

export interface KernelParts {
  readonly kernel: Kernel
  readonly tail: Tail
  readonly clock: Clock
  readonly log: Log
  /** Ends long waits and streams when the server stops. */
  readonly signal: AbortSignal
}

const name = z.string().refine(isToken, 'must be 1 to 120 of the characters a-z, 0-9, _ and -')
/** Ids that others minted: bounded, and nothing that PostgreSQL cannot store. */
export const text = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine((value) => !value.includes('\0') && value.isWellFormed(), 'must be text without NUL and half characters')
export const id = text(500)
export const words = z
  .string()
  .max(1_000_000)
  .refine((value) => !value.includes('\0') && value.isWellFormed(), 'must be text without NUL and half characters')
export const token = name
export const inProject = z.object({ project: name })
export const limitOf = (max: number, fallback: number) =>
  z
    .string()
    .regex(/^\d{1,6}$/, 'must be a whole number')
    .default(String(fallback))
    .transform(Number)
    .pipe(z.number().min(1).max(max))
export const wholeCursor = z
  .string()
  .regex(/^\d{1,15}$/, 'must be a cursor that was answered before')
  .transform(Number)
  .optional()
export const secondsMax = (max: number) => z.number().min(0).max(max)

// Long waits stay below the 60 s after which proxies, and we, cut a silent connection.
export const waitMaxSeconds = 50

export const fieldSpec = z.strictObject({
  name: text(200),
  description: words.optional(),
  required: z.boolean().optional(),
  type: z.string().max(40).optional(),
})

export const newCard = z.strictObject({
  card_id: z.uuid().optional(),
  type: z.enum(cardTypes),
  role: z.string().min(1).max(40).optional(),
  content: z.unknown(),
  metadata: z.record(z.string(), z.unknown()).optional(),
})

export const cardOf = (
  card: Omit<z.output<typeof newCard>, 'type'> & { readonly type: (typeof cardTypes)[number] },
) => ({
  type: card.type,
  content: card.content,
  ...(card.card_id === undefined ? {} : { cardId: card.card_id }),
  ...(card.role === undefined ? {} : { role: card.role }),
  ...(card.metadata === undefined ? {} : { metadata: card.metadata }),
})

export function notFound(what: string): Terminal {
  return new Terminal(`there is no ${what}`, { code: 'not_found' })
}

/** A waiting client that went away fires it, and so does a server that stops. */
export function whileAsked(
  { socket }: IncomingMessage,
  stopping: AbortSignal,
): { signal: AbortSignal; done: () => void } {
  const over = new AbortController()
  const end = () => over.abort()
  socket.once('close', end)
  stopping.addEventListener('abort', end, { once: true })
  if (stopping.aborted || socket.destroyed) end()
  return {
    signal: over.signal,
    done() {
      end()
      socket.off('close', end)
      stopping.removeEventListener('abort', end)
    },
  }
}
