/**
 * `npm run bench -- view`: measures the workspace view beside `find`, plocate and watchman, on the same files, in one run. Each
 * figure is based on counted rows. Compare only ratios: absolute figures depend on the machine. A figure that could not be
 * measured is null, and `reasons` explains why.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { errorMessage } from '@bellwether/base'
import { machine } from './machine.js'
import { burst } from './view/burst.js'
import { directoriesOf, filesPerTop, makeCorpus, topOf, type Corpus } from './view/corpus.js'
import { directory, ingest, searchOverHttp } from './view/over-http.js'
import { measurePeers, type PeerAnswer } from './view/peers.js'
import { startViewServer } from './view/server.js'
import { median, round, timeCommand } from './view/timing.js'

export interface ViewOptions {
  readonly onProgress: (line: string) => void
  /** One tenth of the files and no tree of ten million entries: a quick check, not a result. */
  readonly quick: boolean
}

interface TreeFigures {
  readonly bytes_per_entry: number
  readonly upserts_per_s: number
  readonly subtree_stats_us: number
  readonly root_stats_us: number
}

const workspace = fileURLToPath(new URL('../../..', import.meta.url))
// Enough for ten million entries through the arbiter on a slow machine.
const childMaxMs = 300_000

export async function benchView({ onProgress, quick }: ViewOptions): Promise<object> {
  const files = quick ? 100_000 : 1_000_000
  const reasons: Record<string, string> = {}
  const attempt = async <T>(name: string, run: () => T | Promise<T>): Promise<T | null> => {
    try {
      const result = await run()
      onProgress(`${name}: ${JSON.stringify(result)}`)
      return result
    } catch (error) {
      reasons[name] = errorMessage(error)
      onProgress(`${name}: ${reasons[name]}`)
      return null
    }
  }
  onProgress('building: servers, sensors and threads run from the build, as users run them')
  const built = spawnSync('npx', ['tsc', '-b', 'packages/bellwether', 'packages/sensor'], {
    cwd: workspace,
    timeout: childMaxMs,
  })
  if (built.status !== 0) throw new Error(`Build failed: ${built.stdout.toString().slice(0, 600)}`)
  // A small tree does not fill one page of names and entries, so bytes per entry are meaningful only from one million on.
  const tree = await attempt('tree', () => child('tree-child.ts', 1_000_000) as TreeFigures)
  const large = quick ? null : await attempt('tree_10m', () => child('tree-child.ts', 10_000_000) as TreeFigures)
  onProgress(`creating ${files} files`)
  const corpus = makeCorpus(files)
  try {
    const hits = Math.floor((files + 22_222) / 100_000)
    const find = await attempt('find', () => measureFind(corpus, hits))
    const peers: Record<string, PeerAnswer> = measurePeers(corpus, hits, onProgress)
    for (const [name, figures] of Object.entries(peers)) {
      if ('missing' in figures) reasons[name] = figures.missing
      onProgress(`${name}: ${JSON.stringify(figures)}`)
    }
    const scan = await attempt(
      'scan',
      () => child('scan.ts', corpus.root, files + directoriesOf(files)) as { ms: number },
    )
    const http = await attempt('http', () => overHttp(corpus, hits, onProgress))
    const lost = await attempt('burst', () => burst(quick ? 20_000 : 100_000))
    const against = (theirs: number | undefined, ours: number | undefined) =>
      theirs === undefined || ours === undefined ? null : round(theirs / ours)
    return {
      ran: { bench: 'view', files, quick },
      ratios: {
        // Both get the same directory repeatedly and may use their caches.
        dir_vs_find: against(http?.find_dir_ms, http?.dir_again_ms),
        dir_vs_find_names: against(http?.find_dir_names_ms, http?.dir_again_ms),
        dir_first_vs_find: against(http?.find_beside_first_ms, http?.dir_ms),
        search_vs_find: against(find?.search_ms, http?.search_ms),
        scan_vs_find: against(find?.scan_ms, scan?.ms),
      },
      figures: {
        bytes_per_entry: tree?.bytes_per_entry ?? null,
        bytes_per_entry_10m: large?.bytes_per_entry ?? null,
        upserts_per_s: tree?.upserts_per_s ?? null,
        subtree_stats_us: tree?.subtree_stats_us ?? null,
        root_stats_us: tree?.root_stats_us ?? null,
        ingest_events_per_s: http?.ingest_events_per_s ?? null,
        burst_lost: lost?.lost ?? null,
        tree,
        tree_10m: large,
        http,
        scan,
        burst: lost,
        find,
        ...peers,
      },
      reasons,
      machine: machine(),
      versions: { node: process.version, find: timeCommand('find', ['--version']).text.split('\n')[0] },
    }
  } finally {
    corpus.remove()
  }
}

function child(script: string, ...args: (string | number)[]): unknown {
  const file = fileURLToPath(new URL(`view/${script}`, import.meta.url))
  const flags = ['--import', 'tsx', '--conditions=@bellwether/source', '--expose-gc', '--max-old-space-size=4096']
  const done = spawnSync(process.execPath, [...flags, file, ...args.map(String)], { timeout: childMaxMs })
  if (done.status !== 0)
    throw new Error(`${script} ended with ${done.status ?? done.signal}: ${done.stderr.toString().trim().slice(-600)}`)
  return JSON.parse(done.stdout.toString())
}

/** Prints names only, which is less than the view returns. */
/** The fields of the view's entries: name, path, kind, size and two times. */
const sameFields = '%f %p %y %s %T@ %C@\n'
const findDirectory = (root: string, top: number, fields: 'names' | 'same'): number =>
  timeCommand('find', [root + topOf(top), ...(fields === 'same' ? ['-printf', sameFields] : [])], filesPerTop + 5).ms

function measureFind({ root, files }: Corpus, hits: number): { search_ms: number; scan_ms: number } {
  const entries = files + directoriesOf(files) + 1
  // One run to warm the kernel's caches, as for all other measurements.
  timeCommand('find', [root, '-printf', '%p %s %T@ %y\n'], entries)
  const times = (count: number, run: () => number) => round(median(Array.from({ length: count }, run)))
  return {
    search_ms: times(3, () => timeCommand('find', [root, '-name', 'f*77777.dat'], hits).ms),
    scan_ms: times(3, () => timeCommand('find', [root, '-printf', '%p %s %T@ %y\n'], entries).ms),
  }
}

interface OverHttp {
  readonly ingest_events_per_s: number
  readonly dir_ms: number
  readonly dir_again_ms: number
  readonly find_dir_ms: number
  readonly find_beside_first_ms: number
  readonly find_dir_names_ms: number
  readonly search_ms: number
}

async function overHttp({ root, files }: Corpus, hits: number, onProgress: (line: string) => void): Promise<OverHttp> {
  const server = await startViewServer()
  try {
    const ingestEvents = await ingest(server, files, onProgress)
    const { first, findBesideFirst, again, find, findNames } = await directory(server, (top, fields) =>
      findDirectory(root, top, fields),
    )
    return {
      ingest_events_per_s: ingestEvents,
      dir_ms: first,
      dir_again_ms: again,
      find_dir_ms: find,
      find_beside_first_ms: findBesideFirst,
      find_dir_names_ms: findNames,
      search_ms: await searchOverHttp(server, hits),
    }
  } finally {
    await server.close()
  }
}
