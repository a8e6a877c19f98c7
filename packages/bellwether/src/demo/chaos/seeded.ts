/** Chance that can be repeated: the same seed deals the same faults in the same order. (mulberry32; for plans, never for secrets.) */
export interface Dice {
  /** A number in [0, 1). */
  next(): number
  /** One of them. */
  pick<T>(list: readonly T[]): T | undefined
  /** All of them, in some order. */
  shuffled<T>(list: readonly T[]): T[]
}

export function seededDice(seed: number): Dice {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  return {
    next,
    pick: (list) => list[Math.floor(next() * list.length)],
    shuffled(list) {
      const deck = [...list]
      for (let last = deck.length - 1; last > 0; last -= 1) {
        const other = Math.floor(next() * (last + 1))
        ;[deck[last], deck[other]] = [deck[other]!, deck[last]!]
      }
      return deck
    },
  }
}
