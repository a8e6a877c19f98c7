/**
 * Paths of a source, `/a/b`, taken apart into the bytes of their names in one pass. Always holds: what parse() accepts has
 * no empty, `.` or `..` part, no NUL, and stays inside the limits below; names are bytes, and a byte that is not UTF-8
 * travels in a JavaScript string as the lone surrogate U+DC00 + byte (as Python's surrogateescape does), without loss.
 * Leaves to others: whether the path exists.
 */
import { isUtf8 } from 'node:buffer'
import { InvalidInput } from '@bellwether/protocol'

// What Linux accepts in one call (PATH_MAX, NAME_MAX): a sensor cannot have seen more.
export const pathBytesMax = 4_096
export const nameBytesMax = 255
// A path of pathBytesMax can hold 2,048 names; no tree that people made is half as deep, and walks keep a stack of this size.
export const depthMax = 1_024

function refuse(path: string, what: string, hint: string): InvalidInput {
  const shown = path.length > 120 ? `${path.slice(0, 120)}…` : path
  return new InvalidInput(`path ${JSON.stringify(shown)} ${what}`, { code: 'invalid_path', hint })
}

const hashStart = 0x811c9dc5
const hashStep = 0x01000193

/** FNV-1a over a name's bytes: cheap, byte by byte, and the seed makes collisions unguessable from outside. */
export function hashBytes(seed: number, bytes: Uint8Array, from: number, to: number): number {
  let hash = hashStart ^ seed
  for (let i = from; i < to; i += 1) hash = Math.imul(hash ^ bytes[i]!, hashStep)
  return hash | 0
}

/** The last path that was parsed, in arrays that are used again for the next one. */
export class ParsedPath {
  readonly bytes = Buffer.allocUnsafeSlow(pathBytesMax + 8)
  /** Name i is bytes[starts[i]] up to bytes[ends[i]], and hashes[i] is its hash. */
  readonly starts = new Uint16Array(depthMax)
  readonly ends = new Uint16Array(depthMax)
  readonly hashes = new Int32Array(depthMax)
  /** How many names; 0 is the root. */
  depth = 0

  constructor(private readonly seed: number) {}

  parse(path: string): void {
    if (path.charCodeAt(0) !== 47) throw refuse(path, 'does not begin with /', 'paths are relative to the root: /a/b')
    if (path.length > pathBytesMax) throw this.tooLong(path)
    const { bytes } = this
    this.depth = 0
    let at = 0
    let start = 0
    let hash = hashStart ^ this.seed
    // One slash at the end names the same entry: shells add it to directories.
    const length = path.length > 2 && path.charCodeAt(path.length - 1) === 47 ? path.length - 1 : path.length
    for (let i = 1; i < length; i += 1) {
      const code = path.charCodeAt(i)
      if (code === 47) {
        this.close(path, start, at, hash)
        start = at
        hash = hashStart ^ this.seed
      } else if (code < 0x80) {
        if (code === 0) throw refuse(path, 'holds a NUL', 'no file name can')
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
    if (length === 0) throw refuse(path, 'holds an empty name (//)', 'write one slash')
    if (length > nameBytesMax) throw refuse(path, `holds a name of ${length} bytes`, `at most ${nameBytesMax}`)
    const { bytes } = this
    if (bytes[start] === 46 && (length === 1 || (length === 2 && bytes[start + 1] === 46)))
      throw refuse(path, 'holds . or ..', 'write the path without them')
    if (this.depth === depthMax) throw refuse(path, `is more than ${depthMax} names deep`, 'watch a deeper root')
    this.starts[this.depth] = start
    this.ends[this.depth] = end
    this.hashes[this.depth] = hash | 0
    this.depth += 1
  }

  private tooLong(path: string): InvalidInput {
    return refuse(path, `is longer than ${pathBytesMax} bytes`, 'watch a deeper root')
  }
}

/** Writes the character at `i` (or the byte that it stands for) and returns where the next one goes. */
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
    if (point < 0x10000) throw refuse(text, 'holds a lone surrogate', 'only U+DC80 to U+DCFF stand for bytes')
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

/** The bytes of text that may be of any length (a search pattern), with the same escape for bytes that are not UTF-8. */
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

/** Bytes as text: UTF-8 where it is, U+DC00 + byte where it is not. */
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

/** The length of the well-formed UTF-8 sequence at `i`, or 0 where there is none. */
export function sequenceAt(bytes: Uint8Array, i: number, to: number): number {
  const first = bytes[i]!
  if (first < 0x80) return 1
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2
  return first >= 0xc2 && i + length <= to && isUtf8(bytes.subarray(i, i + length)) ? length : 0
}
