/**
 * Checks for the board whether claimed files exist (hazard 21), each path by a barrier and a scan that begin after the
 * question, never from memory alone. A path that cannot be checked is `not_ready`, which means wait; `missing` is returned
 * only after a finished scan, and `excluded` if the sensor does not report the path. The caller computes hashes, because only it
 * may be able to read the file.
 */
import { defined, type Clock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { changesSince, readToken, tokenNow } from './change-tokens.js'
import { flag, none } from '../tree/tree.js'
import type { View, ViewSource } from '../view.js'

export interface EvidenceOptions {
  readonly view: View
  readonly clock: Clock
  /** The source to check; absent: the only source of the view. */
  readonly sourceId?: string
  /** How long sensors may take to respond. */
  readonly waitMs?: number
  /** SHA-256 of the file as hex, if the caller can read it. */
  readonly hash?: (path: string) => Promise<string | undefined>
}

export interface FileFinding {
  readonly path: string
  readonly found: 'present' | 'missing' | 'not_ready' | 'excluded'
  readonly kind?: 'file' | 'directory' | 'symlink'
  readonly size?: number
  readonly sha256?: string
  /** Absent if there was no token, or if the token is too old or from another run of the view. */
  readonly changedSince?: boolean
}

type ScanResult = 'done' | 'not_ready' | 'excluded'

const waitMsDefault = 15_000
// A deliverable with more files should be claimed as a directory.
const changesMax = 100_000

export function viewEvidence(options: EvidenceOptions) {
  const { view, clock, waitMs = waitMsDefault } = options
  const source = (): ViewSource | undefined => {
    if (options.sourceId !== undefined) return view.sources.get(options.sourceId)
    return view.sources.size === 1 ? [...view.sources.values()][0] : undefined
  }

  async function scan(of: ViewSource, path: string, timeUp: AbortSignal): Promise<ScanResult> {
    const job = view.scans.request(of, path, false)
    await view.scans.ended(job, timeUp)
    if (job.excluded) return 'excluded'
    // A direct answer has not changed the tree that `finding` reads.
    return job.state === 'done' && job.direct === undefined ? 'done' : 'not_ready'
  }

  async function finding(of: ViewSource, path: string, isChanged: ((path: string) => boolean) | undefined) {
    const node = of.tree.find(path)
    if (node === none) return { path, found: 'missing' } as const
    const sha256 = of.tree.isDirectory(node) ? undefined : await options.hash?.(path)
    const changedSince = isChanged?.(path)
    const kind = of.tree.isDirectory(node) ? 'directory' : of.tree.isSymlink(node) ? 'symlink' : 'file'
    return { path, found: 'present', kind, size: of.tree.size(node), ...defined({ sha256, changedSince }) } as const
  }

  return {
    async changeToken(): Promise<string> {
      const of = source()
      return tokenNow(of === undefined ? [] : [of], clock.wallMs())
    },

    async checkFiles(paths: readonly string[], since: string | null): Promise<readonly FileFinding[]> {
      const of = source()
      if (of === undefined || !of.ready) return paths.map((path) => ({ path, found: 'not_ready' }))
      const over = new AbortController()
      const timeUp = clock.sleep(waitMs, over.signal).then(() => over.abort())
      try {
        await view.sync([of], 'leader', timeUp)
        const done = await Promise.all(paths.map((path) => ifValidPath(path, (plain) => scan(of, plain, over.signal))))
        const isChanged = since === null ? undefined : changesIn(of, since, clock.wallMs())?.isChanged
        const results: FileFinding[] = []
        for (const [at, path] of paths.entries()) {
          const result = of.tree === source()?.tree ? done[at] : 'not_ready'
          if (result !== 'done') results.push({ path, found: result ?? 'missing' })
          else results.push({ ...(await finding(of, absolute(path), isChanged)), path })
        }
        return results
      } finally {
        over.abort()
      }
    },

    /** Files that were created, changed or deleted since the token, at most `max`. Null: the view cannot tell. */
    async changedFiles(since: string, max: number): Promise<readonly string[] | null> {
      const of = source()
      if (of === undefined || !of.ready) return null
      const over = new AbortController()
      const timeUp = clock.sleep(waitMs, over.signal).then(() => over.abort())
      try {
        await view.sync([of], 'leader', timeUp)
      } finally {
        over.abort()
      }
      const changes = changesIn(of, since, clock.wallMs())
      if (changes === undefined) return null
      const isFile = (path: string, isDirectory: boolean) =>
        !isDirectory && (of.tree.find(path) === none || changes.isChanged(path))
      return [...changes.found]
        .flatMap(([path, isDirectory]) => (isFile(path, isDirectory) ? [path] : []))
        .slice(0, max)
    },
  }
}

const absolute = (path: string) => (path.startsWith('/') ? path : `/${path.replace(/^(?:\.\/)+/, '')}`)

/** Undefined for an invalid path: no file of this view can have it. */
async function ifValidPath(path: string, scan: (path: string) => Promise<ScanResult>): Promise<ScanResult | undefined> {
  try {
    return await scan(absolute(path))
  } catch (error) {
    if (error instanceof InvalidInput) return undefined
    throw error
  }
}

interface Changes {
  /** Whether each path that was reported since the token is a directory. */
  readonly found: ReadonlyMap<string, boolean>
  /** Whether the content of a path changed. A mark that was set or cleared does not count. */
  readonly isChanged: (path: string) => boolean
}

/** Undefined: the token is too old, or from another run of the view. */
function changesIn(of: ViewSource, since: string, nowMs: number): Changes | undefined {
  const issued = readToken(since)
  const found = new Map<string, boolean>()
  let token = since
  for (let more = true; more && found.size < changesMax;) {
    const next = changesSince([of], token, nowMs, changesMax)
    if (next.fresh_instance || issued === undefined) return undefined
    for (const { path, is_directory: isDirectory } of next.changes) found.set(path, isDirectory)
    token = next.token
    more = next.more
  }
  const isChanged = (path: string) => {
    const node = of.tree.find(path)
    if (node === none || !found.has(path)) return false
    const { tree, pipe } = of
    if (tree.lastUpdatedAt(node) >= issued!.at || tree.has(node, flag.blindSpot)) return true
    return tree.modifiedTime(node) >= Math.floor(pipe.state.clock.watermark(issued!.at / 1_000))
  }
  return { found, isChanged }
}
