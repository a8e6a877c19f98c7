/**
 * Entries as the wire shows them, written as JSON text in pieces, so that a tree of a million nodes needs neither a
 * million objects nor the event loop for long. Between two pieces the tree may change: an entry is shown as it is when its
 * turn comes, or left out when it is gone. What `flags` mean stands in docs/view.md.
 */
import { flag, root, type NodeId, type Tree } from './tree/tree.js'

export interface RenderOptions {
  /** Levels below the top; 0: the entry alone. */
  readonly maxDepth: number
  readonly onlyPath: boolean
  /** Where the sensor mounts the source, for people. */
  readonly uriOf: (agent: string | undefined) => string | undefined
}

/** One entry, without its closing brace. */
export function nodeText(tree: Tree, node: NodeId, path: string, options: Omit<RenderOptions, 'maxDepth'>): string {
  const name = node === root ? '/' : tree.nameOf(node)
  return entryText(tree, node, JSON.stringify(name), JSON.stringify(path), options.onlyPath, byLine(tree, options))
}

/** Hot: name and path come as JSON, written once by whoever walks; so does who told of the entry. */
function entryText(
  tree: Tree,
  node: NodeId,
  name: string,
  path: string,
  onlyPath: boolean,
  by: (node: NodeId) => string,
): string {
  const isDirectory = tree.isDirectory(node)
  const kind = isDirectory ? 'directory' : 'file'
  if (onlyPath) return `{"path":${path},"content_type":"${kind}"`
  const flags = tree.flags(node)
  const created = tree.createdTime(node)
  return (
    `{"name":${name},"content_type":"${kind}","path":${path},"size":${tree.size(node)}` +
    `,"modified_time":${tree.modifiedTime(node)},"created_time":${created === 0 ? 'null' : created}` +
    `,"integrity_suspect":${(flags & flag.integritySuspect) !== 0}` +
    (isDirectory ? `,"audit_skipped":${(flags & flag.auditSkipped) !== 0}` : '') +
    by(node) +
    `,"agent_missing":${(flags & flag.knownByAgent) === 0 && tree.agentOf(node) !== undefined}`
  )
}

/** The sensor that told of an entry, as text: few sensors tell of many entries. */
function byLine(tree: Tree, { uriOf }: Pick<RenderOptions, 'uriOf'>): (node: NodeId) => string {
  const known = new Map<string | undefined, string>()
  return (node) => {
    const agent = tree.agentOf(node)
    let line = known.get(agent)
    if (line === undefined) {
      line = `,"last_agent_id":${text(agent)},"source_uri":${text(uriOf(agent))}`
      known.set(agent, line)
    }
    return line
  }
}

const text = (value: string | undefined) => (value === undefined ? 'null' : JSON.stringify(value))

interface Open {
  readonly node: NodeId
  /** Of the children: the directory's path as JSON, with a slash behind it and without the closing quote. */
  readonly prefix: string
  readonly children: Uint32Array
  at: number
  written: number
}

// A piece is about a millisecond of writing.
const pieceLength = 64 * 1_024

/** The subtree below `top` in pieces. `tail` goes into the outermost object, behind its children: `"job_id":…`. */
export function* treeText(tree: Tree, top: NodeId, options: RenderOptions, tail = ''): Generator<string> {
  const path = tree.pathOf(top)
  const by = byLine(tree, options)
  let piece = nodeText(tree, top, path, options)
  const open: Open[] = []
  /** `of`: the entry's path as JSON. */
  const enter = (node: NodeId, of: string): boolean => {
    if (open.length >= options.maxDepth || !tree.isDirectory(node)) return false
    const prefix = node === root ? '"/' : `${of.slice(0, -1)}/`
    open.push({ node, prefix, children: tree.children(node), at: 0, written: 0 })
    piece += ',"children":['
    return true
  }
  enter(top, JSON.stringify(path))
  for (let level = open.at(-1); level !== undefined; level = open.at(-1)) {
    const child = level.children[level.at]
    if (child === undefined) {
      open.pop()
      piece += open.length > 0 ? ']}' : ']'
    } else {
      level.at += 1
      if (!tree.exists(child) || tree.parentOf(child) !== level.node) continue
      const name = JSON.stringify(tree.nameOf(child))
      const childPath = level.prefix + name.slice(1)
      const entry = entryText(tree, child, name, childPath, options.onlyPath, by)
      piece += level.written > 0 ? `,${entry}` : entry
      level.written += 1
      if (!enter(child, childPath)) piece += '}'
    }
    if (piece.length < pieceLength) continue
    yield piece
    piece = ''
  }
  yield `${piece}${tail === '' ? '' : `,${tail}`}}`
}
