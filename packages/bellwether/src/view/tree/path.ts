/**
 * Parses paths of a source (`/a/b`) into the bytes of their names in one pass. A path that `parse` accepts has no empty, `.`
 * or `..` component, no NUL, and stays within the limits below. Names are bytes: a byte that is not UTF-8 appears in a
 * JavaScript string as the lone surrogate U+DC00 + byte (like Python's surrogateescape), without loss.
 */
import { isUtf8 } from 'node:buffer'
import { InvalidInput, shortened } from '@bellwether/protocol'

// The limits of Linux (PATH_MAX, NAME_MAX): a sensor cannot see longer ones.
export const pathBytesMax = 4_096
export const nameBytesMax = 255
// A path of pathBytesMax bytes can have 2,048 names; real trees are far less deep, and walks keep a stack of this size.
export const depthMax = 1_024

function invalidPath(path: string, problem: string, hint: string): InvalidInput {
  return new InvalidInput(`Invalid path ${JSON.stringify(shortened(path, 120))}: ${problem}`, {
    code: 'invalid_path',
    hint,
  })
}

const hashStart = 0x811c9dc5
const hashStep = 0x01000193

/** FNV-1a over the bytes of a name: cheap per byte, and the seed makes collisions unpredictable from outside. */
export function hashBytes(seed: number, bytes: Uint8Array, from: number, to: number): number {
  let hash = hashStart ^ seed
  for (let i = from; i < to; i += 1) hash = Math.imul(hash ^ bytes[i]!, hashStep)
  return hash | 0
}

/** The last parsed path, in arrays that the next `parse` overwrites. */
export class ParsedPath {
  readonly bytes = Buffer.allocUnsafeSlow(pathBytesMax + 8)
  /** Name i is bytes[starts[i]…ends[i]), with hash hashes[i]. */
  readonly starts = new Uint16Array(depthMax)
  readonly ends = new Uint16Array(depthMax)
  readonly hashes = new Int32Array(depthMax)
  /** The number of names; 0 for the root. */
  depth = 0

  constructor(private readonly seed: number) {}

  parse(path: string): void {
    if (path.charCodeAt(0) !== 47)
      throw invalidPath(path, 'it must begin with /', 'Paths start at the root of the source, like /a/b.')
    if (path.length > pathBytesMax) throw this.tooLong(path)
    const { bytes } = this
    this.depth = 0
    let at = 0
    let start = 0
    let hash = hashStart ^ this.seed
    // A trailing slash names the same entry: shells add it to directories.
    const length = path.length > 2 && path.charCodeAt(path.length - 1) === 47 ? path.length - 1 : path.length
    for (let i = 1; i < length; i += 1) {
      const code = path.charCodeAt(i)
      if (code === 47) {
        this.close(path, start, at, hash)
        start = at
        hash = hashStart ^ this.seed
      } else if (code < 0x80) {
        if (code === 0) throw invalidPath(path, 'it contains a NUL', 'File names cannot contain NUL.')
        bytes[at] = code
        hash = Math.imul(hash ^ code, hashStep)
        at += 1
      } else {
        const to = encode(path, i, bytes, at)
        if (code >= 0xd800 && code < 0xdc00) i += 1
        for (; at < to; at += 1) hash = Math.imul(hash ^ bytes[at]!, hashStep)
      }
      if (at > pathBytesMax) throw this.tooLong(path)
    }
    if (length > 1) this.close(path, start, at, hash)
    if (at + this.depth > pathBytesMax) throw this.tooLong(path)
  }

  private close(path: string, start: number, end: number, hash: number): void {
    const length = end - start
    if (length === 0) throw invalidPath(path, 'it contains an empty name (//)', 'Use one slash.')
    if (length > nameBytesMax)
      throw invalidPath(path, `it contains a name of ${length} bytes`, `A name has at most ${nameBytesMax} bytes.`)
    const { bytes } = this
    if (bytes[start] === 46 && (length === 1 || (length === 2 && bytes[start + 1] === 46)))
      throw invalidPath(path, 'it contains . or ..', 'Write the path without them.')
    if (this.depth === depthMax)
      throw invalidPath(path, `it is more than ${depthMax} names deep`, 'Watch a deeper root.')
    this.starts[this.depth] = start
    this.ends[this.depth] = end
    this.hashes[this.depth] = hash | 0
    this.depth += 1
  }

  private tooLong(path: string): InvalidInput {
    return invalidPath(path, `it is longer than ${pathBytesMax} bytes`, 'Watch a deeper root.')
  }
}

/** Writes the character at `i` (or the byte that it represents) and returns the next write position. */
function encode(text: string, i: number, bytes: Uint8Array, at: number): number {
  const code = text.charCodeAt(i)
  if (code < 0x800) {
    bytes[at] = 0xc0 | (code >> 6)
    bytes[at + 1] = 0x80 | (code & 63)
    return at + 2
  }
  if (code >= 0xdc80 && code <= 0xdcff) {
    bytes[at] = code & 0xff
    return at + 1
  }
  if (code >= 0xd800 && code <= 0xdfff) {
    const point = text.codePointAt(i)!
    if (point < 0x10000)
      throw invalidPath(text, 'it contains a lone surrogate', 'Only U+DC80 to U+DCFF may represent single bytes.')
    bytes[at] = 0xf0 | (point >> 18)
    bytes[at + 1] = 0x80 | ((point >> 12) & 63)
    bytes[at + 2] = 0x80 | ((point >> 6) & 63)
    bytes[at + 3] = 0x80 | (point & 63)
    return at + 4
  }
  bytes[at] = 0xe0 | (code >> 12)
  bytes[at + 1] = 0x80 | ((code >> 6) & 63)
  bytes[at + 2] = 0x80 | (code & 63)
  return at + 3
}

/** The bytes of a text of any length (a search pattern), with the same escape for bytes that are not UTF-8. */
export function bytesOf(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(text.length * 3)
  let at = 0
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i)
    if (code < 0x80) {
      bytes[at] = code
      at += 1
    } else {
      at = encode(text, i, bytes, at)
      if (code >= 0xd800 && code < 0xdc00) i += 1
    }
  }
  return bytes.subarray(0, at)
}

/** Bytes as text: UTF-8 where valid, U+DC00 + byte elsewhere. */
export function textOf(bytes: Buffer, from: number, to: number): string {
  let high = 0
  for (let i = from; i < to; i += 1) high |= bytes[i]!
  if (high < 0x80) return bytes.toString('latin1', from, to)
  if (isUtf8(bytes.subarray(from, to))) return bytes.toString('utf8', from, to)
  let text = ''
  for (let i = from; i < to;) {
    const length = sequenceAt(bytes, i, to)
    text += length === 0 ? String.fromCharCode(0xdc00 + bytes[i]!) : bytes.toString('utf8', i, i + length)
    i += length || 1
  }
  return text
}

/** The length of the well-formed UTF-8 sequence at `i`, or 0 if there is none. */
export function sequenceAt(bytes: Uint8Array, i: number, to: number): number {
  const first = bytes[i]!
  if (first < 0x80) return 1
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2
  return first >= 0xc2 && i + length <= to && isUtf8(bytes.subarray(i, i + length)) ? length : 0
}
