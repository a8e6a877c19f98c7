/**
 * A part of the tree as plain objects, ready for JSON. Always holds: levels are complete from the top as far as the limit
 * allows, children stand in the order of their names, and what was left out is told. Leaves to others: what a node looks
 * like on the wire (`render`).
 */
import type { NodeId } from './entry.js'
import type { TreeReader } from './reader.js'

export interface SubtreeOptions<Node> {
  /** Levels below the entry: 0 is the entry alone, 1 its children. Default: all. */
  readonly maxDepth?: number | undefined
  /** Nodes in one answer. */
  readonly nodeMax?: number | undefined
  /** Makes the object of one entry; `children` is added to it here. */
  readonly render: (node: NodeId, path: string, name: string) => Node
}

export type WithChildren<Node> = Node & { children?: WithChildren<Node>[] }

export interface Subtree<Node> {
  readonly node: WithChildren<Node>
  /** Nodes in it. */
  readonly count: number
  /** Whether nodeMax left some out; a directory without `children` was not opened. */
  readonly truncated: boolean
}

// About 200 B of JSON a node: 20 MB is the most that one answer should be.
const nodeMaxDefault = 100_000

export function subtree<Node extends object>(
  tree: TreeReader,
  top: NodeId,
  { maxDepth = Number.POSITIVE_INFINITY, nodeMax = nodeMaxDefault, render }: SubtreeOptions<Node>,
): Subtree<Node> {
  const path = tree.pathOf(top)
  const node: WithChildren<Node> = render(top, path, top === 0 ? '/' : tree.nameOf(top))
  let count = 1
  let truncated = false
  let level = [{ node, id: top, path: path === '/' ? '' : path }]
  for (let depth = 0; depth < maxDepth && level.length > 0; depth += 1) {
    const next: typeof level = []
    for (const directory of level) {
      if (!tree.isDirectory(directory.id)) continue
      if (count + tree.childCount(directory.id) > nodeMax) {
        truncated = true
        continue
      }
      const children: WithChildren<Node>[] = []
      for (const id of tree.children(directory.id)) {
        const name = tree.nameOf(id)
        const childPath = `${directory.path}/${name}`
        const child: WithChildren<Node> = render(id, childPath, name)
        children.push(child)
        if (tree.isDirectory(id)) next.push({ node: child, id, path: childPath })
      }
      directory.node.children = children
      count += children.length
    }
    level = next
  }
  return { node, count, truncated }
}
