/**
 * Where there is no inotify: the hot directories are listed again and again, and what differs is told. It cannot see a
 * close, so a change of a young file is told as still being written; it misses what came and went between two rounds. Memory
 * is bounded by entries: directories beyond it are left to the audit.
 */
import { childOf, type Disk } from '../disk/disk.js'
import { goneRow, rowText } from '../disk/row.js'
import type { DirectoryTime } from './hot-set.js'
import { RowCollector } from './row-collector.js'
import { noStats, type Part, type Watcher, type WatchStats } from './messages.js'

export interface PollingWatcherOptions {
  readonly disk: Disk
  readonly limit: number
  readonly serverNow: () => number
  readonly monotonicMs: () => number
  readonly hotSeconds: number
  readonly pollMs: number
  readonly sleep: (ms: number) => void
}

// 1,000,000 names with their marks are about 150 MB.
const entriesMax = 1_000_000
const sliceMax = 2_000
const rowsPerPart = 1_000

export class PollingWatcher implements Watcher {
  readonly stats: WatchStats = noStats()
  readonly #options: PollingWatcherOptions
  /** What each directory held when it was last listed; undefined: not listed yet, and `tell` says whether to report. */
  readonly #known = new Map<string, Map<string, string> | undefined>()
  readonly #quiet = new Set<string>()
  readonly #rows = new RowCollector(rowsPerPart)
  #round: string[] = []
  #entries = 0
  #nextRoundMs = 0

  constructor(options: PollingWatcherOptions) {
    this.#options = options
  }

  watch(directories: readonly DirectoryTime[], tell: boolean): void {
    for (const { path } of directories) this.#add(path, tell)
  }

  #add(path: string, tell: boolean): void {
    if (this.#known.has(path)) return
    if (this.#known.size >= this.#options.limit || this.#entries >= entriesMax) {
      this.stats.unwatched += 1
      return
    }
    this.#known.set(path, undefined)
    if (!tell) this.#quiet.add(path)
    this.#round.push(path)
  }

  rescan(): void {
    for (const path of this.#known.keys()) this.#known.set(path, undefined)
    this.#quiet.clear()
    this.#round = [...this.#known.keys()]
  }

  drain(): boolean {
    return false
  }

  step(all: boolean): boolean {
    const nowMs = this.#options.monotonicMs()
    if (this.#round.length === 0 && (all || nowMs >= this.#nextRoundMs)) {
      this.#round = [...this.#known.keys()]
      this.#nextRoundMs = nowMs + this.#options.pollMs
    }
    for (let seen = 0; (all || seen < sliceMax) && this.#round.length > 0;) seen += 1 + this.#list(this.#round.pop()!)
    this.stats.watches = this.#known.size
    return this.#round.length > 0
  }

  #list(path: string): number {
    const { disk, serverNow, hotSeconds } = this.#options
    if (!this.#known.has(path)) return 0
    const before = this.#known.get(path)
    const tell = !this.#quiet.delete(path)
    const now = new Map<string, string>()
    const hotSince = serverNow() - hotSeconds
    const found: string[] = []
    const listed = disk.list(path, (entry) => {
      const mark = `${entry.isDirectory ? 'd' : 'f'}${entry.mtime}:${entry.size}`
      now.set(entry.name, mark)
      const child = childOf(path, entry.name)
      if (entry.isDirectory && !this.#known.has(child)) found.push(child)
      const old = before?.get(entry.name)
      if (old === mark || !tell) return
      if (old !== undefined && old[0] !== mark[0]) this.#rows.add('delete', goneRow(child))
      const atomic = !entry.isRegular || entry.mtime < hotSince
      this.#rows.add(old === undefined ? 'insert' : 'update', rowText(child, entry, { atomic }))
    })
    if (listed === 'gone') {
      this.#forget(path)
      if (path !== '/') this.#rows.add('delete', goneRow(path))
      return 0
    }
    if (typeof listed === 'string') {
      this.stats.denied += 1
      return 0
    }
    for (const [name, mark] of before ?? []) {
      if (now.has(name)) continue
      this.#rows.add('delete', goneRow(childOf(path, name)))
      if (mark.startsWith('d')) this.#forget(childOf(path, name))
    }
    for (const child of found) this.#add(child, tell)
    this.#entries += now.size - (before?.size ?? 0)
    this.#known.set(path, now)
    return now.size
  }

  #forget(path: string): void {
    this.#entries -= this.#known.get(path)?.size ?? 0
    this.#known.delete(path)
  }

  get hasDeletes(): boolean {
    return this.#rows.hasDeletes
  }
  take(): Part[] {
    return this.#rows.take()
  }
  wait(ms: number): void {
    this.#options.sleep(Math.min(ms, this.#options.pollMs))
  }
  close(): void {
    this.#known.clear()
  }
}
