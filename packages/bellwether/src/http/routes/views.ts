/**
 * Questions to a view: tree, search, stats, blind spots, suspects, sessions, changes, comparisons, and the barrier. 503
 * while it cannot be read (V6.8, V5.3), except that scans on demand are always passed on. Reads only, aside from
 * suspects that somebody looked at and sessions that are ended by force.
 */
import { Terminal } from '@bellwether/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import {
  blindSpotLists,
  sessionList,
  sourceSize,
  suspectList,
  whyUnreadable,
  viewStats,
} from '../../view/queries/summaries.js'
import { selectSources } from '../../view/queries/source-selection.js'
import type { Fusion } from '../../view/fusion.js'
import type { ScanJob } from '../../view/sessions/scan-jobs.js'
import { runInSlices } from '../../view/ingest/serial-queue.js'
import { EntryWriter, prefixOf, treePieces, type RenderOptions } from '../../view/render/render.js'
import { changesSince, tokenNow } from '../../view/queries/change-tokens.js'
import { diff } from '../../view/tree/diff.js'
import { search } from '../../view/tree/search.js'
import { none, root } from '../../view/tree/tree.js'
import { entryAt, type View, type ViewSource } from '../../view/view.js'
import { mustReach } from '../auth.js'
import { read, secondsUpTo, whole, yes } from '../query.js'
import { sendPieces } from '../stream.js'
import { evidenceRoutes } from './evidence.js'
import { sentinelSaw } from './pipe.js'
import { viewEventRoutes } from './view-events.js'
import { viewListRoute } from './view-list.js'

interface Options {
  readonly fusion: Fusion
  readonly signal: AbortSignal
}

type OfView = FastifyRequest<{ Params: { view: string } }>

const path = z.string().min(1).max(4_096)
const choice = { source: z.string().max(1_024).optional(), best: z.string().max(40).optional() }
const waitMax = 25 // seconds; below the silence after which connections are cut
const treeQuery = z.object({
  ...choice,
  path: path.default('/'),
  recursive: yes,
  max_depth: whole(0, 10_000),
  only_path: yes,
  'force-real-time': yes,
  on_demand_scan: yes,
  wait: secondsUpTo(waitMax),
})
const searchQuery = z.object({
  ...choice,
  pattern: z.string().min(1).max(1_024),
  path: path.optional(),
  limit: whole(1, 1_000_000),
})
const statsQuery = z.object({ ...choice, path: path.optional() })
const changesQuery = z.object({ ...choice, since: z.string().max(32_768).optional(), limit: whole(1, 10_000) })
const syncQuery = z.object({ ...choice, wait: secondsUpTo(waitMax), scope: z.enum(['all', 'leader']).optional() })
const diffQuery = z.object({ left: z.string(), right: z.string(), limit: whole(1, 100_000) })
const suspectUpdates = z.looseObject({
  updates: z
    .array(z.looseObject({ path, mtime: z.number().finite().nullish(), current_mtime: z.number().finite().nullish() }))
    .max(20_000),
})

/** What may be asked, for the description of the API. */
export const viewQuestions = {
  choice: z.object(choice),
  tree: treeQuery,
  search: searchQuery,
  stats: statsQuery,
  changes: changesQuery,
  sync: syncQuery,
  diff: diffQuery,
  suspects: suspectUpdates,
}

const searchLimit = 10_000
const changesLimit = 1_000

