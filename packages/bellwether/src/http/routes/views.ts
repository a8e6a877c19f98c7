/**
 * Questions to a view: tree, search, stats, blind spots, suspects, sessions, changes, comparisons, barriers and evidence.
 * They respond with 503 while the view cannot be read (V6.8, V5.3), except that on-demand scans are always forwarded.
 */
import { defined } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { entryFieldNames, type EntryField, type SourceChoice } from '@bellwether/protocol/http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import {
  blindSpotLists,
  entryAt,
  sessionList,
  sourceSize,
  suspectList,
  whyUnreadable,
  viewStats,
} from '../../view/queries/summaries.js'
import { viewEvidence } from '../../view/queries/file-evidence.js'
import { selectSources } from '../../view/queries/source-selection.js'
import type { ScanJob } from '../../view/sessions/scan-jobs.js'
import { runInSlices } from '../../view/ingest/serial-queue.js'
import { EntryWriter, prefixOf, treePieces, type RenderOptions } from '../../view/render/render.js'
import { RenderedCache } from '../../view/render/rendered-cache.js'
import { changesSince, tokenNow } from '../../view/queries/change-tokens.js'
import { diff } from '../../view/tree/diff.js'
import { search } from '../../view/tree/search.js'
import { none, root, type Tree } from '../../view/tree/tree.js'
import type { View, ViewSource } from '../../view/view.js'
import { linkClient, notFound, type Api, type RequestOf, type ViewParts } from '../api.js'
import { mustBeLive } from '../auth.js'
import { sendBytes, sendPieces } from '../stream.js'
import { sentinelSaw } from './pipe.js'
import { viewEventRoutes } from './view-events.js'
import { viewListRoute } from './view-list.js'

const searchLimit = 10_000
const changesLimit = 1_000

