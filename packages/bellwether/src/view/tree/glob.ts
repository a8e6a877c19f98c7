/**
 * Glob patterns for names and paths, matched on bytes. `*` matches any run of characters except `/`; `**` matches any run
 * (between two slashes also nothing); `?` matches one character; `[a-z]` and `[!a-z]` match one character in or not in a set;
 * a backslash escapes the next character. Matching takes at most about length × length steps for any pattern, because it
 * never backtracks into an earlier star. `literal` lets callers skip candidates that cannot match.
 */
import { InvalidInput } from '@bellwether/protocol'
import { bytesOf, sequenceAt } from './path.js'

// Longer than any file name and any practical path pattern.
const patternMax = 1_024

type Piece =
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | { readonly kind: 'one' }
  /** `crosses`: also matches `/`. `parts`: matches only complete path components, or nothing. */
  | { readonly kind: 'star'; readonly crosses: boolean; readonly parts: boolean }
  | { readonly kind: 'set'; readonly not: boolean; readonly ranges: readonly (readonly [number, number])[] }

export interface Glob {
  readonly pieces: readonly Piece[]
  /** The longest run of bytes that every match contains; empty if there is none. */
  readonly literal: Buffer
}

export function isGlob(pattern: string): boolean {
  return /[*?[\\]/.test(pattern)
}

export function checkPattern(pattern: string): void {
  if (pattern.length === 0 || pattern.length > patternMax || pattern.includes('\0'))
    throw new InvalidInput(
      `The search pattern must have 1 to ${patternMax} characters and no NUL (got ${pattern.length} characters)`,
      { code: 'invalid_pattern' },
    )
}

export function compileGlob(pattern: string): Glob {
  checkPattern(pattern)
  const pieces: Piece[] = []
  let text = ''
  const flush = () => {
    if (text !== '') pieces.push({ kind: 'bytes', bytes: bytesOf(text) })
    text = ''
  }
  for (let i = 0; i < pattern.length; i += 1) {
    const character = pattern[i]!
    if (character === '\\' && i + 1 < pattern.length) {
      i += 1
      text += pattern[i]!
    } else if (character === '*') {
      flush()
      const crosses = pattern[i + 1] === '*'
      const isFirst = i === 0 || pattern[i - 1] === '/'
      while (pattern[i + 1] === '*') i += 1
      const parts = crosses && isFirst && pattern[i + 1] === '/'
      if (parts) i += 1
      pieces.push({ kind: 'star', crosses, parts })
    } else if (character === '?') {
      flush()
      pieces.push({ kind: 'one' })
    } else if (character === '[' && setEnd(pattern, i) !== -1) {
      flush()
      const end = setEnd(pattern, i)
      pieces.push(setPiece(pattern.slice(i + 1, end)))
      i = end
    } else text += character
  }
  flush()
  let literal: Buffer = Buffer.alloc(0)
  for (const piece of pieces) if (piece.kind === 'bytes' && piece.bytes.length > literal.length) literal = piece.bytes
  return { pieces, literal }
}

/** Where the set that opens at `from` closes, or -1 if `[` is literal. A `]` in first place is a member of the set. */
function setEnd(pattern: string, from: number): number {
  const first = pattern[from + 1] === '!' || pattern[from + 1] === '^' ? from + 2 : from + 1
  return pattern.indexOf(']', first + 1)
}

function setPiece(body: string): Piece {
  const not = body.startsWith('!') || body.startsWith('^')
  const points = Array.from(not ? body.slice(1) : body, (character) => character.codePointAt(0)!)
  const ranges: [number, number][] = []
  for (let i = 0; i < points.length; i += 1) {
    const isRange = points[i + 1] === 45 && i + 2 < points.length
    ranges.push([points[i]!, isRange ? points[i + 2]! : points[i]!])
    if (isRange) i += 2
  }
  return { kind: 'set', not, ranges }
}

/** Whether bytes[from…to) match completely. */
export function matchGlob({ pieces }: Glob, bytes: Buffer, from: number, to: number): boolean {
  let piece = 0
  let at = from
  // Where to continue if the rest after a star does not match: the latest star of each kind is enough.
  let star = -1
  let starAt = 0
  let cross = -1
  let crossAt = 0
  let partsOnly = false
  for (;;) {
    const next = pieces[piece]
    if (next === undefined) {
      if (at === to) return true
    } else if (next.kind === 'star') {
      if (next.crosses) {
        cross = piece
        crossAt = at
        partsOnly = next.parts
        star = -1
      } else {
        star = piece
        starAt = at
      }
      piece += 1
      continue
    } else {
      const after = step(next, bytes, at, to)
      if (after !== -1) {
        piece += 1
        at = after
        continue
      }
    }
    if (star !== -1 && starAt < to && bytes[starAt] !== 47) {
      starAt += 1
      at = starAt
      piece = star + 1
    } else if (cross !== -1 && crossAt < to) {
      do crossAt += 1
      while (partsOnly && crossAt < to && bytes[crossAt - 1] !== 47)
      if (partsOnly && bytes[crossAt - 1] !== 47) return false
      at = crossAt
      star = -1
      piece = cross + 1
    } else return false
  }
}

/** Where the piece ends if it matches at `at`, or -1. */
function step(piece: Exclude<Piece, { kind: 'star' }>, bytes: Buffer, at: number, to: number): number {
  if (piece.kind === 'bytes') {
    const wanted = piece.bytes
    if (at + wanted.length > to) return -1
    for (let i = 0; i < wanted.length; i += 1) if (bytes[at + i] !== wanted[i]) return -1
    return at + wanted.length
  }
  if (at >= to || bytes[at] === 47) return -1
  const length = sequenceAt(bytes, at, to) || 1
  if (piece.kind === 'one') return at + length
  const point = pointAt(bytes, at, length)
  const isIn = piece.ranges.some(([low, high]) => point >= low && point <= high)
  return isIn === piece.not ? -1 : at + length
}

function pointAt(bytes: Buffer, at: number, length: number): number {
  if (length > 1) return bytes.toString('utf8', at, at + length).codePointAt(0)!
  const byte = bytes[at]!
  return byte < 0x80 ? byte : 0xdc00 + byte
}
