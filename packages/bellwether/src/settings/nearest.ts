/** What a mistyped name most likely meant. Pure; decides nothing, only suggests. */

/** Insertions, deletions and replacements that turn `left` into `right`; a swap of neighbours counts as one. */
export function editDistance(left: string, right: string): number {
  let older: number[] = []
  let above = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let row = 1; row <= left.length; row += 1) {
    const line = [row]
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1]
      let best = Math.min(above[column]! + 1, line[column - 1]! + 1, above[column - 1]! + (same ? 0 : 1))
      const swapped =
        row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      if (swapped) best = Math.min(best, older[column - 2]! + 1)
      line.push(best)
    }
    older = above
    above = line
  }
  return above[right.length]!
}

// Names longer than any setting are cut: a hostile name must not cost a long computation.
const nameMax = 100

/** The closest of `section.key` names: by the whole name, or by the key alone when it stands in the wrong section. */
export function nearest(given: string, names: readonly string[]): string | undefined {
  const cut = given.slice(0, nameMax)
  const keyOf = (name: string) => name.slice(name.indexOf('.') + 1)
  // Half a step: at equal distance the section that was written wins.
  const distance = (name: string) => Math.min(editDistance(cut, name), editDistance(keyOf(cut), keyOf(name)) + 0.5)
  let best: { name: string; distance: number } | undefined
  for (const name of names) {
    const found = distance(name)
    if (best === undefined || found < best.distance) best = { name, distance: found }
  }
  return best?.name
}
