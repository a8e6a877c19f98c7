/**
 * The children of a directory in the order of their names, also of one with a million of them: then the work is done in
 * slices, between which others have their turn and the directory may change. Always holds: what is returned are children
 * of the moment of asking, those still there in order; the order is kept in the tree only if nothing changed meanwhile.
 */
import type { NodeId } from './entry.js'
import type { TreeReader } from './reader.js'
import { runEntries, sortInSlices } from './sorting.js'

export function* sortedChildren(tree: TreeReader, directory: NodeId): Generator<void, Uint32Array> {
  const { store } = tree
  if (tree.childCount(directory) <= runEntries || store.directories.isSorted(store.row(directory)))
    return tree.children(directory)
  const before = tree.unsorted(directory)
  const order = yield* sortInSlices(store, before)
  if (tree.store === store && isSame(tree, directory, before)) store.arrange(directory, order)
  return order
}

function isSame(tree: TreeReader, directory: NodeId, before: Uint32Array): boolean {
  if (!tree.exists(directory) || !tree.isDirectory(directory)) return false
  const now = tree.unsorted(directory)
  return now.length === before.length && now.every((node, at) => node === before[at])
}
