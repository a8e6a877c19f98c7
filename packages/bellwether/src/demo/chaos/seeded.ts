/** Chance that can be repeated: the same seed deals the same faults in the same order. */
import { seededBits } from '../../ports/random.js'

export interface Dice {
  /** A number in [0, 1). */
  next(): number
  /** One of them. */
  pick<T>(list: readonly T[]): T | undefined
  /** All of them, in some order. */
  shuffled<T>(list: readonly T[]): T[]
}

export function seededDice(seed: number): Dice {
  const bits = seededBits(seed)
  const next = () => bits() / 4_294_967_296
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
