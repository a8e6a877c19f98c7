/**
 * The difference of two texts as a unified diff, by Myers' algorithm over lines. Pure and bounded: texts that differ in too many lines are
 * shown as replaced.
 */

// Takes at most about 0.1 s; a longer diff is cut anyway.
const editsMax = 400
const contextLines = 3
// A minified file has lines of megabytes.
const lineMaxChars = 500

interface Edit {
  readonly kind: ' ' | '-' | '+'
  readonly line: string
}

/** The hunks without a header; empty if the texts are equal. */
export function unifiedDiff(before: string, after: string): string {
  return before === after ? '' : hunks(edits(linesOf(before), linesOf(after))).join('\n')
}

const noNewline = '\n\\ No newline at end of file'

/** A last line without a newline says so, as in git: it differs from the same line with one. */
function linesOf(text: string): string[] {
  if (text === '') return []
  const lines = text.split('\n')
  const last = lines.pop()!
  return last === '' ? lines : [...lines, `${last}${noNewline}`]
}

function edits(before: readonly string[], after: readonly string[]): Edit[] {
  let start = 0
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1
  let [oldEnd, newEnd] = [before.length, after.length]
  while (oldEnd > start && newEnd > start && before[oldEnd - 1] === after[newEnd - 1]) {
    oldEnd -= 1
    newEnd -= 1
  }
  const same = (lines: readonly string[]) => lines.map((line): Edit => ({ kind: ' ', line }))
  return [
    ...same(before.slice(0, start)),
    ...middle(before.slice(start, oldEnd), after.slice(start, newEnd)),
    ...same(before.slice(oldEnd)),
  ]
}

/** `furthest[d]` holds, per diagonal from -d to d, how far into `before` d edits lead. */
function middle(before: readonly string[], after: readonly string[]): Edit[] {
  const furthest: Int32Array[] = []
  for (let d = 0; d <= Math.min(editsMax, before.length + after.length); d += 1) {
    const last = furthest.at(-1)
    const reach = new Int32Array(2 * d + 1)
    for (let k = -d; k <= d; k += 2) {
      let x = last === undefined ? 0 : stepFrom(last, d, k).x
      while (x < before.length && x - k < after.length && before[x] === after[x - k]) x += 1
      reach[k + d] = x
      if (x >= before.length && x - k >= after.length) return walkBack(before, after, [...furthest, reach])
    }
    furthest.push(reach)
  }
  return [...before.map((line): Edit => ({ kind: '-', line })), ...after.map((line): Edit => ({ kind: '+', line }))]
}

/** The better of the two ways to reach diagonal k with d edits: a line added (down) or removed. */
function stepFrom(last: Int32Array, d: number, k: number): { readonly x: number; readonly isAdded: boolean } {
  const at = (diagonal: number) => (Math.abs(diagonal) > d - 1 ? -1 : last[diagonal + d - 1]!)
  const isAdded = k === -d || (k !== d && at(k - 1) < at(k + 1))
  return { x: isAdded ? at(k + 1) : at(k - 1) + 1, isAdded }
}

function walkBack(before: readonly string[], after: readonly string[], furthest: readonly Int32Array[]): Edit[] {
  const found: Edit[] = []
  let [x, y] = [before.length, after.length]
  for (let d = furthest.length - 1; d >= 0; d -= 1) {
    const k = x - y
    const { x: from, isAdded } = d === 0 ? { x: 0, isAdded: false } : stepFrom(furthest[d - 1]!, d, k)
    for (; x > from; x -= 1) found.push({ kind: ' ', line: before[x - 1]! })
    if (d === 0) break
    y = x - k
    if (isAdded) {
      y -= 1
      found.push({ kind: '+', line: after[y]! })
    } else {
      x -= 1
      found.push({ kind: '-', line: before[x]! })
    }
  }
  return found.toReversed()
}

function hunks(all: readonly Edit[]): string[] {
  const printed: string[] = []
  let [oldLine, newLine] = [1, 1]
  let at = 0
  while (at < all.length) {
    const change = all.findIndex(({ kind }, index) => index >= at && kind !== ' ')
    if (change === -1) break
    const start = Math.max(at, change - contextLines)
    let end = change
    for (let same = 0; end < all.length && same <= 2 * contextLines; end += 1)
      same = all[end]!.kind === ' ' ? same + 1 : 0
    // Drop the context that reaches too far.
    let tail = 0
    while (end - tail > change && all[end - 1 - tail]!.kind === ' ') tail += 1
    end -= Math.max(0, tail - contextLines)
    oldLine += start - at
    newLine += start - at
    const hunk = all.slice(start, end)
    const olds = hunk.filter(({ kind }) => kind !== '+').length
    const news = hunk.filter(({ kind }) => kind !== '-').length
    printed.push(`@@ -${range(oldLine, olds)} +${range(newLine, news)} @@`)
    printed.push(...hunk.map(({ kind, line }) => `${kind}${shortened(line)}`))
    oldLine += olds
    newLine += news
    at = end
  }
  return printed
}

/** git counts from the line before an empty range. */
const range = (line: number, count: number) => `${count === 0 ? line - 1 : line}${count === 1 ? '' : `,${count}`}`

const shortened = (line: string) =>
  line.length <= lineMaxChars ? line : `${line.slice(0, lineMaxChars).toWellFormed()}… (${line.length} characters)`
