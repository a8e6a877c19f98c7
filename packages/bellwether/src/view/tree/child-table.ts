/**
 * Finds a child by its parent and name: an open-addressing hash table of entry numbers in 256 parts that grow one by one, so
 * that no insertion rehashes millions of entries. Each linked entry is in the table once. Callers provide the hash of an entry
 * and the comparison.
 */
// 26 bits of a slot are the entry number + 1, the upper 6 are bits of its hash: only 1 of 64 wrong probes reads an entry.
const entryBits = 26
const entryMask = 2 ** entryBits - 1
const deletedSlot = 0xffffffff
/** The largest entry number; `deletedSlot` must not equal a slot with one. */
export const entryLimit = entryMask - 2

const partBits = 8
// A higher load probes too long; a lower one wastes the memory that the name pool saves.
const loadMax = 0.88
const growth = 1.6
// Far enough below loadMax / growth that a part does not alternately grow and shrink.
const loadMin = 0.25
// Parts start at different sizes, spread over one growth step: otherwise all 256 would grow at nearly the same time.
const partMin = 64
const partStart = (part: number): number => Math.round(partMin * growth ** (part / (1 << partBits)))

export class ChildTable {
  private parts: Uint32Array[] = []
  private readonly used = new Uint32Array(1 << partBits)
  private readonly deleted = new Uint32Array(1 << partBits)

  constructor(private readonly hashOf: (entry: number) => number) {
    for (let part = 0; part < 1 << partBits; part += 1) this.parts.push(new Uint32Array(partStart(part)))
  }

  /** The first entry with this hash that `matches`, or -1. Callers pass what to compare through their own fields. */
  find(hash: number, matches: (entry: number) => boolean): number {
    const slots = this.parts[hash & 255]!
    const fingerprint = (hash >>> partBits) & 63
    const size = slots.length
    for (let at = slotOf(hash, size); ; at = at + 1 === size ? 0 : at + 1) {
      const value = slots[at]!
      if (value === 0) return -1
      if (value >>> entryBits === fingerprint && value !== deletedSlot) {
        const entry = (value & entryMask) - 1
        if (matches(entry)) return entry
      }
    }
  }

  add(hash: number, entry: number): void {
    const part = hash & 255
    const slots = this.parts[part]!
    if (this.used[part]! + this.deleted[part]! + 1 > slots.length * loadMax)
      this.rehash(part, grownSize(slots.length, this.used[part]!))
    this.insert(this.parts[part]!, part, hash, entry)
    this.used[part]! += 1
  }

  remove(hash: number, entry: number): void {
    const part = hash & 255
    const slots = this.parts[part]!
    const value = slotValue(hash, entry)
    const size = slots.length
    for (let at = slotOf(hash, size); ; at = at + 1 === size ? 0 : at + 1) {
      const found = slots[at]!
      if (found === 0) throw new Error(`entry ${entry} is not in the table`)
      if (found !== value) continue
      // No probe continues past an empty neighbour, so this slot can become empty too.
      const next = slots[at + 1 === size ? 0 : at + 1]!
      slots[at] = next === 0 ? 0 : deletedSlot
      if (next !== 0) this.deleted[part]! += 1
      this.used[part]! -= 1
      const smaller = Math.round(size / growth)
      if (smaller >= partMin && this.used[part]! < size * loadMin) this.rehash(part, smaller)
      return
    }
  }

  get bytes(): number {
    let slots = 0
    for (const part of this.parts) slots += part.length
    return slots * 4
  }

  /** Moves the entries of a part to `size` slots without deleted ones. */
  private rehash(part: number, size: number): void {
    const old = this.parts[part]!
    const slots = new Uint32Array(size)
    this.deleted[part] = 0
    for (const value of old) {
      if (value === 0 || value === deletedSlot) continue
      const entry = (value & entryMask) - 1
      this.insert(slots, part, this.hashOf(entry), entry)
    }
    this.parts[part] = slots
  }

  private insert(slots: Uint32Array, part: number, hash: number, entry: number): void {
    const size = slots.length
    for (let at = slotOf(hash, size); ; at = at + 1 === size ? 0 : at + 1) {
      const value = slots[at]!
      if (value !== 0 && value !== deletedSlot) continue
      if (value === deletedSlot) this.deleted[part]! -= 1
      slots[at] = slotValue(hash, entry)
      return
    }
  }
}

/** Deleted slots alone do not make a part grow. */
function grownSize(size: number, used: number): number {
  return used + 1 > (size * loadMax) / growth ? Math.ceil(size * growth) : size
}

function slotValue(hash: number, entry: number): number {
  return ((((hash >>> partBits) & 63) << entryBits) | (entry + 1)) >>> 0
}

function slotOf(hash: number, size: number): number {
  return (Math.imul(hash, 0x9e3779b1) >>> 0) % size
}
