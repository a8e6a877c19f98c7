/** Counts the children of a turn. Pure; the server bounds depth and number. */
import type { Relative } from '../api/types.js'

export function countRelatives(relatives: readonly Relative[]): number {
  return relatives.reduce((sum, one) => sum + 1 + countRelatives(one.children ?? []), 0)
}

/** The number of descendants per status, largest first. */
export function tallyRelatives(relatives: readonly Relative[]): [word: string, number: number][] {
  const sums = new Map<string, number>()
  const walk = (some: readonly Relative[]): void => {
    for (const one of some) {
      if (one.status !== null) sums.set(one.status, (sums.get(one.status) ?? 0) + 1)
      walk(one.children ?? [])
    }
  }
  walk(relatives)
  return [...sums].sort(([word, one], [otherWord, other]) => other - one || (word < otherWord ? -1 : 1))
}
