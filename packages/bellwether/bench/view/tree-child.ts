/**
 * Measures the tree in a separate process, so that the memory is the tree's alone: `node --expose-gc … FILES`. Fills a source
 * through the arbiter with realtime rows in shuffled order, then queries it. Prints one JSON object.
 */
import { newTally, SourceState } from '../../src/view/arbitration/source-state.js'
import { search } from '../../src/view/tree/search.js'
import { root, Tree } from '../../src/view/tree/tree.js'
import { directoriesOf, filesPerTop, pathOf, shuffled, topOf } from './corpus.js'
import { mustBe, round } from './timing.js'

const files = Number(process.argv[2])
const batch = 1_000
const order = shuffled(files)
const collect = () => {
  for (let i = 0; i < 3; i += 1) globalThis.gc!()
  const { arrayBuffers, heapUsed, rss } = process.memoryUsage()
  return { held: arrayBuffers + heapUsed, rss }
}

const before = collect()
const tree = new Tree({ id: 'bench' })
const source = new SourceState({ tree, hotSeconds: 60 })
const tally = newTally()
// Files older than the hot threshold, like most files of a real tree: so there are no suspects, which take extra memory.
const modified = 1_600_000_000

let spentMs = 0
let cpuUs = 0
let longestMs = 0
for (let from = 0; from < files; from += batch) {
  // Rows are built before the timer starts, because over HTTP the parser builds them.
  const rows = Array.from(order.subarray(from, from + batch), (file) => ({
    path: pathOf(file),
    size: file,
    modified_time: modified + file / 1_000,
    created_time: modified,
    is_directory: false,
  }))
  const speaker = {
    agent: `host-${from % 7}`,
    nowMs: 1.8e12 + from,
    monotonicMs: from,
    seenAt: 1.8e12 + from,
    scan: undefined,
  }
  const cpu = process.cpuUsage()
  const start = performance.now()
  source.apply({ type: 'insert', origin: 'realtime', index: 1.8e12, rows }, 0, rows.length, speaker, tally)
  const ms = performance.now() - start
  const { user, system } = process.cpuUsage(cpu)
  cpuUs += user + system
  spentMs += ms
  longestMs = Math.max(longestMs, ms)
}
mustBe('rows applied', files, tally.applied)
const after = collect()
const entries = files + directoriesOf(files)
mustBe('entries of the tree', entries, tree.count)

let sum = 0
for (let i = 0; i < files; i += 1) sum += i
mustBe('total size', sum, tree.stats(root).size)

const stats = (node: number, times: number): number => {
  let seen = 0
  const start = performance.now()
  for (let i = 0; i < times; i += 1) seen += tree.stats(node).files
  const us = ((performance.now() - start) * 1_000) / times
  mustBe('files by stats', tree.stats(node).files * times, seen)
  return us
}
const top = tree.find(topOf(files / filesPerTop / 2))
mustBe('files of one top directory', filesPerTop, tree.stats(top).files)

const searchMs: number[] = []
for (let i = 0; i < 5; i += 1) {
  const start = performance.now()
  let found = 0
  for (const nodes of search(tree, { pattern: 'f*77777.dat' })) found += nodes.length
  searchMs.push(performance.now() - start)
  mustBe('found', Math.floor((files + 22_222) / 100_000), found)
}

process.stdout.write(
  JSON.stringify({
    entries,
    bytes_per_entry: round(Math.max(after.held - before.held, tree.bytes) / entries, 1),
    arrays_per_entry: round(tree.bytes / entries, 1),
    rss_per_entry: round((after.rss - before.rss) / entries, 1),
    upserts_per_s: Math.round((files / spentMs) * 1_000),
    // Distinguishes a slow tree from a busy machine.
    cpu_us_per_upsert: round(cpuUs / files),
    longest_batch_ms: round(longestMs),
    subtree_stats_us: round(stats(top, 100_000), 3),
    root_stats_us: round(stats(root, 100_000), 3),
    search_ms: round(Math.min(...searchMs), 1),
  }),
)
