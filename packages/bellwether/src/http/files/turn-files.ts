/**
 * Lists the files that a turn may have changed, and says how certain that is. The deliverable claims files; a view knows when a file
 * changed; the kernel knows which turns worked at that moment and which only waited for a person. What people and other programs did in it
 * is not known. The search is bounded, and asks only views that the key can reach.
 */
import { isObject, objectOf } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { TurnFile } from '@bellwether/protocol/http'
import type { Fusion } from '../../view/fusion.js'
import { flag, none, root, type NodeId, type Tree } from '../../view/tree/tree.js'
import type { View, ViewSource } from '../../view/view.js'

export interface Span {
  /** Seconds since 1970. */
  readonly from: number
  readonly to: number
}

/** A turn that ran during the span, or during a part of it. */
interface OtherTurn extends Span {
  readonly agentTurnId: string
  /** When it only waited for people: it changed nothing then. */
  readonly idle: readonly Span[]
}

interface TurnsDuring {
  /** When the turn itself only waited for people. */
  readonly idle: readonly Span[]
  readonly others: readonly OtherTurn[]
}

export interface FilesQuery {
  readonly deliverable: unknown
  /** When the turn ran; undefined: it never started. */
  readonly span: Span | undefined
  readonly fusion: Fusion | undefined
  readonly reaches: (view: string) => boolean
  /** What ran during the span; called only if a file changed in it. */
  readonly turnsDuring: (span: Span) => Promise<TurnsDuring>
  /** What git knows, if the turn worked in a git worktree: no view shows it, and no other turn works there. */
  readonly inWorktree?: readonly { readonly path: string; readonly how: 'changed' | 'deleted' }[] | undefined
}

interface Found {
  readonly file: Omit<TurnFile, 'certainty' | 'other_turns'>
  /** When it changed during the turn; empty: no view saw that. Seconds since 1970. */
  readonly changedAt: readonly number[]
}

type ChangeTimes = ReadonlyMap<NodeId, readonly number[]>

// As many as a person reads.
const filesMax = 200
const otherTurnsMax = 10
// A few milliseconds. Directories without a change since the start are skipped.
const visitsMax = 20_000
const pathMax = 4_096
// The clocks of database and file server differ a little.
const clockSlackSeconds = 1
// Moments of one file that are compared with other turns. One is enough to be certain.
const changesPerFileMax = 16

export async function filesOf(
  query: FilesQuery,
): Promise<{ readonly files: readonly TurnFile[]; readonly truncated: boolean }> {
  const { span, fusion, reaches, inWorktree } = query
  if (inWorktree !== undefined) return worktreeFiles(claimed(query.deliverable), inWorktree)
  const views = [...(fusion?.views.values() ?? [])].filter((view) => reaches(view.name))
  const claims = claimed(query.deliverable)
  const isChanged = span !== undefined && hasChanges(readySources(views, span), claims.paths, span)
  const during: TurnsDuring = isChanged ? await query.turnsDuring(span) : { idle: [], others: [] }
  // The times name entries by number, which is valid until the next pause.
  const ready = readySources(views, span)
  /** The moments at which the turn worked. */
  const whileWorking = (changedAt: readonly number[]) => changedAt.filter((at) => !isIdleAt(at, during.idle))
  const found: Found[] = claims.paths.map((path) => {
    const { file, changedAt } = lookedUp(path, ready, span)
    return { file, changedAt: whileWorking(changedAt) }
  })
  let { truncated } = claims
  const listed = new Set(found.map(({ file }) => file.path))
  const visits = { left: visitsMax }
  for (const { view, source, seen } of span === undefined ? [] : ready) {
    for (const { node, changedAt: all } of changedWithin(source.tree, seen, span!, visits)) {
      const path = source.tree.pathOf(node)
      const changedAt = listed.has(path) ? [] : whileWorking(all)
      if (changedAt.length === 0) continue
      if (found.length >= filesMax) {
        truncated = true
        break
      }
      found.push({ file: { path, how: 'changed', ...attributesOf(view, source, node) }, changedAt })
    }
    for (const { path, deletedAt } of deletedWithin(source, span!)) {
      const changedAt = listed.has(path) ? [] : whileWorking([deletedAt])
      if (changedAt.length === 0) continue
      if (found.length >= filesMax) {
        truncated = true
        break
      }
      const file = { ...unknownFile(path, 'deleted'), view: view.name, source_id: source.id, found: false }
      found.push({ file, changedAt })
    }
  }
  const files = found.map((one) => attributed(one, during.others))
  return { files, truncated: truncated || visits.left <= 0 }
}

