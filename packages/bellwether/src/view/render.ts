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
  const isDirectory = tree.isDirectory(node)
  const kind = isDirectory ? 'directory' : 'file'
  if (options.onlyPath) return `{"path":${JSON.stringify(path)},"content_type":"${kind}"`
  const flags = tree.flags(node)
  const agent = tree.agentOf(node)
  const created = tree.createdTime(node)
  return (
    `{"name":${JSON.stringify(node === root ? '/' : tree.nameOf(node))},"content_type":"${kind}"` +
    `,"path":${JSON.stringify(path)},"size":${tree.size(node)},"modified_time":${tree.modifiedTime(node)}` +
    `,"created_time":${created === 0 ? 'null' : created}` +
    `,"integrity_suspect":${(flags & flag.integritySuspect) !== 0}` +
    (isDirectory ? `,"audit_skipped":${(flags & flag.auditSkipped) !== 0}` : '') +
    `,"last_agent_id":${text(agent)},"source_uri":${text(options.uriOf(agent))}` +
    `,"agent_missing":${agent !== undefined && (flags & flag.knownByAgent) === 0}`
  )
}

const text = (value: string | undefined) => (value === undefined ? 'null' : JSON.stringify(value))

interface Open {
  readonly node: NodeId
  /** Of the children: the directory's path with a slash behind it. */
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
  let piece = nodeText(tree, top, path, options)
  const open: Open[] = []
  const enter = (node: NodeId, of: string): boolean => {
    if (open.length >= options.maxDepth || !tree.isDirectory(node)) return false
    open.push({ node, prefix: of === '/' ? '/' : `${of}/`, children: tree.children(node), at: 0, written: 0 })
    piece += ',"children":['
    return true
  }
  enter(top, path)
  for (let level = open.at(-1); level !== undefined; level = open.at(-1)) {
    const child = level.children[level.at]
    if (child === undefined) {
      open.pop()
      piece += open.length > 0 ? ']}' : ']'
    } else {
      level.at += 1
      if (!tree.exists(child) || tree.parentOf(child) !== level.node) continue
      const childPath = level.prefix + tree.nameOf(child)
      piece += (level.written > 0 ? ',' : '') + nodeText(tree, child, childPath, options)
      level.written += 1
      if (!enter(child, childPath)) piece += '}'
    }
    if (piece.length < pieceLength) continue
    yield piece
    piece = ''
  }
  yield `${piece}${tail === '' ? '' : `,${tail}`}}`
}
