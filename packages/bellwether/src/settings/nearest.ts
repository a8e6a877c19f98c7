/** Suggests the name that a mistyped name probably meant. Pure. */

/** Insertions, deletions and replacements that turn `left` into `right`; a swap of neighbours counts as one edit. */
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

// Longer than any setting; bounds the cost of a hostile name.
const nameMax = 100

/** The closest `section.key` name, by the full name, or by the key alone if it is in the wrong section. A beginning is close to its name. */
export function nearest(name: string, names: readonly string[]): string | undefined {
  return closest(name, names)?.name
}

/** The closest name, unless more than half of the typed key would have to change. */
export function similar(name: string, names: readonly string[]): string | undefined {
  const found = closest(name, names)
  const most = Math.max(1, Math.floor(keyOf(name).length / 2))
  return found !== undefined && found.distance <= most ? found.name : undefined
}

const keyOf = (name: string) => name.slice(name.indexOf('.') + 1)

// Shorter beginnings say little.
const beginningMin = 3

function closest(name: string, names: readonly string[]) {
  const typed = name.slice(0, nameMax)
  const begins = (candidate: string) => typed.length >= beginningMin && keyOf(candidate).startsWith(typed)
  // The half step prefers the section that was typed at equal distance.
  const distance = (candidate: string) =>
    begins(candidate) ? 1 : Math.min(editDistance(typed, candidate), editDistance(keyOf(typed), keyOf(candidate)) + 0.5)
  let best: { readonly name: string; readonly distance: number } | undefined
  for (const candidate of names) {
    const found = distance(candidate)
    if (best === undefined || found < best.distance) best = { name: candidate, distance: found }
  }
  return best
}
