/**
 * The events of one source on their way to several pipes. Always: bounded in rows; each pipe reads at its own pace, in
 * order; one that falls behind by more than the bus holds has lost its position and is told so once; while even the
 * fastest is far behind, the source is held. What a lost position costs is left to the pipe.
 */
import { eventText } from '../disk/row.js'
import type { Part } from '../watch/messages.js'

interface Item {
  readonly text: string
  readonly count: number
  /** Rows published before it. */
  readonly from: number
}

export interface Taken {
  /** Events as JSON text, to stand between the brackets. */
  readonly text: string
  readonly count: number
  /** The position after them. */
  readonly end: number
}

export interface Subscription {
  /** The next events, at most `maxRows` rows; `lost` once after rows were dropped unread; undefined: nothing new. */
  peek(maxRows: number): Taken | 'lost' | undefined
  /** They have arrived: go on behind them. */
  advance(end: number): void
  /** Rows that wait. */
  lag(): number
  position(): number
  /** Resolves when there is something to peek at, or the signal fires. */
  arrival(signal: AbortSignal): Promise<void>
  close(): void
}

export class EventBus {
  readonly #capacity: number
  readonly #hold: (on: boolean) => void
  #items: Item[] = []
  #end = 0
  readonly #readers = new Set<Reader>()

  /** `hold`: told whenever the source should stop, or may go on. */
  constructor(capacityRows: number, hold: (on: boolean) => void) {
    this.#capacity = capacityRows
    this.#hold = hold
  }

  get end(): number {
    return this.#end
  }

  publish(parts: readonly Part[], indexMs: number): void {
    for (const { type, rows, count } of parts) {
      this.#items.push({ text: eventText(type, 'realtime', indexMs, rows), count, from: this.#end })
      this.#end += count
    }
    let drop = 0
    while (drop < this.#items.length - 1 && this.#end - this.#items[drop]!.from > this.#capacity) drop += 1
    if (drop > 0) this.#items = this.#items.slice(drop)
    this.#settle()
    for (const reader of this.#readers) reader.ring()
  }

  /** The source was away: every pipe has lost its position. */
  interrupt(): void {
    for (const reader of this.#readers) reader.lose()
  }

  subscribe(): Subscription {
    const reader = new Reader(this, this.#end)
    this.#readers.add(reader)
    return reader
  }

  leave(reader: Reader): void {
    this.#readers.delete(reader)
    this.#settle()
  }

  /** Forgets what everybody has read; holds the source while nobody keeps up. */
  settle(): void {
    this.#settle()
  }

  items(): readonly Item[] {
    return this.#items
  }
  get start(): number {
    return this.#items[0]?.from ?? this.#end
  }

  #settle(): void {
    const positions = [...this.#readers].map((reader) => reader.position())
    const slowest = Math.min(this.#end, ...positions)
    let read = 0
    while (read < this.#items.length && this.#items[read]!.from + this.#items[read]!.count <= slowest) read += 1
    if (read > 0) this.#items = this.#items.slice(read)
    const fastest = Math.max(...positions, positions.length === 0 ? this.#end : 0)
    this.#hold(this.#end - fastest >= this.#capacity / 2)
  }
}

class Reader implements Subscription {
  readonly #bus: EventBus
  #position: number
  #lost = false
  #waiting: (() => void)[] = []

  constructor(bus: EventBus, position: number) {
    this.#bus = bus
    this.#position = position
  }

  peek(maxRows: number): Taken | 'lost' | undefined {
    if (this.#lost || this.#position < this.#bus.start) {
      this.#lost = false
      this.#position = Math.max(this.#position, this.#bus.start)
      return 'lost'
    }
    const texts: string[] = []
    let count = 0
    const items = this.#bus.items()
    for (let at = firstFrom(items, this.#position); at < items.length; at += 1) {
      const item = items[at]!
      if (count > 0 && count + item.count > maxRows) break
      texts.push(item.text)
      count += item.count
    }
    return count === 0 ? undefined : { text: texts.join(','), count, end: this.#position + count }
  }

  advance(end: number): void {
    this.#position = Math.max(this.#position, end)
    this.#bus.settle()
  }
  position(): number {
    return this.#position
  }
  lag(): number {
    return this.#bus.end - this.#position
  }

  arrival(signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#lost || this.lag() > 0) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        signal.removeEventListener('abort', done)
        resolve()
      }
      signal.addEventListener('abort', done, { once: true })
      this.#waiting.push(done)
    })
  }
  ring(): void {
    for (const wake of this.#waiting.splice(0)) wake()
  }
  lose(): void {
    this.#lost = true
    this.ring()
  }
  close(): void {
    this.#bus.leave(this)
    this.ring()
  }
}

/** Where the items at or behind a position begin. */
function firstFrom(items: readonly Item[], position: number): number {
  let [low, high] = [0, items.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (items[middle]!.from < position) low = middle + 1
    else high = middle
  }
  return low
}