export function viewRoutes(api: Api, parts: ViewParts): void {
  const { fusion, signal } = parts
  const { clock, health } = fusion
  const rendered = new RenderedCache()
  const now = () => ({ wallMs: clock.wallMs(), monotonicMs: clock.monotonicMs() })
  const viewOf = ({ params }: { readonly params: { readonly view: string } }): View => fusion.view(params.view)
  const choose = (view: View, question: SourceChoice) => selectSources([...view.sources.values()], question, sourceSize)
  const readable = (view: View, sources: readonly ViewSource[]) => {
    const why = whyUnreadable(view, sources, health)
    if (why !== undefined) throw why
    return sources
  }

  api('GET /views/:view/tree', async (request, reply) => {
    const view = viewOf(request)
    const { query } = request
    const sources = choose(view, query)
    const wantsScan = query['force-real-time'] === true || query.on_demand_scan === true
    const why = whyUnreadable(view, sources, health)
    if (why !== undefined && (!wantsScan || sources.length === 0)) throw why
    if (sources.length === 0) throw noSource()
    const recursive = query.recursive !== false
    const jobs = wantsScan ? sources.map((source) => view.scans.request(source, query.path, recursive)) : []
    if (query.wait !== undefined && jobs.length > 0) await jobsEnd(view, jobs, query.wait, request)
    if (why?.code === 'view_unavailable') {
      // The tree is not up to date: only a scan can answer.
      const unanswered = jobs.find(({ state }) => state !== 'done')
      if (unanswered?.state === 'pending') return reply.code(202).send(jobResponse(unanswered))
      if (unanswered !== undefined) throw scanFailed(unanswered)
    }
    const fields = query.only_path === true ? [] : (query.fields ?? entryFieldNames)
    const options = { maxDepth: query.max_depth ?? (recursive ? Infinity : 1), fields }
    return sources.length === 1
      ? sendTree(reply, rendered, sources[0]!, query.path, options, jobs[0])
      : sendForest(reply, sources, query.path, options, jobs)
  })

  api('GET /views/:view/jobs/:job', async (request) => {
    const view = viewOf(request)
    const job = view.scans.jobs.get(request.params.job)
    if (job === undefined)
      throw new Terminal(`Scan job ${request.params.job} does not exist, or it ended long ago`, {
        code: 'unknown_job',
        hint: 'start another scan; its response has the id of its job',
      })
    return jobResponse(job)
  })

  api('GET /views/:view/search', async (request, reply) => {
    const view = viewOf(request)
    const { query } = request
    const sources = readable(view, choose(view, query))
    const starts = sources.map((source) => (query.path === undefined ? root : source.tree.find(query.path)))
    if (starts.every((node) => node === none)) entryAt(sources[0]!, query.path!)
    return sendPieces(reply, searchPieces(sources, starts, query.pattern, query.limit ?? searchLimit))
  })

  api('GET /views/:view/stats', async (request) => {
    const view = viewOf(request)
    const { query } = request
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

  api('GET /views/:view/blind-spots', async (request) => {
    const view = viewOf(request)
    return blindSpotLists(readable(view, choose(view, request.query)))
  })

  api('GET /views/:view/suspect-list', async (request) => {
    const view = viewOf(request)
    return suspectList(readable(view, choose(view, request.query)), now())
  })

  api('PUT /views/:view/suspect-list', async (request) => {
    const view = viewOf(request)
    const { updates } = request.body
    const seen = updates.map(({ path, mtime, current_mtime, size }) => ({ path, mtime: mtime ?? current_mtime, size }))
    return sentinelSaw(view, undefined, seen, clock)
  })

  api('GET /views/:view/sessions', async (request) => {
    const sessions = sessionList(viewOf(request), now())
    return { sessions, count: sessions.length }
  })

  api('DELETE /views/:view/sessions/:id', async (request) => {
    const view = viewOf(request)
    const session = view.sessions.get(request.params.id)
    if (session === undefined) throw notFound(`Session ${request.params.id}`)
    view.end(session, 'ended by force')
    return { status: 'ok' }
  })

  api('GET /views/:view/changes', async (request) => {
    const view = viewOf(request)
    const { query } = request
    const sources = readable(view, choose(view, query))
    if (query.since === undefined)
      return { fresh_instance: true, changes: [], token: tokenNow(sources, clock.wallMs()), more: false }
    return changesSince(sources, query.since, clock.wallMs(), query.limit ?? changesLimit)
  })

  api('GET /views/:view/diff', async (request) => {
    const view = viewOf(request)
    const { query } = request
    const [left] = readable(view, choose(view, { source: query.left }))
    const [right] = readable(view, choose(view, { source: query.right }))
    return { left: query.left, right: query.right, ...(await compare(left!, right!, query.limit ?? searchLimit)) }
  })

  const sync = async (request: RequestOf<'GET /views/:view/sync' | 'POST /views/:view/sync'>) => {
    const view = viewOf(request)
    const { query } = request
    const time = new AbortController()
    const timeUp = clock.sleep((query.wait ?? 10) * 1_000, time.signal)
    const end = await view.sync(choose(view, query), query.scope ?? 'all', timeUp)
    time.abort()
    mustBeLive(request.grant)
    return { ...end, token: tokenNow(choose(view, query), clock.wallMs()) }
  }
  api('GET /views/:view/sync', sync)
  api('POST /views/:view/sync', sync)

  const evidenceOf = (view: View, sourceId: string | undefined, waitSeconds = 10) =>
    viewEvidence({ view, clock, waitMs: waitSeconds * 1_000, ...defined({ sourceId }) })

  api('GET /views/:view/evidence', async (request) => ({
    token: await evidenceOf(viewOf(request), request.query.source).changeToken(),
  }))

  // For a board whose files are on other hosts (hazard 21). Each path is scanned after a barrier; a file that no sensor
  // could check in time is `not_ready`.
  api('POST /views/:view/evidence', async (request) => {
    const { paths, since, source, wait } = request.body
    const files = await evidenceOf(viewOf(request), source, wait).checkFiles(paths, since)
    mustBeLive(request.grant)
    return {
      files: files.map(({ changedSince: changed_since, ...file }) => ({ ...file, ...defined({ changed_since }) })),
    }
  })

  viewEventRoutes(api, parts)
  viewListRoute(api, fusion)

  async function jobsEnd(
    view: View,
    jobs: readonly ScanJob[],
    seconds: number,
    { raw, grant }: Pick<FastifyRequest, 'raw' | 'grant'>,
  ): Promise<void> {
    const link = linkClient(raw, signal)
    await Promise.race([
      Promise.all(jobs.map((job) => view.scans.ended(job, link.signal))),
      clock.sleep(seconds * 1_000, link.signal),
    ])
    link.abort()
    mustBeLive(grant)
  }
}

const scanFailed = ({ error, path }: ScanJob) =>
  new Retryable(`Cannot scan ${JSON.stringify(path.slice(0, 200))}: ${error ?? 'the sensor did not answer in time'}`, {
    code: 'scan_failed',
    afterMs: 1_000,
    hint: 'This live view is unavailable because one of its pipes failed. See /api/v1/health/components.',
  })

/** The tree of the response: the view's, or what the sensor reported while the pipe was down. */
const treeOf = (source: ViewSource, job: ScanJob | undefined): Tree =>
  job?.state === 'done' && job.direct !== undefined ? job.direct.tree : source.tree

const noSource = () => new Terminal('The view has no source', { code: 'unknown_source' })

type TreeOptions = Omit<RenderOptions, 'uriOf'>
const uriOf = (source: ViewSource) => (agent: string | undefined) =>
  agent === undefined ? undefined : source.uris.get(agent)

const jobResponse = (job: ScanJob) => ({
  job_id: job.id,
  job_pending: job.state === 'pending',
  job_state: job.state,
  path: job.path,
  source_id: job.sourceId,
  rows: job.rows,
  deleted: job.deleted,
  direct: job.direct !== undefined,
  error: job.error ?? null,
})

const scanState = (job: ScanJob | undefined, pending: boolean, direct: boolean): string =>
  `"job_id":${JSON.stringify(job?.id ?? null)},"job_pending":${pending}${direct ? ',"direct":true' : ''}`

function sendTree(
  reply: FastifyReply,
  rendered: RenderedCache,
  source: ViewSource,
  wanted: string,
  options: TreeOptions,
  job: ScanJob | undefined,
) {
  const tree = treeOf(source, job)
  const node = tree.find(wanted)
  // The pending scan may find a path that the view does not have.
  if (node === none && job?.state === 'pending') return reply.code(202).send(jobResponse(job))
  entryAt({ tree }, wanted)
  const state = scanState(job, job?.state === 'pending', tree !== source.tree)
  const tail = `${state},"source_id":${JSON.stringify(source.id)}`
  const pieces = () => treePieces(tree, node, { ...options, uriOf: uriOf(source) }, tail)
  if (job !== undefined) return sendPieces(reply, pieces())
  const { maxDepth, fields } = options
  const key = [tree.id, maxDepth, fieldsKey(fields), wanted].join(' ')
  const cached = rendered.get(key, tree, node, wanted)
  if (cached !== undefined) return sendBytes(reply, cached)
  return sendPieces(reply, pieces(), (bytes) => rendered.put(key, tree, node, bytes))
}

/** The same for the same fields in any order. */
const fieldsKey = (fields: readonly EntryField[]): number =>
  fields.reduce((bits, name) => bits | (1 << entryFieldNames.indexOf(name)), 0)

function sendForest(
  reply: FastifyReply,
  sources: readonly ViewSource[],
  wanted: string,
  options: TreeOptions,
  jobs: readonly ScanJob[],
) {
  if (jobs.length === 0 && sources.every(({ tree }) => tree.find(wanted) === none)) entryAt(sources[0]!, wanted)
  const pending = jobs.some(({ state }) => state === 'pending')
  const trees = sources.map((source, at) => treeOf(source, jobs[at]))
  const direct = sources.some(({ tree }, at) => tree !== trees[at])
  function* pieces(): Generator<Buffer> {
    yield Buffer.from(`{"path":${JSON.stringify(wanted)},${scanState(jobs[0], pending, direct)},"members":{`)
    for (const [at, source] of sources.entries()) {
      const tree = trees[at]!
      const node = tree.find(wanted)
      yield Buffer.from(`${at > 0 ? ',' : ''}${JSON.stringify(source.id)}:${node === none ? 'null' : ''}`)
      if (node !== none) yield* treePieces(tree, node, { ...options, uriOf: uriOf(source) })
    }
    yield Buffer.from('}}')
  }
  return sendPieces(reply, pieces())
}

const nodesAtOnce = 300 // one piece of a search's response
const pieceBytes = nodesAtOnce * 400
const nothing = Buffer.alloc(0) // lets other requests run while a search finds nothing

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
    const writer = new EntryWriter(tree, { fields: entryFieldNames, uriOf: uriOf(source) }, 4_096)
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
  // Neither source changes during the comparison. The fixed order prevents a deadlock of two comparisons.
  const [first, second] = left.id <= right.id ? [left, right] : [right, left]
  const compare = () => runInSlices(differences(left, right, limit))
  if (first === second) return { differences: [], truncated: false }
  return (await first.pipe.runExclusive(async () => second.pipe.runExclusive(compare))) as Awaited<
    ReturnType<typeof compare>
  >
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
