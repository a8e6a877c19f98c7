/**
 * The event stream of a project, and the list of watchdog interventions. Each event is sent once, in the outbox's order.
 * If retention removed events after a reader's cursor, the reader gets `reset` and continues from now.
 */
import { Retryable, Terminal } from '@bellwether/protocol'
import { listInterventions } from '../../kernel/reads/waits.js'
import type { OutboxEvent } from '../../kernel/verbs/events.js'
import type { Api, KernelParts, RequestOf } from '../api.js'
import { mustBeUnlimited, mustReachProject } from '../roles.js'
import { serveStream, type Stream } from '../sse.js'

const pageMax = 500
const retryMs = 1_000 // while the database is unavailable

type Events = 'GET /projects/:project/events'

export function eventRoutes(api: Api, parts: KernelParts): void {
  const { kernel, tail, clock } = parts
  const serve = serveStream('events of a project', parts)

  api('GET /projects/:project/events', (request, reply) => serve(reply, () => streamOf(request)))

  async function streamOf({ params, query, headers }: RequestOf<Events>): Promise<Stream> {
    const follower = await tail.follow()
    try {
      const start = headers['last-event-id'] ?? query.cursor
      let cursor = typeof start === 'string' && start !== '' ? start : ''
      let position: 'hello' | 'reset' | undefined = 'hello'
      if (cursor !== '') position = (await isReset(follower.check(cursor))) ? 'reset' : undefined
      let mark = 0
      const matches = (event: OutboxEvent) =>
        event.project_id === params.project &&
        (query.kind === undefined || query.kind.includes(event.kind)) &&
        (query.agent === undefined || event.payload['agent_id'] === query.agent)
      return {
        async next(signal) {
          if (position !== undefined) {
            const event = position
            position = undefined
            cursor = await tail.now()
            return { events: [{ id: cursor, event, data: { cursor } }], more: true }
          }
          mark = follower.mark()
          try {
            const page = await follower.since(cursor, pageMax)
            cursor = page.at(-1)?.cursor ?? cursor
            return { events: page.filter(matches).map(wire), more: page.length === pageMax }
          } catch (error) {
            if (isCursorReset(error)) position = 'reset'
            else if (error instanceof Retryable) await clock.sleep(retryMs, signal)
            else throw error
            return { events: [], more: true }
          }
        },
        wait: (signal) => follower.next(mark, signal),
        get position() {
          return cursor
        },
        close: () => follower.stop(),
      }
    } catch (error) {
      follower.stop()
      throw error
    }
  }

  api('GET /watchdog/interventions', ({ query, grant }) => {
    const projectId = query.project ?? grant.project
    if (projectId === undefined) mustBeUnlimited(grant)
    else mustReachProject(grant, projectId)
    return listInterventions(kernel.db, { projectId, kind: query.kind, before: query.cursor, limit: query.limit })
  })
}

const wire = ({ cursor, event_id, subject, kind, payload, agent_turn_id, created_at }: OutboxEvent) => ({
  id: cursor,
  event: kind,
  data: { event_id, subject, kind, payload, agent_turn_id, created_at },
})

const isCursorReset = (error: unknown) => error instanceof Terminal && error.code === 'cursor_reset'

/** An invalid cursor is refused before the stream starts; a cursor that is too old, or ahead of the database, resets it. */
async function isReset(check: Promise<void>): Promise<boolean> {
  try {
    await check
    return false
  } catch (error) {
    if (isCursorReset(error)) return true
    throw error
  }
}
