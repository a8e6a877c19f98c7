/**
 * The name pool: every name's bytes, length first, end to end in pages. Always holds: a reference stays valid until
 * rebuild() is over; a name never crosses a page. A name that was added lately is not stored twice (`index.js` in every
 * directory costs its bytes about once), but equal names may have two references: compare bytes, not references.
 * Leaves to others: when so many names are unused that a rebuild pays.
 */
import { Terminal } from '@bellwether/protocol'
import { hashBytes, textOf } from './path.js'

const pageBits = 20
const pageBytes = 1 << pageBits
// A reference is 32 bits: 12 for the page, 20 inside it.
const pagesMax = 1 << 12
// 65,536 names remembered by hash: 256 kB, and most repeated names of a source tree find themselves again.
const lateSlots = 1 << 16

export class NamePool {
  pages: Buffer[] = []
  /** Where each page ends. */
  ends: number[] = []
  /** Grows when references change: who holds some must look again. */
  generation = 0
  private late = new Uint32Array(lateSlots)

  constructor(private readonly seed: number) {
    this.newPage()
    // Reference 0 is the empty name, of the root; in `late` it means nobody.
    this.pages[0]![0] = 0
    this.ends[0] = 1
  }

  add(bytes: Uint8Array, from: number, to: number, hash: number): number {
    const late = (hash ^ (hash >>> 16)) & (lateSlots - 1)
    const seen = this.late[late]!
    if (seen !== 0 && this.equals(seen, bytes, from, to)) return seen
    const length = to - from
    let page = this.pages.length - 1
    if (this.ends[page]! + 1 + length > pageBytes) page = this.newPage()
    const target = this.pages[page]!
    const at = this.ends[page]!
    target[at] = length
    for (let i = 0; i < length; i += 1) target[at + 1 + i] = bytes[from + i]!
    this.ends[page] = at + 1 + length
    const ref = page * pageBytes + at
    this.late[late] = ref
    return ref
  }

  equals(ref: number, bytes: Uint8Array, from: number, to: number): boolean {
    const page = this.pages[ref >>> pageBits]!
    const at = ref & (pageBytes - 1)
    const length = to - from
    if (page[at] !== length) return false
    for (let i = 0; i < length; i += 1) if (page[at + 1 + i] !== bytes[from + i]) return false
    return true
  }

  lengthOf(ref: number): number {
    return this.pages[ref >>> pageBits]![ref & (pageBytes - 1)]!
  }

  hashOf(ref: number): number {
    const page = this.pages[ref >>> pageBits]!
    const at = ref & (pageBytes - 1)
    return hashBytes(this.seed, page, at + 1, at + 1 + page[at]!)
  }

  text(ref: number): string {
    const page = this.pages[ref >>> pageBits]!
    const at = ref & (pageBytes - 1)
    return textOf(page, at + 1, at + 1 + page[at]!)
  }

  /** How many bytes two names have in common at their beginning, looking at `max` at most. */
  shared(ref: number, other: number, max: number): number {
    const page = this.pages[ref >>> pageBits]!
    const otherPage = this.pages[other >>> pageBits]!
    const at = (ref & (pageBytes - 1)) + 1
    const otherAt = (other & (pageBytes - 1)) + 1
    const end = Math.min(max, page[at - 1]!, otherPage[otherAt - 1]!)
    let same = 0
    while (same < end && page[at + same] === otherPage[otherAt + same]) same += 1
    return same
  }

  /** Five bytes of a name from `skip` on as one number, zeros behind its end: numbers that compare as the bytes do. */
  five(ref: number, skip: number): number {
    const page = this.pages[ref >>> pageBits]!
    const at = (ref & (pageBytes - 1)) + 1
    const left = page[at - 1]! - skip
    const from = at + skip
    const lower =
      (left > 1 ? page[from + 1]! << 24 : 0) |
      (left > 2 ? page[from + 2]! << 16 : 0) |
      (left > 3 ? page[from + 3]! << 8 : 0) |
      (left > 4 ? page[from + 4]! : 0)
    return (left > 0 ? page[from]! : 0) * 2 ** 32 + (lower >>> 0)
  }

  /** The order of two names' bytes: below 0, 0 or above. */
  compare(ref: number, pool: NamePool, other: number): number {
    const page = this.pages[ref >>> pageBits]!
    const otherPage = pool.pages[other >>> pageBits]!
    const at = ref & (pageBytes - 1)
    const otherAt = other & (pageBytes - 1)
    const [length, otherLength] = [page[at]!, otherPage[otherAt]!]
    for (let i = 1; i <= length && i <= otherLength; i += 1) {
      const difference = page[at + i]! - otherPage[otherAt + i]!
      if (difference !== 0) return difference
    }
    return length - otherLength
  }

  copyInto(ref: number, target: Buffer, at: number): void {
    const page = this.pages[ref >>> pageBits]!
    const from = (ref & (pageBytes - 1)) + 1
    page.copy(target, at, from, from + page[from - 1]!)
  }

  /** Bytes of all names, used or not. */
  get filled(): number {
    return (this.pages.length - 1) * pageBytes + this.ends.at(-1)!
  }

  get bytes(): number {
    return this.pages.length * pageBytes + lateSlots * 4
  }

  /** Starts over with no names; `keep` copies those still used from the old pages and stores their new references. */
  rebuild(keep: (copy: (ref: number) => number) => void): void {
    const old = this.pages
    this.pages = []
    this.ends = []
    this.late = new Uint32Array(lateSlots)
    this.newPage()
    this.ends[0] = 1
    keep((ref) => {
      const page = old[ref >>> pageBits]!
      const at = ref & (pageBytes - 1)
      const length = page[at]!
      if (length === 0) return 0
      return this.add(page, at + 1, at + 1 + length, hashBytes(this.seed, page, at + 1, at + 1 + length))
    })
    this.generation += 1
  }

  private newPage(): number {
    if (this.pages.length === pagesMax)
      throw new Terminal('the view holds 4 GB of names and takes no more', {
        code: 'view_full',
        hint: 'watch a smaller root, or split it into several views',
      })
    this.pages.push(Buffer.from(new ArrayBuffer(pageBytes)))
    this.ends.push(0)
    return this.pages.length - 1
  }
}
