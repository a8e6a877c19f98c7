/**
 * Sorts the children of a directory by name, in slices if it has many; the directory may change between two slices. Returns
 * the children at the time of the call, in order. The tree stores that order only if the directory did not change.
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
  if (tree.store === store && isSame(tree, directory, before)) store.setChildOrder(directory, order)
  return order
}

function isSame(tree: TreeReader, directory: NodeId, before: Uint32Array): boolean {
  if (!tree.exists(directory) || !tree.isDirectory(directory)) return false
  const now = tree.unsorted(directory)
  return now.length === before.length && now.every((node, at) => node === before[at])
}
