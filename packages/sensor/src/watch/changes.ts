/**
 * What the kernel reported and nobody has looked at yet, one entry a name: a file that was created, written a hundred
 * times and closed is looked at once. Pure. Always: entries keep the order of their first report; nothing is lost by
 * merging, because a look says what is there now and the entry remembers what the look cannot: that the old one went,
 * and whether the last writer has closed.
 */
import type { RawEvent } from './inotify.js'
import { mask } from './inotify.js'

export interface Change {
  /** Where it was when the kernel reported it. */
  readonly directory: string
  readonly name: string
  /** Deleted or moved away at some time in between. */
  gone: boolean
  /** The last of them was a move: what was below lives on elsewhere. */
  movedAway: boolean
  goneDirectory: boolean
  /** Created or moved here. */
  arrived: boolean
  /** open: written and not closed; closed: written and closed, or moved here whole; same: neither. */
  writing: 'open' | 'closed' | 'same'
  sinceMs: number
}

export class Changes {
  readonly #ready = new Map<string, Change>()
  /** Written and not closed, nothing else: told after a pause, because a busy writer reports every write. */
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

  /** Takes the next ones, oldest first; `all` takes also those that would wait. */
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
