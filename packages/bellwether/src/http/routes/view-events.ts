/**
 * Streams the changes of a view. A reader gets every change after its token, or `reset` if the token is too old; a gap is
 * never silent.
 */
import { selectSources } from '../../view/queries/source-selection.js'
import { changesSince, tokenNow } from '../../view/queries/change-tokens.js'
import { sourceSize } from '../../view/queries/summaries.js'
import type { Api, RequestOf, ViewParts } from '../api.js'
import { serveStream, type Stream } from '../sse.js'

const changesLimit = 1_000
const gatherMs = 20 // one event for the changes of several batches

export function viewEventRoutes(api: Api, { fusion, signal }: ViewParts): void {
  const { clock, log } = fusion
  const serve = serveStream('changes of a view', { clock, log, signal })

  api('GET /views/:view/events', (request, reply) => serve(reply, () => streamOf(request)))

  function streamOf({ params, query, headers }: RequestOf<'GET /views/:view/events'>): Stream {
    const view = fusion.view(params.view)
    const choose = () => selectSources([...view.sources.values()], query, sourceSize)
    choose()
    // A source may disappear while it is followed: then there are no changes to send.
    const sources = () => (query.source === undefined || view.sources.has(query.source) ? choose() : [])
    const last = headers['last-event-id']
    let token = typeof last === 'string' ? last : undefined
    let rings = 0
    return {
      async next() {
        if (token === undefined) {
          token = tokenNow(sources(), clock.wallMs())
          return { events: [{ id: token, event: 'hello', data: { token } }], more: true }
        }
        rings = view.changeSignal.rings
        const found = changesSince(sources(), token, clock.wallMs(), changesLimit)
        token = found.token
        const at = { id: token, data: { token } }
        if (found.fresh_instance) return { events: [{ ...at, event: 'reset' }], more: found.more }
        const data = { changes: found.changes, token }
        return { events: found.changes.length === 0 ? [] : [{ id: token, event: 'changes', data }], more: found.more }
      },
      async wait(quiet) {
        await view.changeSignal.wait(rings, quiet)
        await clock.sleep(gatherMs, quiet)
      },
    }
  }
}
