/**
 * Turns kernel events into rows. A row reports what the disk shows now, never what an event implies. No change is missed without a
 * notice: each new watch is followed by a listing, and after an overflow every watched directory is listed again and an audit follows.
 */
import { childOf, nameOf, parentOf, type DiskEntry } from '../disk/disk.js'
import { deletedRow, rowText } from '../disk/row.js'
import type { DirectoryTime } from './hot-set.js'
import { Changes, type Change } from './changes.js'
import { mask, type Inotify, type RawEvent } from './inotify.js'
import { RowCollector } from './row-collector.js'
import { WatchSet } from './watch-set.js'
import { noStats, type RowGroup, type Watcher, type WatcherOptions, type WatchStats } from './messages.js'

export interface InotifyWatcherOptions extends WatcherOptions {
  readonly inotify: Inotify
  readonly partialPauseMs: number
}

// About 10 ms of work: the kernel's queue of 16,384 events does not fill in that time.
const sliceMax = 2_000
// Unhandled changes; further events stay in the kernel's queue, which reports its overflow.
const pendingMax = 400_000
// Files being written; above it the oldest counts as closed.
const openMax = 100_000

interface Listing {
  readonly path: string
  /** Do not list the directory if it still has this mtime. */
  readonly knownMtime?: number
  /** Do not list the directory unless it is newer than the view knows it. */
  readonly viewMtime?: number
}

export class InotifyWatcher implements Watcher {
  readonly stats: WatchStats = noStats()
  readonly #options: InotifyWatcherOptions
  readonly #set: WatchSet
  readonly #changes: Changes
  readonly #rows = new RowCollector()
  /** Directories to watch and to list. Those before `#listed` are done. */
  #listings: Listing[] = []
  #listed = 0
  /** Evicted watches whose events may still be in the queue. */
  readonly #evicted = new Map<number, string>()
  readonly #open = new Set<string>()
  /** Directories whose mtime may have changed. */
  readonly #touched = new Set<string>()
  #overflowed = false

  constructor(options: InotifyWatcherOptions) {
    this.#options = options
    this.#set = new WatchSet(options.limit)
    this.#changes = new Changes(options.partialPauseMs)
  }

  watch(directories: readonly DirectoryTime[], report: boolean): void {
    for (const { path, mtime } of directories) this.#listings.push(report ? { path } : { path, knownMtime: mtime })
  }