/**
 * A claim that a view confirms is the most certain. An unclaimed change belongs to one of the turns that ran at that moment; of several
 * changes the one with the fewest other turns says most.
 */
function attributed({ file, changedAt }: Found, others: readonly OtherTurn[]): TurnFile {
  const isClaimed = file.how === 'claimed'
  const runningAt = (at: number) =>
    others.filter(
      ({ from, to, idle }) => from - clockSlackSeconds <= at && at <= to + clockSlackSeconds && !isIdleAt(at, idle),
    )
  const [running] = changedAt.map(runningAt).toSorted((one, other) => one.length - other.length)
  if (running === undefined) return { ...file, certainty: 'claimed', other_turns: [] }
  const certainty = isClaimed ? 'claimed_and_seen' : running.length === 0 ? 'only_turn' : 'several_turns'
  return { ...file, certainty, other_turns: running.slice(0, otherTurnsMax).map(({ agentTurnId }) => agentTurnId) }
}

const isIdleAt = (at: number, idle: readonly Span[]) =>
  idle.some(({ from, to }) => from + clockSlackSeconds < at && at < to - clockSlackSeconds)

interface ReadySource {
  readonly view: View
  readonly source: ViewSource
  readonly seen: ChangeTimes
}

function readySources(views: readonly View[], span: Span | undefined): readonly ReadySource[] {
  const sources = views.flatMap((view) => [...view.sources.values()].map((source) => ({ view, source })))
  return sources
    .filter(({ source }) => source.ready)
    .map((one) => ({ ...one, seen: span === undefined ? new Map() : timesSeen(one.source.tree, span) }))
}

/** Whether a view saw any file change during the span. Stops at the first. */
function hasChanges(sources: readonly ReadySource[], paths: readonly string[], span: Span): boolean {
  const hasAny = (changes: Generator) => changes.next().done !== true
  return (
    paths.some((path) => lookedUp(path, sources, span).changedAt.length > 0) ||
    sources.some(
      ({ source, seen }) =>
        hasAny(changedWithin(source.tree, seen, span, { left: visitsMax })) || hasAny(deletedWithin(source, span)),
    )
  )
}

function lookedUp(path: string, sources: readonly ReadySource[], span: Span | undefined): Found {
  const absolute = path.startsWith('/') ? path : `/${path.replace(/^\.\//, '')}`
  for (const { view, source, seen } of sources) {
    const node = findIn(source.tree, absolute)
    if (node === none) continue
    const file = { path: absolute, how: 'claimed' as const, ...attributesOf(view, source, node) }
    return { file, changedAt: span === undefined ? [] : changesOf(source.tree, seen, node, span) }
  }
  for (const { view, source } of sources) {
    const deletedAt = (source.pipe.state.tombstones.get(absolute)?.seenAt ?? NaN) / 1_000
    if (span === undefined || !(deletedAt >= span.from && deletedAt <= span.to)) continue
    const file = { ...unknownFile(absolute, 'claimed'), view: view.name, source_id: source.id, found: false }
    return { file, changedAt: [deletedAt] }
  }
  const found = sources.length === 0 ? null : false
  return { file: { ...unknownFile(path, 'claimed'), found }, changedAt: [] }
}

function unknownFile(path: string, how: TurnFile['how']) {
  const unknown = { view: null, source_id: null, size: null, modified_time: null, integrity_suspect: null }
  return { path, how, kind: 'file' as const, ...unknown }
}

