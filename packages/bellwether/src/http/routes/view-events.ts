/**
 * The changes of a view as they happen. Always: every change after the last one that the reader has, or `reset`; never a gap that looks
 * like none. A reader that does not read is waited for and costs no memory.
 */
import { Retryable } from '@bellwether/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { sourceSize } from '../../view/queries/summaries.js'
import { selectSources } from '../../view/queries/source-selection.js'
import type { Fusion } from '../../view/fusion.js'
import { changesSince, tokenNow } from '../../view/queries/change-tokens.js'
import type { View, ViewSource } from '../../view/view.js'
import { mustReach } from '../auth.js'
import { read } from '../query.js'
import { openEventStream } from '../sse.js'

interface Options {
  readonly fusion: Fusion
  readonly signal: AbortSignal
}

type OfView = FastifyRequest<{ Params: { view: string } }>

const choice = z.object({ source: z.string().max(1_024).optional(), best: z.string().max(40).optional() })
type Choice = z.output<typeof choice>

const changesLimit = 1_000
const pingMs = 15_000 // well below what proxies take for a dead connection
const followersMax = 256 // each is a connection and a look at the changes after every batch
const gatherMs = 20 // one answer for what comes within a moment, not one for each batch

export function viewEventRoutes(app: FastifyInstance, base: string, { fusion, signal }: Options): void {
  const { clock } = fusion
  const choose = (view: View, question: Choice) => selectSources([...view.sources.values()], question, sourceSize)

  let followers = 0
  app.get(`${base}/:view/events`, { exposeHeadRoute: false }, async (request: OfView, reply) => {
    mustReach(request.grant, request.params.view)
    const view = fusion.view(request.params.view)
    const query = read(choice, request.query, 'query')
    choose(view, query)
    if (followers >= followersMax)
      throw new Retryable('too many readers follow the views', { code: 'busy', afterMs: 5_000 })
    const last = request.headers['last-event-id']
    followers += 1
    reply.hijack()
    try {
      // A source may come and go while it is followed; without it there is nothing to tell.
      const followed = () => (query.source === undefined || view.sources.has(query.source) ? choose(view, query) : [])
      await follow(view, followed, typeof last === 'string' ? last : undefined, reply)
    } catch (error) {
      fusion.log.error({ err: error, view: view.name }, 'a stream of changes failed')
      reply.raw.destroy()
    } finally {
      followers -= 1
    }
  })

  /** Every change after the last one that the reader has, or `reset`: never a gap that looks like none. */
  async function follow(
    view: View,
    sources: () => readonly ViewSource[],
    last: string | undefined,
    reply: FastifyReply,
  ) {
    const out = openEventStream(reply.raw, signal)
    let token = last
    if (token === undefined) {
      token = tokenNow(sources(), clock.wallMs())
      await out.send({ id: token, event: 'hello', data: { token } })
    }
    while (!out.signal.aborted) {
      const seen = view.changeSignal.rings
      const found = changesSince(sources(), token, clock.wallMs(), changesLimit)
      token = found.token
      if (found.fresh_instance) await out.send({ id: token, event: 'reset', data: { token } })
      else if (found.changes.length > 0)
        await out.send({ id: token, event: 'changes', data: { changes: found.changes, token } })
      if (found.more) continue
      const rest = new AbortController()
      const stop = () => rest.abort()
      out.signal.addEventListener('abort', stop, { once: true })
      await Promise.race([
        view.changeSignal.wait(seen, rest.signal),
        clock.sleep(pingMs, rest.signal).then(() => out.ping()),
      ])
      stop()
      out.signal.removeEventListener('abort', stop)
      if (!out.signal.aborted) await clock.sleep(gatherMs, out.signal)
    }
    out.end()
  }
}
