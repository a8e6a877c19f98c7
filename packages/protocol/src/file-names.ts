/**
 * How file names travel. A name on disk is bytes, on the wire it is text: valid UTF-8 is itself, and every byte b that is
 * not part of valid UTF-8 becomes the lone surrogate U+DC00+b, which JSON carries as an escape. Always: bytes → text →
 * bytes is lossless. Paths are names joined by '/', relative to the source's root, with a leading '/'.
 */
import { InvalidInput } from './errors.js'

const escapeBase = 0xdc00

/** How long the valid sequence at `at` is; 0 when there is none. Follows the table of well-formed UTF-8. */
function sequenceLength(bytes: Uint8Array, at: number): number {
  const first = bytes[at]!
  if (first < 0x80) return 1
  if (first < 0xc2 || first > 0xf4) return 0
  const second = bytes[at + 1] ?? 0
  const low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80
  const high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf
  if (second < low || second > high) return 0
  const length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
  for (let more = 2; more < length; more += 1) if (((bytes[at + more] ?? 0) & 0xc0) !== 0x80) return 0
  return length
}

function codePoint(bytes: Uint8Array, at: number, length: number): number {
  if (length === 1) return bytes[at]!
  let point = bytes[at]! & (0x7f >> length)
  for (let more = 1; more < length; more += 1) point = (point << 6) | (bytes[at + more]! & 0x3f)
  return point
}

/** The text of a name's bytes, from `start` to `end`. */
export function decodeFileName(bytes: Uint8Array, start = 0, end = bytes.length): string {
  const part = start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end)
  let text = ''
  for (let at = 0; at < part.length;) {
    const length = sequenceLength(part, at)
    text +=
      length === 0 ? String.fromCharCode(escapeBase + part[at]!) : String.fromCodePoint(codePoint(part, at, length))
    at += length === 0 ? 1 : length
  }
  return text
}

/** The bytes of a name; refuses text that no name can have become. */
export function encodeFileName(text: string): Uint8Array {
  const bytes: number[] = []
  for (const character of text) {
    const point = character.codePointAt(0)!
    if (point >= escapeBase + 0x80 && point <= escapeBase + 0xff) bytes.push(point - escapeBase)
    else if (point >= 0xd800 && point <= 0xdfff) throw new InvalidInput('no file has such a name', { code: 'bad_name' })
    else if (point < 0x80) bytes.push(point)
    else if (point < 0x800) bytes.push(0xc0 | (point >> 6), 0x80 | (point & 0x3f))
    else if (point < 0x10000) bytes.push(0xe0 | (point >> 12), 0x80 | ((point >> 6) & 0x3f), 0x80 | (point & 0x3f))
    else {
      bytes.push(0xf0 | (point >> 18), 0x80 | ((point >> 12) & 0x3f))
      bytes.push(0x80 | ((point >> 6) & 0x3f), 0x80 | (point & 0x3f))
    }
  }
  return Uint8Array.from(bytes)
}