export function viewRoutes(app: FastifyInstance, base: string, { fusion, signal }: Options): void {
  const { clock, health } = fusion
  const now = () => ({ wallMs: clock.wallMs(), monotonicMs: clock.monotonicMs() })
  const viewOf = (request: OfView): View => {
    mustReach(request.grant, request.params.view)
    return fusion.view(request.params.view)
  }
  const choose = (view: View, question: { readonly source?: string | undefined; readonly best?: string | undefined }) =>
    selectSources([...view.sources.values()], question, sourceSize)
  const readable = (view: View, sources: readonly ViewSource[]) => {
    const why = whyUnreadable(view, sources, health)
    if (why !== undefined) throw why
    return sources
  }

  app.get(`${base}/:view/tree`, async (request: OfView, reply) => {
    const view = viewOf(request)
    const query = read(treeQuery, request.query, 'query')
    const sources = choose(view, query)
    const asked = query['force-real-time'] === true || query.on_demand_scan === true
    if (!asked) readable(view, sources)
    else if (sources.length === 0) throw whyUnreadable(view, sources, health) ?? noSource()
    const recursive = query.recursive !== false
    const jobs = asked ? sources.map((source) => view.scan(source, query.path, recursive)) : []
    if (query.wait !== undefined && jobs.length > 0) await jobsEnd(view, jobs, query.wait, request)
    const options = { maxDepth: query.max_depth ?? (recursive ? Infinity : 1), onlyPath: query.only_path === true }
    return sources.length === 1
      ? sendTree(reply, sources[0]!, query.path, options, jobs[0])
      : sendForest(reply, sources, query.path, options, jobs)
  })

  app.get(`${base}/:view/jobs/:job`, async (request: FastifyRequest<{ Params: { view: string; job: string } }>) => {
    const view = viewOf(request)
    const job = view.jobs.get(request.params.job)
    if (job === undefined) throw new Terminal('there is no such job, or it ended long ago', { code: 'unknown_job' })
    return jobFacts(job)
  })

  app.get(`${base}/:view/search`, async (request: OfView, reply) => {
    const view = viewOf(request)
    const query = read(searchQuery, request.query, 'query')
    const sources = readable(view, choose(view, query))
    const starts = sources.map((source) => (query.path === undefined ? root : source.tree.find(query.path)))
    if (starts.every((node) => node === none)) entryAt(sources[0]!, query.path!)
    return sendPieces(reply, searchPieces(sources, starts, query.pattern, query.limit ?? searchLimit))
  })

  app.get(`${base}/:view/stats`, async (request: OfView) => {
    const view = viewOf(request)
    const query = read(statsQuery, request.query, 'query')
    const sources = readable(view, choose(view, query))
    const stats = viewStats(sources, now())
    if (query.path === undefined) return { ...stats, sessions: view.sessions.size }
    const source = sources[0]!
    const { files, directories, size } = source.tree.stats(entryAt(source, query.path))
    return {
      path: query.path,
      item_count: files + directories,
      total_files: files,
      total_directories: directories,
      total_size: size,
    }
  })

  app.get(`${base}/:view/blind-spots`, async (request: OfView) => {
    const view = viewOf(request)
    return blindSpotLists(readable(view, choose(view, read(z.object(choice), request.query, 'query'))))
  })

  app.get(`${base}/:view/suspect-list`, async (request: OfView) => {
    const view = viewOf(request)
    return suspectList(readable(view, choose(view, read(z.object(choice), request.query, 'query'))), now())
  })

  app.put(`${base}/:view/suspect-list`, async (request: OfView) => {
    const view = viewOf(request)
    const { updates } = read(suspectUpdates, request.body, 'list of suspects')
    const seen = updates.map((update) => ({ path: update.path, mtime: update.mtime ?? update.current_mtime }))
    return sentinelSaw(view, undefined, seen, clock)
  })

  app.get(`${base}/:view/sessions`, async (request: OfView) => {
    const sessions = sessionList(viewOf(request), now())
    return { sessions, count: sessions.length }
  })

  app.delete(
    `${base}/:view/sessions/:id`,
    async (request: FastifyRequest<{ Params: { view: string; id: string } }>) => {
      const view = viewOf(request)
      const session = view.sessions.get(request.params.id)
      if (session === undefined) throw new Terminal('there is no such session', { code: 'not_found' })
      view.end(session, 'ended by force')
      return { status: 'ok' }
    },
  )

  app.get(`${base}/:view/changes`, async (request: OfView) => {
    const view = viewOf(request)
    const query = read(changesQuery, request.query, 'query')
    const sources = readable(view, choose(view, query))
    if (query.since === undefined)
      return { fresh_instance: true, changes: [], token: tokenNow(sources, clock.wallMs()), more: false }
    return changesSince(sources, query.since, clock.wallMs(), query.limit ?? changesLimit)
  })

  app.get(`${base}/:view/diff`, async (request: OfView) => {
    const view = viewOf(request)
    const query = read(diffQuery, request.query, 'query')
    const [left] = readable(view, choose(view, { source: query.left }))
    const [right] = readable(view, choose(view, { source: query.right }))
    return { left: query.left, right: query.right, ...(await compare(left!, right!, query.limit ?? searchLimit)) }
  })

  const sync = async (request: OfView) => {
    const view = viewOf(request)
    const query = read(syncQuery, request.query, 'query')
    const over = new AbortController()
    const timeUp = clock.sleep((query.wait ?? 10) * 1_000, over.signal)
    const end = await view.sync(choose(view, query), query.scope ?? 'all', timeUp)
    over.abort()
    return { ...end, token: tokenNow(choose(view, query), clock.wallMs()) }
  }
  app.get(`${base}/:view/sync`, sync)
  app.post(`${base}/:view/sync`, sync)

  evidenceRoutes(app, base, fusion)

  viewEventRoutes(app, base, { fusion, signal })
  viewListRoute(app, base, fusion)

  async function jobsEnd(
    view: View,
    jobs: readonly ScanJob[],
    seconds: number,
    request: FastifyRequest,
  ): Promise<void> {
    const over = new AbortController()
    const end = () => over.abort()
    request.raw.socket.once('close', end)
    signal.addEventListener('abort', end, { once: true })
    await Promise.race([
      Promise.all(jobs.map((job) => view.jobEnd(job, over.signal))),
      clock.sleep(seconds * 1_000, over.signal),
    ])
    end()
    request.raw.socket.off('close', end)
    signal.removeEventListener('abort', end)
  }
}

