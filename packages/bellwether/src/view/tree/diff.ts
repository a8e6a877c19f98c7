/**
 * Compares two trees that should contain the same files. Both are walked in the order of names, so memory is bounded by depth
 * and width. Each difference is reported once; a directory that only one side has is reported once for everything below it.
 * The walk yields `undefined` after every few thousand entries. Callers must not change either tree during the walk.
 */
import { root, type NodeId } from './entry.js'
import type { TreeReader } from './reader.js'
import { sortedChildren } from './sorted-children.js'

export interface Difference {
  readonly path: string
  /** `type`: of file, directory and symbolic link, the sides have different ones. `content`: files with different size or modification time. */
  readonly kind: 'only_left' | 'only_right' | 'type' | 'content'
  readonly left?: NodeId | undefined
  readonly right?: NodeId | undefined
}

// A few milliseconds.
const sliceEntries = 8_192

export function* diff(left: TreeReader, right: TreeReader): Generator<Difference | undefined> {
  const open: [NodeId, NodeId][] = [[root, root]]
  let compared = 0
  for (let pair = open.pop(); pair !== undefined; pair = open.pop()) {
    const lefts = yield* asTicks(sortedChildren(left, pair[0]))
    const rights = yield* asTicks(sortedChildren(right, pair[1]))
    for (let i = 0, j = 0; i < lefts.length || j < rights.length;) {
      compared += 1
      if (compared % sliceEntries === 0) yield undefined
      const order = compareNames(left, lefts[i], right, rights[j])
      if (order < 0) {
        yield { path: left.pathOf(lefts[i]!), kind: 'only_left', left: lefts[i]! }
        i += 1
      } else if (order > 0) {
        yield { path: right.pathOf(rights[j]!), kind: 'only_right', right: rights[j]! }
        j += 1
      } else {
        const leftNode = lefts[i]!
        const rightNode = rights[j]!
        i += 1
        j += 1
        if (left.isDirectory(leftNode) && right.isDirectory(rightNode)) open.push([leftNode, rightNode])
        else {
          const kind = differs(left, leftNode, right, rightNode)
          if (kind) yield { path: left.pathOf(leftNode), kind, left: leftNode, right: rightNode }
        }
      }
    }
  }
}

function* asTicks<T>(task: Generator<void, T>): Generator<undefined, T> {
  for (;;) {
    const step = task.next()
    if (step.done === true) return step.value
    yield undefined
  }
}

function differs(left: TreeReader, one: NodeId, right: TreeReader, other: NodeId): 'type' | 'content' | undefined {
  if (left.isDirectory(one) !== right.isDirectory(other) || left.isSymlink(one) !== right.isSymlink(other))
    return 'type'
  const isSame = left.size(one) === right.size(other) && left.modifiedTime(one) === right.modifiedTime(other)
  return isSame ? undefined : 'content'
}

function compareNames(left: TreeReader, one: NodeId | undefined, right: TreeReader, other: NodeId | undefined): number {
  if (one === undefined) return 1
  if (other === undefined) return -1
  return left.compareNames(one, right, other)
}
