/**
 * Passes the realtime events of one source to several pipes, in order. The bus is bounded in rows and in characters: a pipe that falls
 * behind by more than the bus holds loses its position, learns so once and decides how to recover. While even the fastest pipe is far
 * behind, the bus pauses the watcher.
 */
import { onAbort } from '@bellwether/base'
import { eventText } from '../disk/row.js'
import type { RowGroup } from '../watch/messages.js'

interface Item {
  readonly text: string
  readonly count: number
  /** Rows published before it. */
  readonly from: number
}

export interface EventBatch {
  /** Events as JSON text, without the list brackets. */
  readonly text: string
  readonly count: number
  /** The position after them. */
  readonly end: number
}

export interface Subscription {
  /** The next events, at most `maxRows` rows and about `maxLength` characters; `lost` once after unread rows were dropped; undefined if there are none. */
  peek(maxRows: number, maxLength?: number): EventBatch | 'lost' | undefined
  /** Moves the position behind delivered events. */
  advance(end: number): void
  /** Rows that this subscription has not read. */
  lag(): number
  position(): number
  /** Resolves when there are events to peek at, or the signal aborts. */
  arrival(signal: AbortSignal): Promise<void>
  close(): void
}

// Characters per row, on average; rows with very long paths reach the limit in characters before the one in rows.
const rowLength = 400

export class EventBus {
  readonly #capacity: number
  readonly #capacityLength: number
  readonly #setPaused: (on: boolean) => void
  #items: Item[] = []
  /** The characters of all items. */
  #length = 0
  #end = 0
  readonly #readers = new Set<Reader>()

  /** Calls `setPaused` when the watcher should stop, and when it may continue. */
  constructor(capacityRows: number, setPaused: (on: boolean) => void, capacityLength = capacityRows * rowLength) {
    this.#capacity = capacityRows
    this.#capacityLength = capacityLength
    this.#setPaused = setPaused
  }

  get end(): number {
    return this.#end
  }

  publish(parts: readonly RowGroup[], indexMs: number): void {
    for (const { type, rows, count } of parts) {
      const text = eventText(type, 'realtime', indexMs, rows)
      this.#items.push({ text, count, from: this.#end })
      this.#end += count
      this.#length += text.length
    }
    let [drop, left] = [0, this.#length]
    for (; drop < this.#items.length - 1; drop += 1) {
      const { from, text } = this.#items[drop]!
      if (this.#end - from <= this.#capacity && left <= this.#capacityLength) break
      left -= text.length
    }
    this.#dropFirst(drop)
    this.#settle()
    for (const reader of this.#readers) reader.ring()
  }

  /** The watcher was interrupted: every pipe loses its position. */
  interrupt(): void {
    for (const reader of this.#readers) reader.markLost()
  }

  subscribe(): Subscription {
    const reader = new Reader(this, this.#end)
    this.#readers.add(reader)
    return reader
  }

  unsubscribe(reader: Reader): void {
    this.#readers.delete(reader)
    this.#settle()
  }

  /** Drops what every pipe has read; pauses the watcher while no pipe keeps up. */
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
    this.#dropFirst(read)
    const fastest = Math.max(...positions, positions.length === 0 ? this.#end : 0)
    this.#setPaused(
      this.#end - fastest >= this.#capacity / 2 || this.#unreadLength(fastest) >= this.#capacityLength / 2,
    )
  }

  #unreadLength(position: number): number {
    if (this.#length < this.#capacityLength / 2) return 0
    return this.#items.slice(firstFrom(this.#items, position)).reduce((sum, { text }) => sum + text.length, 0)
  }

  #dropFirst(count: number): void {
    if (count === 0) return
    for (const { text } of this.#items.slice(0, count)) this.#length -= text.length
    this.#items = this.#items.slice(count)
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

  peek(maxRows: number, maxLength = Infinity): EventBatch | 'lost' | undefined {
    if (this.#lost || this.#position < this.#bus.start) {
      this.#lost = false
      this.#position = Math.max(this.#position, this.#bus.start)
      return 'lost'
    }
    const texts: string[] = []
    let [count, length] = [0, 0]
    const items = this.#bus.items()
    for (let at = firstFrom(items, this.#position); at < items.length; at += 1) {
      const item = items[at]!
      if (count > 0 && (count + item.count > maxRows || length + item.text.length > maxLength)) break
      texts.push(item.text)
      count += item.count
      length += item.text.length
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
        release()
        resolve()
      }
      const release = onAbort(signal, done)
      this.#waiting.push(done)
    })
  }
  ring(): void {
    for (const wake of this.#waiting.splice(0)) wake()
  }
  markLost(): void {
    this.#lost = true
    this.ring()
  }
  close(): void {
    this.#bus.unsubscribe(this)
    this.ring()
  }
}

/** The index of the first item at or after a position. */
function firstFrom(items: readonly Item[], position: number): number {
  let [low, high] = [0, items.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (items[middle]!.from < position) low = middle + 1
    else high = middle
  }
  return low
}
