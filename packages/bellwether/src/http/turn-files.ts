/**
 * Which files a turn may have changed, and how that is known. Always: what is only likely is called so. `claimed`: the deliverable names
 * it. `changed_meanwhile`: a view saw it modified between the turn's start and its end, and whoever else was at work then may have
 * done it. Bounded in what is looked at and in what is told; only views that the key reaches are asked.
 */
import { InvalidInput } from '@bellwether/protocol'
import type { Fusion } from '../view/fusion.js'
import { flag, none, root, type NodeId, type Tree } from '../view/tree/tree.js'
import type { View, ViewSource } from '../view/view.js'

export interface TurnFile {
  readonly path: string
  readonly how: 'claimed' | 'changed_meanwhile'
  readonly kind: 'file'
  readonly view: string | null
  readonly source_id: string | null
  /** Whether a view has it; null: no view can tell. */
  readonly found: boolean | null
  readonly size: number | null
  readonly modified_time: number | null
  readonly integrity_suspect: boolean | null
}

export interface Span {
  /** Seconds since 1970. */
  readonly from: number
  readonly to: number
}

// What a person looks through.
const filesMax = 200
// A few milliseconds: entries whose directory has seen nothing since the start are not even looked at.
const looksMax = 20_000
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
  const told = new Set(files.map((file) => file.path))
  const looks = { left: looksMax }
  for (const { view, source } of span === undefined ? [] : ready) {
    for (const node of changedWithin(source.tree, span!, looks)) {
      const path = source.tree.pathOf(node)
      if (told.has(path)) continue
      if (files.length >= filesMax) {
        truncated = true
        break
      }
      files.push({ path, how: 'changed_meanwhile', ...factsOf(view, source, node) })
    }
  }
  return { files, truncated: truncated || looks.left <= 0 }
}

function lookedUp(path: string, sources: readonly { readonly view: View; readonly source: ViewSource }[]): TurnFile {
  const absolute = path.startsWith('/') ? path : `/${path.replace(/^\.\//, '')}`
  for (const { view, source } of sources) {
    const node = findIn(source.tree, absolute)
    if (node !== none) return { path: absolute, how: 'claimed', ...factsOf(view, source, node) }
  }
  const found = sources.length === 0 ? null : false
  const unknown = { view: null, source_id: null, size: null, modified_time: null, integrity_suspect: null }
  return { path, how: 'claimed', kind: 'file', found, ...unknown }
}

/** An agent may claim what is no path at all. */
function findIn(tree: Tree, path: string): NodeId {
  try {
    return tree.find(path)
  } catch (error) {
    if (error instanceof InvalidInput) return none
    throw error
  }
}

function factsOf(view: View, { id, tree }: ViewSource, node: NodeId): Omit<TurnFile, 'path' | 'how'> {
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

/** Files modified within a span. A directory knows the newest time below it: what was at rest since the start is passed over. */
function* changedWithin(tree: Tree, { from, to }: Span, looks: { left: number }): Generator<NodeId> {
  const open: NodeId[] = [root]
  for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
    for (const node of tree.unsorted(directory)) {
      looks.left -= 1
      if (looks.left <= 0) return
      if (tree.isDirectory(node)) {
        if (tree.newest(node) >= from) open.push(node)
        continue
      }
      const modified = tree.modifiedTime(node)
      if (modified >= from && modified <= to) yield node
    }
  }
}

/** `files` or `artifacts` of a deliverable, or of its fields: texts, or objects with a `path`. An agent wrote it: anything may be there. */
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
