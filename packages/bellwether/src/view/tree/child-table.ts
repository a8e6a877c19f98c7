/**
 * Finds a child by its parent and name: open addressing over entry numbers, in 256 parts that grow one by one, so that no
 * insertion ever waits for a table of millions to be hashed again. Always holds: each linked entry is in the table once.
 * Leaves to others: the hash of an entry and whether a candidate is the one meant.
 */
// 26 bits of a slot are the entry number + 1, the 6 above are bits of its hash: a probe looks at an entry it does not mean
// only once in 64 times.
const entryBits = 26
const entryMask = 2 ** entryBits - 1
const gone = 0xffffffff
/** The largest number an entry can have; `gone` must not look like one. */
export const entryLimit = entryMask - 2

const partBits = 8
// Fuller tables probe too long; emptier ones waste what the name pool saves.
const loadMax = 0.88
const growth = 1.6
// Far enough below loadMax / growth that a part does not grow and shrink in turns.
const loadMin = 0.25
// Parts begin at different sizes, spread over one growth: otherwise all 256 would be full at nearly the same entry.
const partMin = 64
const partStart = (part: number): number => Math.round(partMin * growth ** (part / (1 << partBits)))

export class ChildTable {
  private parts: Uint32Array[] = []
  private readonly used = new Uint32Array(1 << partBits)
  private readonly dead = new Uint32Array(1 << partBits)

  constructor(private readonly hashOf: (entry: number) => number) {
    for (let part = 0; part < 1 << partBits; part += 1) this.parts.push(new Uint32Array(partStart(part)))
  }

  /** The first entry with this hash that `matches`, or -1. Callers pass what to compare through their own fields. */
  find(hash: number, matches: (entry: number) => boolean): number {
    const slots = this.parts[hash & 255]!
    const print = (hash >>> partBits) & 63
    const size = slots.length
    for (let at = place(hash, size); ; at = at + 1 === size ? 0 : at + 1) {
      const value = slots[at]!
      if (value === 0) return -1
      if (value >>> entryBits === print && value !== gone) {
        const entry = (value & entryMask) - 1
        if (matches(entry)) return entry
      }
    }
  }

  add(hash: number, entry: number): void {
    const part = hash & 255
    const slots = this.parts[part]!
    if (this.used[part]! + this.dead[part]! + 1 > slots.length * loadMax)
      this.rehash(part, roomierSize(slots.length, this.used[part]!))
    this.insert(this.parts[part]!, part, hash, entry)
    this.used[part]! += 1
  }

  remove(hash: number, entry: number): void {
    const part = hash & 255
    const slots = this.parts[part]!
    const value = slotValue(hash, entry)
    const size = slots.length
    for (let at = place(hash, size); ; at = at + 1 === size ? 0 : at + 1) {
      const found = slots[at]!
      if (found === 0) throw new Error(`entry ${entry} is not in the table`)
      if (found !== value) continue
      // Nobody probes past an empty neighbour: then this slot can be empty too.
      const next = slots[at + 1 === size ? 0 : at + 1]!
      slots[at] = next === 0 ? 0 : gone
      if (next !== 0) this.dead[part]! += 1
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

  /** The same entries in so many slots, none of them dead. */
  private rehash(part: number, size: number): void {
    const old = this.parts[part]!
    const slots = new Uint32Array(size)
    this.dead[part] = 0
    for (const value of old) {
      if (value === 0 || value === gone) continue
      const entry = (value & entryMask) - 1
      this.insert(slots, part, this.hashOf(entry), entry)
    }
    this.parts[part] = slots
  }

  private insert(slots: Uint32Array, part: number, hash: number, entry: number): void {
    const size = slots.length
    for (let at = place(hash, size); ; at = at + 1 === size ? 0 : at + 1) {
      const value = slots[at]!
      if (value !== 0 && value !== gone) continue
      if (value === gone) this.dead[part]! -= 1
      slots[at] = slotValue(hash, entry)
      return
    }
  }
}

/** Dead slots alone are no reason to grow. */
function roomierSize(size: number, used: number): number {
  return used + 1 > (size * loadMax) / growth ? Math.ceil(size * growth) : size
}

function slotValue(hash: number, entry: number): number {
  return ((((hash >>> partBits) & 63) << entryBits) | (entry + 1)) >>> 0
}

function place(hash: number, size: number): number {
  return (Math.imul(hash, 0x9e3779b1) >>> 0) % size
}