const noSource = () => new Terminal('this view has no source', { code: 'unknown_source' })

type TreeOptions = Omit<RenderOptions, 'uriOf'>
const uriOf = (source: ViewSource) => (agent: string | undefined) =>
  agent === undefined ? undefined : source.uris.get(agent)

const jobFacts = (job: ScanJob) => ({
  job_id: job.id,
  job_pending: job.state === 'pending',
  job_state: job.state,
  path: job.path,
  source_id: job.sourceId,
  rows: job.rows,
  deleted: job.deleted,
  error: job.error ?? null,
})

function sendTree(
  reply: FastifyReply,
  source: ViewSource,
  wanted: string,
  options: TreeOptions,
  job: ScanJob | undefined,
) {
  const node = source.tree.find(wanted)
  // A path that nobody has seen yet may be what the scan is looking for.
  if (node === none && job?.state === 'pending') return reply.code(202).send(jobFacts(job))
  entryAt(source, wanted)
  const told = job === undefined ? { job_id: null, job_pending: false } : jobFacts(job)
  const { job_id: id, job_pending: pending } = told
  const tail = `"job_id":${JSON.stringify(id)},"job_pending":${pending},"source_id":${JSON.stringify(source.id)}`
  return sendPieces(reply, treePieces(source.tree, node, { ...options, uriOf: uriOf(source) }, tail))
}

function sendForest(
  reply: FastifyReply,
  sources: readonly ViewSource[],
  wanted: string,
  options: TreeOptions,
  jobs: readonly ScanJob[],
) {
  if (jobs.length === 0 && sources.every(({ tree }) => tree.find(wanted) === none)) entryAt(sources[0]!, wanted)
  const pending = jobs.some(({ state }) => state === 'pending')
  function* pieces(): Generator<Buffer> {
    yield Buffer.from(
      `{"path":${JSON.stringify(wanted)},"job_id":${JSON.stringify(jobs[0]?.id ?? null)},"job_pending":${pending},"members":{`,
    )
    for (const [at, source] of sources.entries()) {
      const node = source.tree.find(wanted)
      yield Buffer.from(`${at > 0 ? ',' : ''}${JSON.stringify(source.id)}:${node === none ? 'null' : ''}`)
      if (node !== none) yield* treePieces(source.tree, node, { ...options, uriOf: uriOf(source) })
    }
    yield Buffer.from('}}')
  }
  return sendPieces(reply, pieces())
}

const nodesAtOnce = 300 // one piece of a search's answer
const pieceBytes = nodesAtOnce * 400
const nothing = Buffer.alloc(0) // found nothing yet: others may have their turn

function* searchPieces(
  sources: readonly ViewSource[],
  starts: readonly number[],
  pattern: string,
  limit: number,
): Generator<Buffer> {
  let count = 0
  let truncated = false
  yield Buffer.from(`{"pattern":${JSON.stringify(pattern)},"results":[`)
  for (const [at, source] of sources.entries()) {
    const { tree } = source
    const under = starts[at]!
    if (under === none) continue
    const writer = new EntryWriter(tree, { onlyPath: false, uriOf: uriOf(source) }, 4_096)
    const tail = `,"source_id":${JSON.stringify(source.id)}}`
    for (const batch of search(tree, { pattern, under })) {
      for (let from = 0; from < batch.length && !truncated; from += nodesAtOnce) {
        for (const node of batch.slice(from, from + nodesAtOnce)) {
          if (count >= limit) {
            truncated = true
            break
          }
          if (!tree.exists(node)) continue
          if (count > 0) writer.out.text(',')
          writer.entry(node, prefixOf(tree, node === root ? root : tree.parentOf(node)))
          writer.out.text(tail)
          count += 1
        }
        if (writer.out.at > 0) yield writer.out.take(pieceBytes)
        writer.revalidate([])
      }
      if (truncated) break
      if (batch.length === 0) yield nothing
    }
  }
  yield Buffer.from(`],"count":${count},"truncated":${truncated}}`)
}

async function compare(left: ViewSource, right: ViewSource, limit: number) {
  // Both stand still meanwhile; always taken in the same order, so that two comparisons cannot wait for each other.
  const [first, second] = left.id <= right.id ? [left, right] : [right, left]
  const look = () => runInSlices(differences(left, right, limit))
  if (first === second) return { differences: [], truncated: false }
  return (await first.pipe.runExclusive(async () => second.pipe.runExclusive(look))) as Awaited<ReturnType<typeof look>>
}

function* differences(left: ViewSource, right: ViewSource, limit: number) {
  const found: { readonly path: string; readonly kind: string }[] = []
  for (const difference of diff(left.tree, right.tree)) {
    if (difference === undefined) {
      yield
      continue
    }
    if (found.length >= limit) return { differences: found, truncated: true }
    found.push({ path: difference.path, kind: difference.kind })
    if (found.length % 1_000 === 0) yield
  }
  return { differences: found, truncated: false }
}