  follow(directories: readonly DirectoryTime[], since: number): void {
    let room = this.#set.limit - this.#set.size
    for (const { path, mtime } of directories) {
      if (this.#set.has(path)) continue
      room -= 1
      if (room >= 0 || mtime >= since) this.#listings.push({ path, viewMtime: mtime })
      else this.stats.unwatched += 1
    }
  }

  rescan(): void {
    this.#listings.push(...this.#set.paths().map((path) => ({ path })))
  }

  drain(): boolean {
    const note = (event: RawEvent) => this.#note(event)
    while (this.#changes.size < pendingMax && this.#options.inotify.drain(note)) continue
    if (!this.#overflowed) return false
    this.#overflowed = false
    this.stats.overflows += 1
    this.rescan()
    return true
  }

  step(all: boolean): boolean {
    const changes = this.#changes.take(sliceMax, this.#options.monotonicMs(), all)
    for (const change of changes) this.#report(change)
    for (let rows = changes.length; rows < sliceMax && this.#listed < this.#listings.length; this.#listed += 1) {
      const next = this.#listings[this.#listed]!
      rows += 1 + this.#list(next)
    }
    if (this.#listed === this.#listings.length) [this.#listings, this.#listed] = [[], 0]
    for (const path of this.#touched) this.#reportDirectory(path)
    this.#touched.clear()
    this.stats.watches = this.#set.size
    return this.#listings.length > 0 || this.#changes.hasReady || (all && this.#changes.hasPartial)
  }

  get hasDeletes(): boolean {
    return this.#rows.hasDeletes
  }
  take(): RowGroup[] {
    return this.#rows.take()
  }
  wait(ms: number): void {
    this.#options.inotify.wait(this.#changes.hasPartial ? Math.min(ms, this.#options.partialPauseMs) : ms)
  }
  close(): void {
    this.#options.inotify.close()
  }

  #note(event: RawEvent): void {
    if ((event.mask & mask.overflow) !== 0) this.#overflowed = true
    else if ((event.mask & mask.ignored) !== 0) {
      this.#set.forget(event.watch)
      this.#evicted.delete(event.watch)
    } else if ((event.mask & (mask.deletedSelf | mask.movedSelf)) !== 0) this.#directoryRemoved(event.watch)
    else {
      const directory = this.#set.pathOf(event.watch) ?? this.#evicted.get(event.watch)
      if (directory === undefined) return
      if (event.name === '') this.#touched.add(directory)
      else this.#changes.note(directory, event, this.#options.monotonicMs())
    }
  }

  /** A watched directory was removed. If its parent is watched too, the parent's event reports it. */
  #directoryRemoved(watch: number): void {
    const path = this.#set.pathOf(watch)
    if (path === undefined || path === '/' || this.#set.has(parentOf(path))) return
    this.#forgetUnder(path)
    if (this.#options.disk.stat(path) === 'gone') this.#rows.add('delete', deletedRow(path))
    else this.#listings.push({ path })
  }

  #report(change: Change): void {
    const { directory } = change
    this.#set.touch(directory)
    const path = childOf(directory, change.name)
    if (change.gone || change.arrived) this.#touched.add(directory)
    if (this.#options.disk.isExcluded?.(path) === true) return
    if (change.gone) this.#reportDeleted(path, change)
    const found = this.#options.disk.stat(path)
    if (typeof found === 'string') {
      if (found === 'gone') this.stats.vanished += change.gone ? 0 : 1
      else this.stats.denied += 1
      return
    }
    const isNew = change.gone || change.arrived
    if (found.isDirectory) {
      this.#rows.add(isNew ? 'insert' : 'update', rowText(path, found, { atomic: true }))
      // A directory that its parent's listing has found is already watched and listed.
      const isListed = !change.gone && change.writing === 'open' && this.#set.has(path)
      if (isNew && !isListed) this.#listings.push({ path })
      return
    }
    const atomic = this.#isComplete(path, found, change.writing)
    this.#rows.add(isNew ? 'insert' : 'update', rowText(path, found, { atomic }))
  }

  #reportDeleted(path: string, change: Change): void {
    this.#open.delete(path)
    this.#rows.add('delete', deletedRow(path))
    if (!change.goneDirectory) return
    // Only an empty directory can be deleted, so its entries were reported before. A moved one takes its entries along.
    if (change.movedAway || change.arrived) this.#forgetUnder(path)
    else this.#unwatch(path)
  }

  #isComplete(path: string, found: DiskEntry, writing: Change['writing']): boolean {
    if (writing === 'closed') this.#open.delete(path)
    // Links, sockets and additional hard links are complete at once.
    else if (writing === 'open' && found.isRegular && found.links < 2) {
      this.#open.add(path)
      if (this.#open.size > openMax) for (const oldest of this.#open) return this.#open.delete(oldest) && false
    }
    return !this.#open.has(path)
  }

  /** Watches, then lists, so that no change is missed in between. Returns how many entries it saw. */
  #list({ path, knownMtime, viewMtime }: Listing): number {
    const { disk, serverNow, hotSeconds } = this.#options
    const known = this.#set.has(path)
    if (!this.#addWatch(path)) {
      if (known) this.#forgetUnder(path)
      if (known) this.#rows.add('delete', deletedRow(path))
      return 0
    }
    if (knownMtime !== undefined && this.#timeOf(path) === knownMtime) return 0
    // The view has this directory from another host. A listing that is not newer would repeat what an old cache shows.
    if (viewMtime !== undefined && (this.#timeOf(path) ?? 0) <= viewMtime) return 0
    const hotSince = serverNow() - hotSeconds
    let count = 0
    const listed = disk.list(path, (found) => {
      count += 1
      const child = childOf(path, found.name)
      if (found.isDirectory && !this.#set.has(child)) this.#listings.push({ path: child })
      const atomic = found.isDirectory || !found.isRegular || (found.mtime < hotSince && !this.#open.has(child))
      this.#rows.add('insert', rowText(child, found, { atomic }))
    })
    if (listed === 'gone') this.#unwatch(path)
    else if (typeof listed === 'string') this.#reportUnreadable(path)
    else this.stats.vanished += listed.vanished
    this.#touched.add(path)
    return count
  }

  /**
   * Returns false if there is nothing to list. Adding a watch again gives a directory that replaced another its own watch. A
   * directory that cannot be watched is still reported; audits cover it.
   */
  #addWatch(path: string): boolean {
    const { inotify } = this.#options
    const before = this.#set.watchOf(path)
    if (before === undefined) this.#evict(this.#set.toEvict())
    let watch = inotify.add(path)
    if (watch === 'full') {
      this.#evict(this.#set.quietest())
      watch = inotify.add(path)
    }
    if (typeof watch === 'number') {
      if (before !== undefined && before !== watch) this.#unwatch(path)
      this.#set.add(path, watch)
      return true
    }
    if (watch === 'gone') this.stats.vanished += 1
    else if (watch === 'denied') this.stats.denied += 1
    else this.stats.unwatched += 1
    return watch !== 'gone'
  }

  #evict(path: string | undefined): void {
    const watch = path === undefined ? undefined : this.#set.remove(path)
    if (watch === undefined || path === undefined) return
    this.#evicted.set(watch, path)
    this.#options.inotify.remove(watch)
    this.stats.evictions += 1
  }

  #unwatch(path: string): void {
    const watch = this.#set.remove(path)
    if (watch !== undefined) this.#options.inotify.remove(watch)
  }
  #forgetUnder(path: string): void {
    for (const watch of this.#set.removeUnder(path)) this.#options.inotify.remove(watch)
  }

  #timeOf(path: string): number | undefined {
    const found = this.#options.disk.stat(path)
    return typeof found === 'string' ? undefined : found.mtime
  }

  #reportUnreadable(path: string): void {
    this.stats.denied += 1
    const found = this.#options.disk.stat(path)
    if (typeof found !== 'string') this.#rows.add('update', rowText(path, found, { unreadable: true }))
  }

  #reportDirectory(path: string): void {
    const found = this.#options.disk.stat(path)
    if (typeof found === 'string' || !found.isDirectory) return
    found.name = nameOf(path)
    this.#rows.add('update', rowText(path, found, { atomic: true }))
  }
}
