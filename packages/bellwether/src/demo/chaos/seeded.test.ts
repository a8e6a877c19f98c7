import { expect, it } from 'vitest'
import { kinds } from './faults.js'
import { seededDice } from './seeded.js'

it('the same seed deals the same faults, and each round deals every kind once', () => {
  const rounds = (seed: number) => {
    const dice = seededDice(seed)
    return Array.from({ length: 5 }, () => dice.shuffled(kinds))
  }
  expect(rounds(7)).toEqual(rounds(7))
  expect(rounds(7)).not.toEqual(rounds(8))
  for (const round of rounds(7)) expect([...round].sort()).toEqual([...kinds].sort())
})
