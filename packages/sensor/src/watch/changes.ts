/**
 * Collects kernel events until the watcher handles them, one change per name: a file that was created, written a hundred times
 * and closed is read once. Pure. Changes keep the order of their first event. Merging loses nothing: reading the file shows
 * its current state, and the change records what the read cannot show, such as a deletion or an open writer.
 */
import type { RawEvent } from './inotify.js'
import { mask } from './inotify.js'

export interface Change {
  /** The directory at the time of the event. */
  readonly directory: string
  readonly name: string
  /** Deleted or moved away since the first event. */
  gone: boolean
  /** The last removal was a move: everything below still exists elsewhere. */
  movedAway: boolean
  goneDirectory: boolean
  /** Created or moved here. */
  arrived: boolean
  /** open: written and not closed; closed: written and closed, or moved here complete; same: not written. */
  writing: 'open' | 'closed' | 'same'
  sinceMs: number
}

export class Changes {
  readonly #ready = new Map<string, Change>()
  /** Only written and not closed: reported after a pause, because a busy writer causes an event per write. */
  readonly #partial = new Map<string, Change>()
  readonly #pauseMs: number

  constructor(pauseMs: number) {
    this.#pauseMs = pauseMs
  }

  get size(): number {
    return this.#ready.size + this.#partial.size
  }

  note(directory: string, event: RawEvent, nowMs: number): void {
    const key = `${directory}/${event.name}`
    const waiting = this.#partial.get(key)
    const change = this.#ready.get(key) ?? waiting ?? fresh(directory, event.name, nowMs)
    merge(change, event.mask)
    if (change.writing === 'open' && !change.gone && !change.arrived) {
      if (!this.#ready.has(key)) this.#partial.set(key, change)
      return
    }
    if (waiting !== undefined) this.#partial.delete(key)
    this.#ready.set(key, change)
  }

  /** Takes the next changes, oldest first; `all` includes those that would wait. */
  take(max: number, nowMs: number, all: boolean): Change[] {
    const taken: Change[] = []
    for (const [key, change] of this.#partial) {
      if (!all && nowMs - change.sinceMs < this.#pauseMs) break
      this.#partial.delete(key)
      this.#ready.set(key, change)
    }
    for (const [key, change] of this.#ready) {
      if (taken.length >= max) break
      this.#ready.delete(key)
      taken.push(change)
    }
    return taken
  }

  get hasReady(): boolean {
    return this.#ready.size > 0
  }
  get hasPartial(): boolean {
    return this.#partial.size > 0
  }
}

function fresh(directory: string, name: string, sinceMs: number): Change {
  const nothing = { gone: false, movedAway: false, goneDirectory: false, arrived: false }
  return { directory, name, ...nothing, writing: 'same', sinceMs }
}

function merge(change: Change, bits: number): void {
  if ((bits & (mask.deleted | mask.movedFrom)) !== 0) {
    change.gone = true
    change.movedAway = (bits & mask.movedFrom) !== 0
    change.goneDirectory ||= (bits & mask.isDirectory) !== 0
    change.writing = 'same'
  }
  if ((bits & (mask.created | mask.movedTo)) !== 0) change.arrived = true
  if ((bits & (mask.created | mask.modified)) !== 0) change.writing = 'open'
  if ((bits & (mask.closedWrite | mask.movedTo)) !== 0) change.writing = 'closed'
}
