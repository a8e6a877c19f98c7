/**
 * Stores the bytes of all names in pages, each name with its length first. A reference stays valid until `rebuild`; a name
 * never crosses a page. A recently added name is not stored twice (`index.js` in every directory costs its bytes about
 * once), but equal names may have two references, so compare bytes and not references. `store.ts` decides when to rebuild.
 */
import { Terminal } from '@bellwether/protocol'
import { hashBytes, textOf } from './path.js'

export const pageBits = 20
const pageBytes = 1 << pageBits
// A reference is 32 bits: 12 for the page, 20 inside it.
const pagesMax = 1 << 12
// 65,536 names remembered by hash take 256 kB and catch most repeated names of a source tree.
const recentSlots = 1 << 16

export class NamePool {
  pages: Buffer[] = []
  /** The end of the used bytes of each page. */
  ends: number[] = []
  /** Increases when references change; holders of references must look them up again. */
  generation = 0
  private recent = new Uint32Array(recentSlots)

  constructor(private readonly seed: number) {
    this.newPage()
    // Reference 0 is the empty name of the root; in `recent` it means an empty slot.
    this.pages[0]![0] = 0
    this.ends[0] = 1
  }

  add(bytes: Uint8Array, from: number, to: number, hash: number): number {
    const slot = (hash ^ (hash >>> 16)) & (recentSlots - 1)
    const seen = this.recent[slot]!
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
    this.recent[slot] = ref
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

  /** The length in bytes of the common prefix of two names, at most `max`. */
  commonPrefix(ref: number, other: number, max: number): number {
    const page = this.pages[ref >>> pageBits]!
    const otherPage = this.pages[other >>> pageBits]!
    const at = (ref & (pageBytes - 1)) + 1
    const otherAt = (other & (pageBytes - 1)) + 1
    const end = Math.min(max, page[at - 1]!, otherPage[otherAt - 1]!)
    let same = 0
    while (same < end && page[at + same] === otherPage[otherAt + same]) same += 1
    return same
  }

  /** Five bytes of a name from `skip` on as one number, padded with zeros; the numbers sort like the bytes. */
  fiveBytes(ref: number, skip: number): number {
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

  /** Compares the bytes of two names: negative, 0 or positive. */
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

  /** Bytes of all names, in use or not. */
  get filled(): number {
    return (this.pages.length - 1) * pageBytes + this.ends.at(-1)!
  }

  get bytes(): number {
    return this.pages.length * pageBytes + recentSlots * 4
  }

  /** Starts with no names; `keep` copies the names in use from the old pages and stores their new references. */
  rebuild(keep: (copy: (ref: number) => number) => void): void {
    const old = this.pages
    this.pages = []
    this.ends = []
    this.recent = new Uint32Array(recentSlots)
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
      throw new Terminal('The view is full: its file names take 4 GB, the maximum', {
        code: 'view_full',
        hint: 'Watch a smaller root, or split it into several views.',
      })
    this.pages.push(Buffer.from(new ArrayBuffer(pageBytes)))
    this.ends.push(0)
    return this.pages.length - 1
  }
}
