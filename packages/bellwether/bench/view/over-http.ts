/**
 * Measures the view over HTTP: ingests one event per entry in shuffled order, then queries one directory and a search. Rows are
 * counted on both sides.
 */
import { directoriesOf, filesPerTop, pathOf, shuffled, topOf } from './corpus.js'
import type { ViewServer } from './server.js'
import { median, mustBe, round } from './timing.js'

const perBatch = 1_000
// Bodies are built before a wave is timed, so that the client's work does not count.
const batchesPerWave = 40
const connections = 4
const rounds = 7
const repeats = 9
/** The directory of the repeated query. */
const seen = 7

interface Node {
  readonly children?: readonly Node[]
}

/** Fills the view and returns arbitrated events per second. */
export async function ingest(server: ViewServer, files: number, onProgress: (line: string) => void): Promise<number> {
  const session = JSON.parse(
    (
      await server.ask(
        'POST',
        '/pipe/session/',
        JSON.stringify({ task_id: 'bench', client_info: { agent_id: 'bench' } }),
      )
    ).toString(),
  ) as { session_id: string; role: string }
  if (session.role !== 'leader') throw new Error('The only session is not the leader')
  const route = `/pipe/ingest/${session.session_id}/events`
  const order = shuffled(files)
  let spentMs = 0
  let applied = 0
  for (let from = 0; from < files; from += perBatch * batchesPerWave) {
    const bodies: Buffer[] = []
    for (let at = from; at < Math.min(files, from + perBatch * batchesPerWave); at += perBatch)
      bodies.push(body(order.subarray(at, at + perBatch)))
    const start = performance.now()
    await Promise.all(
      Array.from({ length: connections }, async () => {
        for (let next = bodies.pop(); next !== undefined; next = bodies.pop()) {
          const answer = JSON.parse((await server.ask('POST', route, next)).toString()) as { count: number }
          applied += answer.count
        }
      }),
    )
    spentMs += performance.now() - start
    await server.ask('POST', `/pipe/session/${session.session_id}/heartbeat`, '{"can_realtime":true}')
    if ((from / (perBatch * batchesPerWave)) % 10 === 9) onProgress(`ingest: ${applied} events`)
  }
  await server.ask('POST', route, '{"events":[],"source_type":"snapshot","is_end":true}')
  const stats = JSON.parse((await server.ask('GET', '/views/bench/stats')).toString()) as {
    total_files: number
    total_directories: number
  }
  mustBe('files in the view', files, stats.total_files)
  // The view may or may not count the root as a directory.
  const extra = stats.total_directories - directoriesOf(files)
  if (extra !== 0) mustBe('directories in the view', directoriesOf(files) + 1, stats.total_directories)
  return Math.round((files / spentMs) * 1_000)
}

/** The rows of a snapshot as a sensor sends them, about 213 bytes per event. */
function body(files: Uint32Array): Buffer {
  const events: string[] = []
  for (const file of files) {
    const path = pathOf(file)
    events.push(
      `{"event_type":"insert","event_schema":"fs","table":"files","rows":[{"path":"${path}","file_name":"${path.slice(-12)}",` +
        `"size":${file},"modified_time":1600000000.${file % 1_000},"is_directory":false}],"index":1800000000000,"message_source":"snapshot"}`,
    )
  }
  return Buffer.from(`{"source_type":"snapshot","is_end":false,"events":[${events.join(',')}]}`)
}

export interface DirectoryTimes {
  /** First queries of directories, on a server that has served others before. */
  readonly first: number
  /** `find -printf` of the same fields, alternately with the first queries. */
  readonly findBesideFirst: number
  /** Repeated queries of one directory, like `find`. */
  readonly again: number
  /** `find -printf` of the same fields on that directory, measured alternately. */
  readonly find: number
  /** `find` that prints names only and reads no inode. */
  readonly findNames: number
}

/** Milliseconds for one directory of 1,000 files with all entries. First responses are rendered; repeated ones come from the server's cache. */
export async function directory(
  server: ViewServer,
  find: (top: number, fields: 'names' | 'same') => number,
): Promise<DirectoryTimes> {
  // The first response is parsed and counted; later ones are compared with it byte by byte, because parsing between two queries
  // would evict the client's caches.
  const counted = new Map<number, Buffer>()
  const ask = async (top: number) => {
    const start = performance.now()
    const answer = await server.ask('GET', `/views/bench/tree?path=${topOf(top)}&recursive=true`)
    const ms = performance.now() - start
    if (counted.get(top)?.equals(answer) !== true) {
      mustBe('nodes of one directory', filesPerTop + 5, count(JSON.parse(answer.toString()) as Node))
      counted.set(top, answer)
    }
    return ms
  }
  const all = async (tops: readonly number[]) => {
    const times: number[] = []
    for (const top of tops) times.push(await ask(top))
    return round(median(times))
  }
  const from = (first: number, length: number) => Array.from({ length }, (_, i) => first + i)
  // Warm-up: a long-running server has compiled its code. These directories are not queried again.
  for (let pass = 0; pass < 8; pass += 1) await all(from(50, 49))
  // Alternately, so that a slow phase of the machine affects both.
  const firsts: number[] = []
  const besideFirst: number[] = []
  for (const top of from(0, 50)) {
    firsts.push(await ask(top))
    besideFirst.push(find(top, 'same'))
  }
  const [ours, theirs, names]: [number[], number[], number[]] = [[], [], []]
  for (let turn = 0; turn < rounds; turn += 1) {
    for (let i = 0; i < repeats; i += 1) ours.push(await ask(seen))
    for (let i = 0; i < repeats; i += 1) theirs.push(find(seen, 'same'))
    for (let i = 0; i < repeats; i += 1) names.push(find(seen, 'names'))
  }
  const first = round(median(firsts))
  return {
    first,
    findBesideFirst: round(median(besideFirst)),
    again: round(median(ours)),
    find: round(median(theirs)),
    findNames: round(median(names)),
  }
}

export async function searchOverHttp(server: ViewServer, hits: number): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < 11; i += 1) {
    const start = performance.now()
    const answer = await server.ask('GET', `/views/bench/search?pattern=${encodeURIComponent('f*77777.dat')}`)
    times.push(performance.now() - start)
    const { results } = JSON.parse(answer.toString()) as { results: readonly unknown[] }
    mustBe('found over HTTP', hits, results.length)
  }
  return round(median(times))
}

function count(node: Node): number {
  let nodes = 1
  for (const child of node.children ?? []) nodes += count(child)
  return nodes
}
