/** A turn's family in numbers. Pure; the server bounds how deep and how many it tells. */
import type { Kin } from '../api/types.js'

export function countKin(kin: readonly Kin[]): number {
  return kin.reduce((sum, one) => sum + 1 + countKin(one.children ?? []), 0)
}

/** How many of all generations stand how, the most first. */
export function tallyKin(kin: readonly Kin[]): [word: string, number: number][] {
  const sums = new Map<string, number>()
  const walk = (some: readonly Kin[]): void => {
    for (const one of some) {
      if (one.status !== null) sums.set(one.status, (sums.get(one.status) ?? 0) + 1)
      walk(one.children ?? [])
    }
  }
  walk(kin)
  return [...sums].sort(([word, one], [otherWord, other]) => other - one || (word < otherWord ? -1 : 1))
}
