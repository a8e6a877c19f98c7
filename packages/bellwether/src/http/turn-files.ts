/**
 * Lists the files that a turn may have changed, and says how certain that is. The deliverable claims files; a view knows when a file
 * changed; the kernel knows which other turns ran at that moment. What people and other programs did in it is not known. The search is
 * bounded, and asks only views that the key can reach.
 */
import { InvalidInput } from '@bellwether/protocol'
import type { TurnFile } from '@bellwether/protocol/http'
import type { Fusion } from '../view/fusion.js'
import { flag, none, root, type NodeId, type Tree } from '../view/tree/tree.js'
import type { View, ViewSource } from '../view/view.js'

export interface Span {
  /** Seconds since 1970. */
  readonly from: number
  readonly to: number
}

/** A turn that ran during the span, or during a part of it. */
export interface OtherTurn extends Span {
  readonly agentTurnId: string
}

export interface FilesQuery {
  readonly deliverable: unknown
  /** When the turn ran; undefined: it never started. */
  readonly span: Span | undefined
  readonly fusion: Fusion | undefined
  readonly reaches: (view: string) => boolean
  /** The other turns that ran during the span; called only if a file changed in it. */
  readonly otherTurns: (span: Span) => Promise<readonly OtherTurn[]>
}

interface Found {
  readonly file: Omit<TurnFile, 'certainty' | 'other_turns'>
  /** When it changed, if that was during the turn. Seconds since 1970. */
  readonly changedAt: number | undefined
}

// As many as a person reads.
const filesMax = 200
const otherTurnsMax = 10
// A few milliseconds. Directories without a change since the start are skipped.
const visitsMax = 20_000
const pathMax = 4_096
// The clocks of database and file server differ a little.
const clockSlackSeconds = 1

export async function filesOf(
  query: FilesQuery,
): Promise<{ readonly files: readonly TurnFile[]; readonly truncated: boolean }> {
  const { span, fusion, reaches } = query
  const views = [...(fusion?.views.values() ?? [])].filter((view) => reaches(view.name))
  const sources = views.flatMap((view) => [...view.sources.values()].map((source) => ({ view, source })))
  const ready = sources.filter(({ source }) => source.ready)
  const claims = claimed(query.deliverable)
  const found: Found[] = claims.paths.map((path) => lookedUp(path, ready, span))
  let { truncated } = claims
  const listed = new Set(found.map(({ file }) => file.path))
  const visits = { left: visitsMax }
  for (const { view, source } of span === undefined ? [] : ready) {
    for (const { node, changedAt } of changedWithin(source.tree, span!, visits)) {
      const path = source.tree.pathOf(node)
      if (listed.has(path)) continue
      if (found.length >= filesMax) {
        truncated = true
        break
      }
      found.push({ file: { path, how: 'changed', ...attributesOf(view, source, node) }, changedAt })
    }
  }
  const isSeen = found.some(({ changedAt }) => changedAt !== undefined)
  const others = isSeen && span !== undefined ? await query.otherTurns(span) : []
  return { files: found.map((one) => attributed(one, others)), truncated: truncated || visits.left <= 0 }
}

/** A claim that a view confirms is the most certain. An unclaimed change belongs to one of the turns that ran at that moment. */
function attributed({ file, changedAt }: Found, others: readonly OtherTurn[]): TurnFile {
  const isClaimed = file.how === 'claimed'
  if (changedAt === undefined) return { ...file, certainty: 'claimed', other_turns: [] }
  const running = others.filter(
    ({ from, to }) => from - clockSlackSeconds <= changedAt && changedAt <= to + clockSlackSeconds,
  )
  const certainty = isClaimed ? 'claimed_and_seen' : running.length === 0 ? 'only_turn' : 'several_turns'
  return { ...file, certainty, other_turns: running.slice(0, otherTurnsMax).map(({ agentTurnId }) => agentTurnId) }
}

function lookedUp(
  path: string,
  sources: readonly { readonly view: View; readonly source: ViewSource }[],
  span: Span | undefined,
): Found {
  const absolute = path.startsWith('/') ? path : `/${path.replace(/^\.\//, '')}`
  for (const { view, source } of sources) {
    const node = findIn(source.tree, absolute)
    if (node === none) continue
    const file = { path: absolute, how: 'claimed' as const, ...attributesOf(view, source, node) }
    return { file, changedAt: span && changeWithin(source.tree, node, span) }
  }
  const found = sources.length === 0 ? null : false
  const unknown = { view: null, source_id: null, size: null, modified_time: null, integrity_suspect: null }
  return { file: { path, how: 'claimed', kind: 'file', found, ...unknown }, changedAt: undefined }
}

/**
 * When a file changed during a span: by its mtime, or, if a tool set the mtime (`cp -p`, `tar`), by the time at which a sensor reported
 * the change. Only the last change of a file is known.
 */
function changeWithin(tree: Tree, node: NodeId, { from, to }: Span): number | undefined {
  const reportedAt = tree.lastUpdatedAt(node) / 1_000
  return [tree.modifiedTime(node), reportedAt].find((at) => at >= from && at <= to)
}

/** An agent may claim a text that is not a path. */
function findIn(tree: Tree, path: string): NodeId {
  try {
    return tree.find(path)
  } catch (error) {
    if (error instanceof InvalidInput) return none
    throw error
  }
}

function attributesOf(
  view: View,
  { id, tree }: ViewSource,
  node: NodeId,
): Omit<TurnFile, 'path' | 'how' | 'certainty' | 'other_turns'> {
  return {
    kind: 'file',
    view: view.name,
    source_id: id,
    found: true,
    size: tree.size(node),
    modified_time: tree.modifiedTime(node),
    integrity_suspect: tree.has(node, flag.integritySuspect),
  }
}

/** Files that changed within a span. A directory knows the newest time below it, so that unchanged directories are skipped. */
function* changedWithin(
  tree: Tree,
  span: Span,
  visits: { left: number },
): Generator<{ readonly node: NodeId; readonly changedAt: number }> {
  const open: NodeId[] = [root]
  for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
    for (const node of tree.unsorted(directory)) {
      visits.left -= 1
      if (visits.left <= 0) return
      if (tree.isDirectory(node)) {
        if (tree.newest(node) >= span.from) open.push(node)
        continue
      }
      const changedAt = changeWithin(tree, node, span)
      if (changedAt !== undefined) yield { node, changedAt }
    }
  }
}

/** `files` or `artifacts` of a deliverable or of its fields: texts, or objects with a `path`. Agents may write anything there. */
function claimed(deliverable: unknown): { readonly paths: readonly string[]; readonly truncated: boolean } {
  const content = isRecord(deliverable) ? deliverable : {}
  const fields = Array.isArray(content['fields']) ? (content['fields'] as unknown[]).filter(isRecord) : []
  const named = (name: unknown) => name === 'files' || name === 'artifacts'
  const lists = [
    ...Object.entries(content).filter(([name]) => named(name)),
    ...fields.filter((field) => named(field['name'])).map((field) => ['', field['value']] as const),
  ].map(([, value]) => (Array.isArray(value) ? (value as unknown[]) : [value]))
  const paths = new Set<string>()
  let truncated = false
  for (const item of lists.flat()) {
    const path = typeof item === 'string' ? item : isRecord(item) ? item['path'] : undefined
    if (typeof path !== 'string' || path === '' || path.length > pathMax || path.includes('\0')) continue
    if (paths.size < filesMax) paths.add(path)
    else truncated = true
  }
  return { paths: [...paths], truncated }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