/** The files that git lists, and the claimed ones that it does not. */
function worktreeFiles(claims: ReturnType<typeof claimed>, changed: NonNullable<FilesQuery['inWorktree']>) {
  const names = new Set(claims.paths)
  const unseen = claims.paths.filter((path) => !changed.some((file) => file.path === path))
  const files: TurnFile[] = [
    ...changed.map(({ path, how }) => {
      const certainty = names.has(path) ? ('claimed_and_seen' as const) : ('only_turn' as const)
      return { ...unknownFile(path, how), found: how === 'changed', certainty, other_turns: [] }
    }),
    ...unseen.map((path) => ({
      ...unknownFile(path, 'claimed'),
      found: null,
      certainty: 'claimed' as const,
      other_turns: [],
    })),
  ]
  return { files: files.slice(0, filesMax), truncated: claims.truncated || files.length > filesMax }
}

/**
 * Files that existed before the span and were deleted in it; the deletion of a directory is one path. Temporary files of the turn are not
 * listed. A view remembers deletions for a limited time, so that those of old turns are missing.
 */
function* deletedWithin({ pipe }: ViewSource, { from, to }: Span) {
  for (const [path, { seenAt, createdTime }] of pipe.state.tombstones.seenWithin(from * 1_000, to * 1_000))
    if (createdTime !== undefined && createdTime < from) yield { path, deletedAt: seenAt / 1_000 }
}

/** When sensors saw each file change during a span: recent changes only, but not only the last one of a file. */
function timesSeen(tree: Tree, { from, to }: Span): ChangeTimes {
  const times = new Map<NodeId, number[]>()
  for (const [node, seenAt] of tree.filesSeenWithin(from * 1_000, to * 1_000)) {
    const seen = times.get(node)
    if (seen === undefined) times.set(node, [seenAt / 1_000])
    // Newest first; a file that is being written changes many times per second.
    else if (seen.length < changesPerFileMax && seen.at(-1)! - seenAt / 1_000 > clockSlackSeconds)
      seen.push(seenAt / 1_000)
  }
  return times
}

/**
 * When a file changed during a span: by its mtime, which is exact, and by the times at which sensors saw it change, which include files
 * whose mtime a tool set (`cp -p`, `tar`) and files that changed again after the span. Of older changes only the last one is known.
 */
function changesOf(tree: Tree, seen: ChangeTimes, node: NodeId, { from, to }: Span): readonly number[] {
  const within = (at: number) => at >= from && at <= to
  const mtime = [tree.modifiedTime(node)].filter(within)
  return [...mtime, ...(seen.get(node) ?? [tree.lastUpdatedAt(node) / 1_000].filter(within))]
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
  seen: ChangeTimes,
  span: Span,
  visits: { left: number },
): Generator<{ readonly node: NodeId; readonly changedAt: readonly number[] }> {
  for (const node of seen.keys()) yield { node, changedAt: changesOf(tree, seen, node, span) }
  const open: NodeId[] = [root]
  for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
    for (const node of tree.unsorted(directory)) {
      visits.left -= 1
      if (visits.left <= 0) return
      if (tree.isDirectory(node)) {
        if (tree.newest(node) >= span.from) open.push(node)
        continue
      }
      if (seen.has(node)) continue
      const changedAt = changesOf(tree, seen, node, span)
      if (changedAt.length > 0) yield { node, changedAt }
    }
  }
}

/** `files` or `artifacts` of a deliverable or of its fields: texts, or objects with a `path`. Agents may write anything there. */
function claimed(deliverable: unknown): { readonly paths: readonly string[]; readonly truncated: boolean } {
  const content = objectOf(deliverable)
  const fields = Array.isArray(content['fields']) ? (content['fields'] as unknown[]).filter(isObject) : []
  const named = (name: unknown) => name === 'files' || name === 'artifacts'
  const lists = [
    ...Object.entries(content).filter(([name]) => named(name)),
    ...fields.filter((field) => named(field['name'])).map((field) => ['', field['value']] as const),
  ].map(([, value]) => (Array.isArray(value) ? (value as unknown[]) : [value]))
  const paths = new Set<string>()
  let truncated = false
  for (const item of lists.flat()) {
    const path = typeof item === 'string' ? item : isObject(item) ? item['path'] : undefined
    if (typeof path !== 'string' || path === '' || path.length > pathMax || path.includes('\0')) continue
    if (paths.size < filesMax) paths.add(path)
    else truncated = true
  }
  return { paths: [...paths], truncated }
}
