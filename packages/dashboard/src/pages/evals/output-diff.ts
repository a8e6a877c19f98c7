/** Compares the outputs of two variants line by line. Pure. */
export interface OutputLine {
  readonly kind: 'same' | 'first' | 'second'
  readonly text: string
}

// The comparison takes lines × lines steps: 400 lines take about a millisecond.
const linesMax = 400

/** Undefined: the outputs are too long to compare here. */
export function outputDiff(first: string, second: string): readonly OutputLine[] | undefined {
  const [left, right] = [first.split('\n'), second.split('\n')]
  if (left.length > linesMax || right.length > linesMax) return undefined
  // common[i][j]: the longest common part of the lines from i and from j on.
  const common = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1))
  for (let i = left.length - 1; i >= 0; i -= 1)
    for (let j = right.length - 1; j >= 0; j -= 1)
      common[i]![j] =
        left[i] === right[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!)
  const lines: OutputLine[] = []
  let [i, j] = [0, 0]
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      lines.push({ kind: 'same', text: left[i]! })
      i += 1
      j += 1
    } else if (j >= right.length || (i < left.length && common[i + 1]![j]! >= common[i]![j + 1]!)) {
      lines.push({ kind: 'first', text: left[i]! })
      i += 1
    } else {
      lines.push({ kind: 'second', text: right[j]! })
      j += 1
    }
  }
  return lines
}
