/**
 * The ids of the events that a snapshot covers, in a file next to it: 16 bytes per event, sorted by a fingerprint of the id,
 * with the byte offset of its line. Lookups are exact because the line in the log confirms each match. Memory: one to two
 * bytes per event. The same events give the same file.
 */
import { createHash } from 'node:crypto'
import { objectOf } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { LogFile } from '../../../ports/disk/disk.js'
import { lineAt } from '../lines/line-at.js'

const recordBytes = 16
/** Records per read: one disk block. */
const pageRecords = 256
// A Bloom filter with ten bits and four probes per id: one new id in a hundred needs a lookup in the file.
const bitsEach = 10
const probes = 4
const buckets = 65_536
const chunkRecords = 65_536

/** The contents of an index file. */
export interface IdRecords {
  readonly bytes: Buffer
  readonly count: number
  readonly sha256: string
}

type Ids = (visit: (bytes: Uint8Array, start: number, end: number, place: number) => void) => void

/** Merges the records of new events with those of an earlier index. */
export async function buildIdRecords(ids: Ids, before: EventIdIndex | undefined): Promise<IdRecords> {
  const [high, low, places]: [number[], number[], number[]] = [[], [], []]
  ids((bytes, start, end, place) => {
    high.push(fingerprint(bytes, start, end, highSeed))
    low.push(fingerprint(bytes, start, end, lowSeed))
    places.push(place)
  })
  const count = high.length + (before?.count ?? 0)
  const old = before === undefined ? Buffer.alloc(0) : await before.all()
  const oldWords = new Uint32Array(old.buffer, old.byteOffset, old.length / 4)
  const oldPlaces = new Float64Array(old.buffer, old.byteOffset, old.length / 8)
  const oldCount = before?.count ?? 0
  const highOf = (n: number) => (n < oldCount ? oldWords[n * 4]! : high[n - oldCount]!)
  const lowOf = (n: number) => (n < oldCount ? oldWords[n * 4 + 1]! : low[n - oldCount]!)
  const placeOf = (n: number) => (n < oldCount ? oldPlaces[n * 2 + 1]! : places[n - oldCount]!)
  // Bucket sort by the first 16 bits; a bucket holds a handful of records and is sorted alone.
  const starts = new Uint32Array(buckets + 1)
  for (let n = 0; n < count; n += 1) starts[(highOf(n) >>> 16) + 1]! += 1
  for (let b = 0; b < buckets; b += 1) starts[b + 1]! += starts[b]!
  const next = starts.slice()
  const order = new Uint32Array(count)
  for (let n = 0; n < count; n += 1) {
    const bucket = highOf(n) >>> 16
    order[next[bucket]!] = n
    next[bucket]! += 1
  }
  for (let b = 0; b < buckets; b += 1) {
    if (starts[b + 1]! - starts[b]! < 2) continue
    const bucket = order.subarray(starts[b], starts[b + 1])
    bucket.sort((x, y) => highOf(x) - highOf(y) || lowOf(x) - lowOf(y) || placeOf(x) - placeOf(y))
  }
  const bytes = Buffer.from(new ArrayBuffer(count * recordBytes))
  const words = new Uint32Array(bytes.buffer)
  const doubles = new Float64Array(bytes.buffer)
  for (let at = 0; at < count; at += 1) {
    const n = order[at]!
    words[at * 4] = highOf(n)
    words[at * 4 + 1] = lowOf(n)
    doubles[at * 2 + 1] = placeOf(n)
  }
  return { bytes, count, sha256: createHash('sha256').update(bytes).digest('hex') }
}

/** The index file was deleted or truncated while in use: the whole log must be read again. */
export class EventIdIndexLost extends Retryable {
  constructor() {
    super('Cannot read the index of earlier event ids.', { code: 'event_id_index_lost' })
  }
}

export class EventIdIndex {
  readonly count: number
  readonly #file: LogFile
  readonly #log: LogFile
  readonly #bits: Uint32Array
  /** The first half of the first fingerprint of each page. */
  readonly #firsts: Uint32Array

  private constructor(file: LogFile, log: LogFile, count: number) {
    this.#file = file
    this.#log = log
    this.count = count
    this.#bits = new Uint32Array(Math.max(1, 2 ** Math.ceil(Math.log2((count * bitsEach + 1) / 32))))
    this.#firsts = new Uint32Array(Math.ceil(count / pageRecords))
  }

