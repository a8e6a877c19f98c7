/**
 * Lists the files that a turn may have changed. `claimed`: the deliverable names the file. `changed`: a view saw
 * it modified while the turn ran, perhaps by another process. The search is bounded, and asks only views that the key can
 * reach.
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

// As many as a person reads.
const filesMax = 200
// A few milliseconds. Directories without a change since the start are skipped.
const visitsMax = 20_000
const pathMax = 4_096

export function filesOf(
  deliverable: unknown,
  span: Span | undefined,
  fusion: Fusion | undefined,
  reaches: (view: string) => boolean,
): { readonly files: readonly TurnFile[]; readonly truncated: boolean } {
  const views = [...(fusion?.views.values() ?? [])].filter((view) => reaches(view.name))
  const sources = views.flatMap((view) => [...view.sources.values()].map((source) => ({ view, source })))
  const ready = sources.filter(({ source }) => source.ready)
  const claims = claimed(deliverable)
  const files: TurnFile[] = claims.paths.map((path) => lookedUp(path, ready))
  let { truncated } = claims
  const listed = new Set(files.map((file) => file.path))
  const visits = { left: visitsMax }
  for (const { view, source } of span === undefined ? [] : ready) {
    for (const node of changedWithin(source.tree, span!, visits)) {
      const path = source.tree.pathOf(node)
      if (listed.has(path)) continue
      if (files.length >= filesMax) {
        truncated = true
        break
      }
      files.push({ path, how: 'changed', ...attributesOf(view, source, node) })
    }
  }
  return { files, truncated: truncated || visits.left <= 0 }
}

function lookedUp(path: string, sources: readonly { readonly view: View; readonly source: ViewSource }[]): TurnFile {
  const absolute = path.startsWith('/') ? path : `/${path.replace(/^\.\//, '')}`
  for (const { view, source } of sources) {
    const node = findIn(source.tree, absolute)
    if (node !== none) return { path: absolute, how: 'claimed', ...attributesOf(view, source, node) }
  }
  const found = sources.length === 0 ? null : false
  const unknown = { view: null, source_id: null, size: null, modified_time: null, integrity_suspect: null }
  return { path, how: 'claimed', kind: 'file', found, ...unknown }
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

function attributesOf(view: View, { id, tree }: ViewSource, node: NodeId): Omit<TurnFile, 'path' | 'how'> {
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

/** Files modified within a span. A directory knows the newest time below it, so that unchanged directories are skipped. */
function* changedWithin(tree: Tree, { from, to }: Span, visits: { left: number }): Generator<NodeId> {
  const open: NodeId[] = [root]
  for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
    for (const node of tree.unsorted(directory)) {
      visits.left -= 1
      if (visits.left <= 0) return
      if (tree.isDirectory(node)) {
        if (tree.newest(node) >= from) open.push(node)
        continue
      }
      const modified = tree.modifiedTime(node)
      if (modified >= from && modified <= to) yield node
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
