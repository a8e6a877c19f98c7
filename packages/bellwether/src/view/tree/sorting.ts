/**
 * Entries in the order of their names: at once, or in slices between which others have their turn. Pure: what the entries are
 * called is asked for, and nothing but the arrays given is written.
 */
import type { NodeId } from './entry.js'
import type { NamePool } from './name-pool.js'

/** What sorting needs to know of where entries are kept. */
interface Named {
  readonly names: NamePool
  nameOf(node: NodeId): number
}

// Their places take 12 bits and five bytes of a name 40: together they are a whole number that a double holds.
export const runEntries = 4_096
const mergeEntries = 16_384

/** Which of two entries' names comes first, by their bytes. */
function compare({ names }: Named, one: number, other: number): number {
  return names.compare(one, names, other)
}

/** The entries, in place, by the bytes of their names. At once: sortInSlices() is for those who have no time. */
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

/** The same, of any number: answers the order, and leaves `nodes` as they are. */
export function* sortInSlices(of: Named, nodes: Uint32Array): Generator<void, Uint32Array> {
  let order: Uint32Array = nodes.slice()
  for (let from = 0; from < order.length; from += runEntries) {
    sortRun(of, order.subarray(from, from + runEntries))
    yield
  }
  let spare: Uint32Array = new Uint32Array(order.length)
  for (let run = runEntries; run < order.length; run *= 2) {
    for (let from = 0; from < order.length; from += 2 * run) yield* merge(of, order, spare, from, run)
    ;[order, spare] = [spare, order]
  }
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