  /** Reads the whole file once. Undefined: it does not have the expected count and hash. */
  static async open(
    file: LogFile,
    log: LogFile,
    expected: Pick<IdRecords, 'count' | 'sha256'>,
  ): Promise<EventIdIndex | undefined> {
    if ((await file.size()) !== expected.count * recordBytes) return undefined
    const ids = new EventIdIndex(file, log, expected.count)
    const hash = createHash('sha256')
    const chunk = Buffer.from(new ArrayBuffer(Math.min(chunkRecords, Math.max(1, expected.count)) * recordBytes))
    const words = new Uint32Array(chunk.buffer)
    for (let done = 0; done < expected.count;) {
      const wanted = Math.min(chunkRecords, expected.count - done)
      const part = chunk.subarray(0, wanted * recordBytes)
      if (!(await filled(file, part, done * recordBytes))) return undefined
      hash.update(part)
      for (let at = 0; at < wanted; at += 1) ids.#note(done + at, words[at * 4]!, words[at * 4 + 1]!)
      done += wanted
    }
    return hash.digest('hex') === expected.sha256 ? ids : undefined
  }

  #note(number: number, high: number, low: number): void {
    if (number % pageRecords === 0) this.#firsts[number / pageRecords] = high
    const mask = this.#bits.length * 32 - 1
    for (let probe = 0, at = high; probe < probes; probe += 1, at += low) {
      const bit = (at & mask) >>> 0
      this.#bits[bit >>> 5]! |= 1 << (bit & 31)
    }
  }

  /** False: no such event counted, for certain. */
  mayContain(bytes: Uint8Array, start: number, end: number): boolean {
    const high = fingerprint(bytes, start, end, highSeed)
    const low = fingerprint(bytes, start, end, lowSeed)
    const mask = this.#bits.length * 32 - 1
    for (let probe = 0, at = high; probe < probes; probe += 1, at += low) {
      const bit = (at & mask) >>> 0
      if ((this.#bits[bit >>> 5]! & (1 << (bit & 31))) === 0) return false
    }
    return this.count > 0
  }

  /** The byte offset of this event's line; undefined: no such event counted. */
  async find(eventId: string): Promise<number | undefined> {
    const id = Buffer.from(eventId)
    if (!this.mayContain(id, 0, id.length)) return undefined
    const high = fingerprint(id, 0, id.length, highSeed)
    const low = fingerprint(id, 0, id.length, lowSeed)
    for (let page = this.#pageBefore(high); page < this.#firsts.length && this.#firsts[page]! <= high; page += 1) {
      const records = Math.min(pageRecords, this.count - page * pageRecords)
      const bytes = Buffer.from(new ArrayBuffer(records * recordBytes))
      if (!(await filled(this.#file, bytes, page * pageRecords * recordBytes))) throw new EventIdIndexLost()
      const [words, doubles] = [new Uint32Array(bytes.buffer), new Float64Array(bytes.buffer)]
      for (let at = 0; at < records; at += 1) {
        if (words[at * 4] !== high || words[at * 4 + 1] !== low) continue
        const place = doubles[at * 2 + 1]!
        if (await this.#isAt(place, id)) return place
      }
    }
    return undefined
  }

  /** The first page that may hold this fingerprint. */
  #pageBefore(high: number): number {
    let [from, to] = [0, this.#firsts.length]
    while (from < to) {
      const middle = (from + to) >>> 1
      if (this.#firsts[middle]! < high) from = middle + 1
      else to = middle
    }
    return Math.max(0, from - 1)
  }

  async #isAt(place: number, id: Buffer): Promise<boolean> {
    const event: unknown = JSON.parse(await lineAt(this.#log, place))
    const eventId = objectOf(event)['eventId']
    return typeof eventId === 'string' && Buffer.from(eventId).equals(id)
  }

  async all(): Promise<Buffer> {
    const bytes = Buffer.from(new ArrayBuffer(this.count * recordBytes))
    if (await filled(this.#file, bytes, 0)) return bytes
    throw new EventIdIndexLost()
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}

async function filled(file: LogFile, bytes: Buffer, from: number): Promise<boolean> {
  for (let at = 0; at < bytes.length;) {
    const bytesRead = await file.read(bytes.subarray(at), from + at)
    if (bytesRead === 0) return false
    at += bytesRead
  }
  return true
}

const [highSeed, lowSeed] = [0x2545f491, 0x5851f42d]

function fingerprint(bytes: Uint8Array, start: number, end: number, seed: number): number {
  let mixed = seed ^ (end - start)
  for (let i = start; i < end; i += 1) {
    mixed = Math.imul(mixed ^ bytes[i]!, 0x9e3779b1)
    mixed ^= mixed >>> 15
  }
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  return (mixed ^ (mixed >>> 13)) >>> 0
}
