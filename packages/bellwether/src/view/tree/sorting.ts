/**
 * Sorts entries by the bytes of their names, at once or in slices. It reads names through `Named` and writes only the arrays
 * that it gets.
 */
import type { NodeId } from './entry.js'
import type { NamePool } from './name-pool.js'

/** The storage of names, as far as sorting needs it. */
interface Named {
  readonly names: NamePool
  nameOf(node: NodeId): number
}

// A position takes 12 bits and five bytes of a name take 40: together an integer that a double holds exactly.
export const runEntries = 4_096
const mergeEntries = 16_384

function compare({ names }: Named, one: number, other: number): number {
  return names.compare(one, names, other)
}

/** Sorts the entries in place, without yielding. */
export function sortByName(of: Named, nodes: Uint32Array): Uint32Array {
  if (nodes.length <= runEntries) sortRun(of, nodes)
  else nodes.sort((one, other) => compare(of, of.nameOf(one), of.nameOf(other)))
  return nodes
}

/**
 * Sorts up to 4,096 entries. The engine sorts the five bytes after the common prefix as numbers; full names are compared only
 * where these are equal.
 */
function sortRun(of: Named, nodes: Uint32Array): void {
  const { names } = of
  const refs = nodes.map((node) => of.nameOf(node))
  let skip = 255
  for (let at = 1; at < refs.length && skip > 0; at += 1) skip = names.commonPrefix(refs[0]!, refs[at]!, skip)
  const keys = new Float64Array(nodes.length)
  for (let at = 0; at < refs.length; at += 1) keys[at] = names.fiveBytes(refs[at]!, skip) * runEntries + at
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

/** Sorts any number of entries and yields between slices. Returns a new array; `nodes` stays unchanged. */
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

/** Merges two adjacent runs of `order` into one run of `target`. */
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
