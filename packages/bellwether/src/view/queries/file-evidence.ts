/**
 * Is it really there? The view's answer for the board (hazard 21): claimed files are looked at by a scan that begins after
 * the question and after a barrier, never believed from memory. Always: whoever cannot tell says `not_ready`, which means
 * wait; `missing` is said only after a finished look. Hashes are the caller's to make, who may be able to read the file.
 */
import type { Clock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { changesSince, readToken, tokenNow } from './change-tokens.js'
import { flag, none } from '../tree/tree.js'
import type { View, ViewSource } from '../view.js'

export interface EvidenceOptions {
  readonly view: View
  readonly clock: Clock
  /** The source to look at; absent: the view's only one. */
  readonly sourceId?: string
  /** How long sensors may take to answer. */
  readonly waitMs?: number
  /** SHA-256 of the file as hex, where it can be read from here. */
  readonly hash?: (path: string) => Promise<string | undefined>
}

export interface FileFinding {
  readonly path: string
  readonly found: 'present' | 'missing' | 'not_ready'
  readonly size?: number
  readonly sha256?: string
  readonly changedSince?: boolean
}

const waitMsDefault = 15_000
// Beyond this a deliverable is a directory, and should be claimed as one.
const changesMax = 100_000

export function viewEvidence(options: EvidenceOptions) {
  const { view, clock, waitMs = waitMsDefault } = options
  const source = (): ViewSource | undefined => {
    if (options.sourceId !== undefined) return view.sources.get(options.sourceId)
    return view.sources.size === 1 ? [...view.sources.values()][0] : undefined
  }

  async function scanned(of: ViewSource, path: string, timeUp: AbortSignal): Promise<boolean> {
    const job = view.scan(of, path, false)
    await view.jobEnd(job, timeUp)
    return job.state === 'done'
  }

  async function findings(of: ViewSource, path: string, isChanged: ((path: string) => boolean) | undefined) {
    const node = of.tree.find(path)
    if (node === none) return { path, found: 'missing' } as const
    const sha256 = of.tree.isDirectory(node) ? undefined : await options.hash?.(path)
    return {
      path,
      found: 'present',
      size: of.tree.size(node),
      ...(sha256 === undefined ? {} : { sha256 }),
      ...(isChanged === undefined ? {} : { changedSince: isChanged(path) }),
    } as const
  }

  return {
    async changeToken(): Promise<string> {
      const of = source()
      return tokenNow(of === undefined ? [] : [of], clock.wallMs())
    },

    async look(paths: readonly string[], since: string | null): Promise<readonly FileFinding[]> {
      const of = source()
      if (of === undefined || !of.ready) return paths.map((path) => ({ path, found: 'not_ready' }))
      const over = new AbortController()
      const timeUp = clock.sleep(waitMs, over.signal).then(() => over.abort())
      try {
        await view.sync([of], 'leader', timeUp)
        const done = await Promise.all(paths.map((path) => known(path, (plain) => scanned(of, plain, over.signal))))
        const isChanged = since === null ? undefined : changed(of, since, clock.wallMs())
        const told: FileFinding[] = []
        for (const [at, path] of paths.entries()) {
          if (done[at] === undefined) told.push({ path, found: 'missing' })
          else if (!done[at] || of.tree !== source()?.tree) told.push({ path, found: 'not_ready' })
          else told.push({ ...(await findings(of, absolute(path), isChanged)), path })
        }
        return told
      } finally {
        over.abort()
      }
    },
  }
}

const absolute = (path: string) => (path.startsWith('/') ? path : `/${path.replace(/^(?:\.\/)+/, '')}`)

/** Undefined for what cannot be a path of this view: it is not there, and looking will not help. */
async function known(path: string, look: (path: string) => Promise<boolean>): Promise<boolean | undefined> {
  try {
    return await look(absolute(path))
  } catch (error) {
    if (error instanceof InvalidInput) return undefined
    throw error
  }
}

/** Whether a path's content changed since the token; marks that came and went (suspect, silent) are no change of content. */
function changed(of: ViewSource, since: string, nowMs: number): (path: string) => boolean {
  const told = readToken(since)
  const found = new Set<string>()
  let token = since
  for (let more = true; more && found.size < changesMax;) {
    const next = changesSince([of], token, nowMs, changesMax)
    // Too old, or of another run: nothing is known to be unchanged.
    if (next.fresh_instance || told === undefined) return () => true
    for (const { path } of next.changes) found.add(path)
    token = next.token
    more = next.more
  }
  return (path) => {
    const node = of.tree.find(path)
    if (node === none || !found.has(path)) return false
    const { tree, pipe } = of
    if (tree.lastUpdatedAt(node) >= told!.at || tree.has(node, flag.blindSpot)) return true
    return tree.modifiedTime(node) >= Math.floor(pipe.source.clock.watermark(told!.at / 1_000))
  }
}
