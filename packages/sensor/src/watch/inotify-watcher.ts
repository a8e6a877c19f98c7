/**
 * From kernel events to rows. Always: what is told is what a look shows now, never what an event supposes; a new watch is
 * followed by a listing, so that nothing made before the watch goes unseen; a directory that moved is a delete there and
 * a new directory here; after an overflow every watched directory is listed again. Deletes that an overflow swallowed
 * are left to the audit that the overflow asks for. Works in slices: between two of them the kernel's queue is emptied.
 */
import { childOf, nameOf, parentOf, type Disk, type Found } from '../disk/disk.js'
import { goneRow, rowText } from '../disk/row.js'
import type { DirectoryTime } from './hot-set.js'
import { Changes, type Change } from './changes.js'
import { mask, type Inotify, type RawEvent } from './inotify.js'
import { RowCollector } from './row-collector.js'
import { WatchSet } from './watch-set.js'
import { noStats, type Part, type Watcher, type WatchStats } from './messages.js'

export interface InotifyWatcherOptions {
  readonly disk: Disk
  readonly inotify: Inotify
  readonly limit: number
  /** Seconds since the epoch on the file server's clock. */
  readonly serverNow: () => number
  readonly monotonicMs: () => number
  /** A file that nobody touched for this long is taken for complete. */
  readonly hotSeconds: number
  readonly partialPauseMs: number
}

// About 10 ms of looking: the kernel's queue of 16,384 events does not fill in that time.
const sliceMax = 2_000
// Reported and not looked at; more stay in the kernel's queue, whose overflow says so.
const pendingMax = 400_000
// Files that are being written; beyond it the oldest is taken for closed.
const openMax = 100_000
const rowsPerPart = 1_000

export class InotifyWatcher implements Watcher {
  readonly stats: WatchStats = noStats()
  readonly #options: InotifyWatcherOptions
  readonly #set: WatchSet
  readonly #changes: Changes
  readonly #rows = new RowCollector(rowsPerPart)
  /** Directories to watch and list, unless their time is still the one given. Those before `#listed` are done. */
  #listings: { readonly path: string; readonly unless?: number }[] = []
  #listed = 0
  /** Given up while events of theirs were still under way. */
  readonly #evicted = new Map<number, string>()
  readonly #open = new Set<string>()
  /** Directories whose own time may have moved. */
  readonly #touched = new Set<string>()
  #overflowed = false

  constructor(options: InotifyWatcherOptions) {
    this.#options = options
    this.#set = new WatchSet(options.limit)
    this.#changes = new Changes(options.partialPauseMs)
  }

  watch(directories: readonly DirectoryTime[], tell: boolean): void {
    for (const { path, mtime } of directories) this.#listings.push(tell ? { path } : { path, unless: mtime })
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
    for (const change of changes) this.#look(change)
    for (let rows = changes.length; rows < sliceMax && this.#listed < this.#listings.length; this.#listed += 1) {
      const next = this.#listings[this.#listed]!
      rows += 1 + this.#list(next.path, next.unless)
    }
    if (this.#listed === this.#listings.length) [this.#listings, this.#listed] = [[], 0]
    for (const path of this.#touched) this.#tellDirectory(path)
    this.#touched.clear()
    this.stats.watches = this.#set.size
    return this.#listings.length > 0 || this.#changes.hasReady || (all && this.#changes.hasPartial)
  }

  get hasDeletes(): boolean {
    return this.#rows.hasDeletes
  }
  take(): Part[] {
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
    } else if ((event.mask & (mask.deletedSelf | mask.movedSelf)) !== 0) this.#selfWent(event.watch)
    else {
      const directory = this.#set.pathOf(event.watch) ?? this.#evicted.get(event.watch)
      if (directory === undefined) return
      if (event.name === '') this.#touched.add(directory)
      else this.#changes.note(directory, event, this.#options.monotonicMs())
    }
  }

  /** A watched directory went; where its parent is watched too, that says so as well, and twice does no harm. */
  #selfWent(watch: number): void {
    const path = this.#set.pathOf(watch)
    if (path === undefined || path === '/' || this.#set.has(parentOf(path))) return
    this.#forgetUnder(path)
    if (this.#options.disk.look(path) === 'gone') this.#rows.add('delete', goneRow(path))
    else this.#listings.push({ path })
  }

  #look(change: Change): void {
    const { directory } = change
    this.#set.touch(directory)
    const path = childOf(directory, change.name)
    if (change.gone || change.arrived) this.#touched.add(directory)
    if (this.#options.disk.hides?.(path) === true) return
    if (change.gone) this.#tellGone(path, change)
    const found = this.#options.disk.look(path)
    if (typeof found === 'string') {
      if (found === 'gone') this.stats.vanished += change.gone ? 0 : 1
      else this.stats.denied += 1
      return
    }
    const isNew = change.gone || change.arrived
    if (found.isDirectory) {
      this.#rows.add(isNew ? 'insert' : 'update', rowText(path, found, { atomic: true }))
      // One that was created since, and found by its parent's listing, is watched and listed already.
      const isListed = !change.gone && change.writing === 'open' && this.#set.has(path)
      if (isNew && !isListed) this.#listings.push({ path })
      return
    }
    const atomic = this.#isWhole(path, found, change.writing)
    this.#rows.add(isNew ? 'insert' : 'update', rowText(path, found, { atomic }))
  }

  #tellGone(path: string, change: Change): void {
    this.#open.delete(path)
    this.#rows.add('delete', goneRow(path))
    if (!change.goneDirectory) return
    // A directory can be removed only when it is empty: what was below has said so. One that moved took it along.
    if (change.movedAway || change.arrived) this.#forgetUnder(path)
    else this.#unwatch(path)
  }

  #isWhole(path: string, found: Found, writing: Change['writing']): boolean {
    if (writing === 'closed') this.#open.delete(path)
    // Links, sockets and further names of a file are made whole.
    else if (writing === 'open' && found.isRegular && found.links < 2) {
      this.#open.add(path)
      if (this.#open.size > openMax) for (const oldest of this.#open) return this.#open.delete(oldest) && false
    }
    return !this.#open.has(path)
  }

  /** Watches, then lists: in this order nothing falls between. Answers how many entries it saw. */
  #list(path: string, unless: number | undefined): number {
    const { disk, serverNow, hotSeconds } = this.#options
    const known = this.#set.has(path)
    if (!this.#addWatch(path)) {
      if (known) this.#forgetUnder(path)
      if (known) this.#rows.add('delete', goneRow(path))
      return 0
    }
    if (unless !== undefined && this.#timeOf(path) === unless) return 0
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
    else if (typeof listed === 'string') this.stats.denied += 1
    else this.stats.vanished += listed.vanished
    this.#touched.add(path)
    return count
  }

  /**
   * False: there is nothing to list. Adding again is how a directory that took another's place gets its own watch. One
   * that cannot be watched is still told of, and left to the audit.
   */
  #addWatch(path: string): boolean {
    const { inotify } = this.#options
    const before = this.#set.watchOf(path)
    if (before === undefined) this.#evict(this.#set.crowded())
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
    const found = this.#options.disk.look(path)
    return typeof found === 'string' ? undefined : found.mtime
  }

  #tellDirectory(path: string): void {
    const found = this.#options.disk.look(path)
    if (typeof found === 'string' || !found.isDirectory) return
    found.name = nameOf(path)
    this.#rows.add('update', rowText(path, found, { atomic: true }))
  }
}
