/**
 * The children of a directory in the order of their names, also of one with a million of them: then the work is done in
 * slices, between which others have their turn and the directory may change. Always holds: what is returned are children
 * of the moment of asking, those still there in order; the order is kept in the tree only if nothing changed meanwhile.
 */
import type { NodeId } from './entry.js'
import type { NamePool } from './names.js'
import type { TreeReader } from './reader.js'

/** What sorting needs to know of where entries are kept. */
interface Named {
  readonly names: NamePool
  nameOf(node: NodeId): number
}

// Their places take 12 bits and five bytes of a name 40: together they are a whole number that a double holds.
const runEntries = 4_096
const mergeEntries = 16_384

/** Which of two entries' names comes first, by their bytes. */
function compare({ names }: Named, one: number, other: number): number {
  return names.compare(one, names, other)
}

/** The entries, in place, by the bytes of their names. At once: sortedChildren() is for those who have no time. */
export function inOrder(of: Named, nodes: Uint32Array): Uint32Array {
  if (nodes.length <= runEntries) sortRun(of, nodes)
  else nodes.sort((one, other) => compare(of, of.nameOf(one), of.nameOf(other)))
  return nodes
}

/**
 * Up to 4,096 of them: five bytes behind what all names share are sorted as numbers, by the engine itself; only where
 * they are equal are names compared.
 */
function sortRun(of: Named, nodes: Uint32Array): void {
  const { names } = of
  const refs = nodes.map((node) => of.nameOf(node))
  let skip = 255
  for (let at = 1; at < refs.length && skip > 0; at += 1) skip = names.shared(refs[0]!, refs[at]!, skip)
  const keys = new Float64Array(nodes.length)
  for (let at = 0; at < refs.length; at += 1) keys[at] = names.five(refs[at]!, skip) * runEntries + at
  keys.sort()
  const places = Uint32Array.from(keys, (key) => key % runEntries)
  const five = (at: number) => Math.floor(keys[at]! / runEntries)
  for (let from = 0; from < places.length;) {
    let to = from + 1
    while (to < places.length && five(to) === five(from)) to += 1
    if (to - from > 1) places.subarray(from, to).sort((one, other) => compare(of, refs[one]!, refs[other]!))
    from = to
  }
  const before = nodes.slice()
  for (let at = 0; at < places.length; at += 1) nodes[at] = before[places[at]!]!
}

export function* sortedChildren(tree: TreeReader, directory: NodeId): Generator<void, Uint32Array> {
  const { store } = tree
  if (tree.childCount(directory) <= runEntries || store.directories.isSorted(store.row(directory)))
    return tree.children(directory)
  const before = tree.unsorted(directory)
  let order: Uint32Array = before.slice()
  for (let from = 0; from < order.length; from += runEntries) {
    sortRun(store, order.subarray(from, from + runEntries))
    yield
  }
  let spare: Uint32Array = new Uint32Array(order.length)
  for (let run = runEntries; run < order.length; run *= 2) {
    for (let from = 0; from < order.length; from += 2 * run) yield* merge(store, order, spare, from, run)
    ;[order, spare] = [spare, order]
  }
  if (tree.store === store && isSame(tree, directory, before)) store.arrange(directory, order)
  return order
}

/** Two runs side by side in `order` become one in `target`. */
function* merge(of: Named, order: Uint32Array, target: Uint32Array, from: number, run: number): Generator<void> {
  const middle = Math.min(from + run, order.length)
  const end = Math.min(from + 2 * run, order.length)
  let [one, other] = [from, middle]
  for (let at = from; at < end; at += 1) {
    const takesOne =
      other >= end || (one < middle && compare(of, of.nameOf(order[one]!), of.nameOf(order[other]!)) <= 0)
    target[at] = takesOne ? order[one]! : order[other]!
    if (takesOne) one += 1
    else other += 1
    if (at % mergeEntries === mergeEntries - 1) yield
  }
}

function isSame(tree: TreeReader, directory: NodeId, before: Uint32Array): boolean {
  if (!tree.exists(directory) || !tree.isDirectory(directory)) return false
  const now = tree.unsorted(directory)
  return now.length === before.length && now.every((node, at) => node === before[at])
}
