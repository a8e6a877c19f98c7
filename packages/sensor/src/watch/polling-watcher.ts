/**
 * The watcher without inotify: lists the hot directories repeatedly and reports differences. It cannot see a file being closed,
 * so a recent change counts as a partial write, and it misses entries that exist only between two rounds. The number of
 * remembered entries is bounded; audits cover the other directories.
 */
import { childOf } from '../disk/disk.js'
import { deletedRow, rowText } from '../disk/row.js'
import type { DirectoryTime } from './hot-set.js'
import { RowCollector } from './row-collector.js'
import { noStats, type RowGroup, type Watcher, type WatcherOptions, type WatchStats } from './messages.js'

export interface PollingWatcherOptions extends WatcherOptions {
  readonly pollMs: number
  readonly sleep: (ms: number) => void
}

// 1,000,000 names with mtime and size take about 150 MB.
const entriesMax = 1_000_000
const sliceMax = 2_000

export class PollingWatcher implements Watcher {
  readonly stats: WatchStats = noStats()
  readonly #options: PollingWatcherOptions
  /** The entries of each directory at its last listing; undefined if it was not listed yet. */
  readonly #known = new Map<string, Map<string, string> | undefined>()
  /** Directories whose first listing is not reported. */
  readonly #unreported = new Set<string>()
  readonly #rows = new RowCollector()
  #round: string[] = []
  #entries = 0
  #nextRoundMs = 0

  constructor(options: PollingWatcherOptions) {
    this.#options = options
  }

  watch(directories: readonly DirectoryTime[], report: boolean): void {
    for (const { path } of directories) this.#add(path, report)
  }

  follow(directories: readonly DirectoryTime[]): void {
    this.watch(directories, false)
  }

  #add(path: string, report: boolean): void {
    if (this.#known.has(path)) return
    if (this.#known.size >= this.#options.limit || this.#entries >= entriesMax) {
      this.stats.unwatched += 1
      return
    }
    this.#known.set(path, undefined)
    if (!report) this.#unreported.add(path)
    this.#round.push(path)
  }

  rescan(): void {
    for (const path of this.#known.keys()) this.#known.set(path, undefined)
    this.#unreported.clear()
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
    const report = !this.#unreported.delete(path)
    const now = new Map<string, string>()
    const hotSince = serverNow() - hotSeconds
    const found: string[] = []
    const listed = disk.list(path, (entry) => {
      const mark = `${entry.isDirectory ? 'd' : entry.isSymlink ? 'l' : 'f'}${entry.mtime}:${entry.size}`
      now.set(entry.name, mark)
      const child = childOf(path, entry.name)
      if (entry.isDirectory && !this.#known.has(child)) found.push(child)
      const old = before?.get(entry.name)
      if (old === mark || !report) return
      if (old !== undefined && old[0] !== mark[0]) this.#rows.add('delete', deletedRow(child))
      const atomic = !entry.isRegular || entry.mtime < hotSince
      this.#rows.add(old === undefined ? 'insert' : 'update', rowText(child, entry, { atomic }))
    })
    if (listed === 'gone') {
      this.#forget(path)
      if (path !== '/') this.#rows.add('delete', deletedRow(path))
      return 0
    }
    if (typeof listed === 'string') {
      this.stats.denied += 1
      return 0
    }
    for (const [name, mark] of before ?? []) {
      if (now.has(name)) continue
      this.#rows.add('delete', deletedRow(childOf(path, name)))
      if (mark.startsWith('d')) this.#forget(childOf(path, name))
    }
    for (const child of found) this.#add(child, report)
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
  take(): RowGroup[] {
    return this.#rows.take()
  }
  wait(ms: number): void {
    this.#options.sleep(Math.min(ms, this.#options.pollMs))
  }
  close(): void {
    this.#known.clear()
  }
}
