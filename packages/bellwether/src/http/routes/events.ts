/**
 * The events of a project as they happen, and what the watchdogs did. Always: each event once, in the outbox's order; the id of an
 * event is where a reader that lost its connection goes on; where retention has removed what lies between, the reader is told
 * `reset` and goes on from now. A reader that does not read is waited for and costs no memory.
 */
import { Retryable, Terminal } from '@bellwether/protocol'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import type { OutboxEvent } from '../../kernel/verbs/events.js'
import { listInterventions } from '../../kernel/reads/waits.js'
import { inProject, limitOf, text, token, wholeCursor, type Api, type KernelParts } from '../api.js'
import { mustBeUnlimited, mustReachProject } from '../roles.js'
import { openEventStream, type EventStreamOut } from '../sse.js'
import type { Following } from '../tail.js'

type Greeting = 'hello' | 'reset'

const kinds = ['task', 'state', 'step', 'command'] as const
const eventQuery = z.object({
  cursor: text(60).optional(),
  kind: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(z.enum(kinds)))
    .optional(),
  agent: token.optional(),
})

// Each is a connection, and a look at every event.
const followersMax = 256
const pageMax = 500
const pingMs = 15_000 // well below what proxies take for a dead connection
const awayMs = 1_000

const wire = ({ event_id, subject, kind, payload, agent_turn_id, created_at }: OutboxEvent) => ({
  event_id,
  subject,
  kind,
  payload,
  agent_turn_id,
  created_at,
})

export function eventRoutes(app: Api, parts: KernelParts): void {
  const { kernel, tail, clock, log } = parts
  let followers = 0

  const events = {
    params: inProject,
    querystring: eventQuery,
    summary: 'Events of a project (text/event-stream)',
    description:
      '`Last-Event-ID`, or `?cursor=`, goes on after that event; without it: from now on. `0:0` is the beginning.',
  }
  app.get('/projects/:project/events', { schema: events, exposeHeadRoute: false }, async (request, reply) => {
    const { params, query } = request
    if (followers >= followersMax)
      throw new Retryable('too many readers follow the events', { code: 'busy', afterMs: 5_000 })
    followers += 1
    let following: Following | undefined
    try {
      following = await tail.follow()
      const told = request.headers['last-event-id'] ?? query.cursor
      const last = typeof told === 'string' && told !== '' ? told : undefined
      const start = last === undefined ? 'hello' : await startOf(following, last)
      const fits = (event: OutboxEvent) =>
        event.project_id === params.project &&
        (query.kind === undefined || query.kind.includes(event.kind)) &&
        (query.agent === undefined || event.payload['agent_id'] === query.agent)
      reply.hijack()
      await follow(following, start, fits, reply)
    } catch (error) {
      if (!reply.sent) throw error
      log.error({ err: error, project: params.project }, 'a stream of events failed')
      reply.raw.destroy()
    } finally {
      following?.stop()
      followers -= 1
    }
  })

  async function follow(
    following: Following,
    start: Greeting | { readonly cursor: string },
    fits: (event: OutboxEvent) => boolean,
    reply: FastifyReply,
  ): Promise<void> {
    const out = openEventStream(reply.raw, parts.signal)
    let cursor = typeof start === 'string' ? await greet(out, start) : start.cursor
    let pingedMs = clock.monotonicMs()
    while (!out.signal.aborted) {
      const mark = following.mark()
      try {
        const page = await following.since(cursor, pageMax)
        for (const event of page) {
          if (out.signal.aborted) break
          if (fits(event)) await out.send({ id: event.cursor, event: event.kind, data: wire(event) })
          cursor = event.cursor
        }
        if (page.length === pageMax) continue
        await quiet(out, (signal) => following.next(mark, signal))
      } catch (error) {
        if (isReset(error)) cursor = await greet(out, 'reset')
        else if (error instanceof Retryable) await clock.sleep(awayMs, out.signal)
        else throw error
      }
      if (clock.monotonicMs() - pingedMs < pingMs) continue
      pingedMs = clock.monotonicMs()
      await out.ping(cursor)
    }
    out.end()
  }

  /** Tells a reader where it stands: at its start, or because what it had not read is gone. */
  async function greet(out: EventStreamOut, event: Greeting): Promise<string> {
    const cursor = await tail.now()
    await out.send({ id: cursor, event, data: { cursor } })
    return cursor
  }

  /** Until there is news, or it is time to show that the line is not dead. */
  async function quiet(out: EventStreamOut, news: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const over = new AbortController()
    const stop = () => over.abort()
    out.signal.addEventListener('abort', stop, { once: true })
    await Promise.race([news(over.signal), clock.sleep(pingMs, over.signal)])
    stop()
    out.signal.removeEventListener('abort', stop)
  }

  const interventions = {
    querystring: z.object({
      project: token.optional(),
      kind: text(100).optional(),
      cursor: wholeCursor,
      limit: limitOf(500, 100),
    }),
    summary: 'What the watchdogs did, newest first',
  }
  app.get('/watchdog/interventions', { schema: interventions }, ({ query, grant }) => {
    const projectId = query.project ?? grant.project
    if (projectId === undefined) mustBeUnlimited(grant)
    else mustReachProject(grant, projectId)
    return listInterventions(kernel.db, { projectId, kind: query.kind, before: query.cursor, limit: query.limit })
  })
}

const isReset = (error: unknown) => error instanceof Terminal && error.code === 'cursor_reset'

/** A cursor that is none is refused before the stream begins; one that is too old, or not of this past, is told by the stream. */
async function startOf(following: Following, cursor: string): Promise<Greeting | { readonly cursor: string }> {
  try {
    await following.check(cursor)
    return { cursor }
  } catch (error) {
    if (isReset(error)) return 'reset'
    throw error
  }
}
