/**
 * Writes JSON as bytes into one growing buffer: names are copied as bytes and numbers are written digit by digit, without
 * JavaScript strings unless necessary. The bytes equal those of JSON.stringify in UTF-8. The renderer decides what to write.
 */
import { textOf } from '../tree/path.js'

/** 1 for a byte that needs no escape inside a JSON string. */
const plain = new Uint8Array(256).map((_, byte) =>
  byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c ? 1 : 0,
)

const billion = 1_000_000_000
/** Below it doubles are closer together than microseconds, so six digits identify one and no shorter text does. */
const exactSecondsMax = 2 ** 32

export class JsonBytes {
  bytes: Buffer
  at = 0

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(capacity)
  }

  /** Makes space for `count` more bytes; `bytes` may be another buffer afterwards. */
  reserve(count: number): void {
    if (this.at + count <= this.bytes.length) return
    const wider = Buffer.allocUnsafeSlow(Math.max(this.bytes.length * 2, this.at + count))
    this.bytes.copy(wider, 0, 0, this.at)
    this.bytes = wider
  }

  /** Returns the bytes written so far and starts a new buffer. */
  take(capacity: number): Buffer {
    const taken = this.bytes.subarray(0, this.at)
    this.bytes = Buffer.allocUnsafeSlow(capacity)
    this.at = 0
    return taken
  }

  /** Writes a text without escapes. */
  text(text: string): void {
    this.reserve(text.length * 3)
    this.at += this.bytes.write(text, this.at, 'utf8')
  }

  /** This and the following methods do not check the space: callers reserve it. */
  byte(code: number): void {
    this.bytes[this.at] = code
    this.at += 1
  }

  /** Copies by the engine, three times as fast as a loop for ten bytes and more. */
  copy(from: Uint8Array): void {
    this.bytes.set(from, this.at)
    this.at += from.length
  }

  /** Copies a few bytes by a loop, which is faster for short texts. */
  copyShort(from: Uint8Array): void {
    const { bytes } = this
    const at = this.at
    for (let i = 0; i < from.length; i += 1) bytes[at + i] = from[i]!
    this.at = at + from.length
  }

  /** Writes bytes of this buffer again. */
  repeat(from: number, to: number): void {
    const { bytes } = this
    let at = this.at
    for (let i = from; i < to; i += 1, at += 1) bytes[at] = bytes[i]!
    this.at = at
  }

  /** Writes the bytes of a name as inside quotes. Callers reserve six times its length. */
  name(page: Buffer, from: number, to: number): void {
    const { bytes } = this
    let at = this.at
    for (let i = from; i < to; i += 1, at += 1) {
      const byte = page[i]!
      if (plain[byte] === 0) return this.escaped(page, from, to)
      bytes[at] = byte
    }
    this.at = at
  }

  /** Writes a finite number. Callers reserve 24 bytes. */
  number(value: number): void {
    if (value >= 0 && value < exactSecondsMax) {
      const integer = Math.floor(value)
      if (integer === value) return this.digits(integer)
      const micros = Math.round((value - integer) * 1e6)
      // Division rounds correctly, so equality means that these digits parse back to the same number.
      if ((integer * 1e6 + micros) / 1e6 === value && micros > 0 && micros < 1e6 && integer > 0) {
        this.digits(integer)
        return this.fraction(micros)
      }
    } else if (Number.isSafeInteger(value) && value > 0) return this.digits(value)
    const text = String(value)
    for (let i = 0; i < text.length; i += 1) this.bytes[this.at + i] = text.charCodeAt(i)
    this.at += text.length
  }

  private escaped(page: Buffer, from: number, to: number): void {
    const text = JSON.stringify(textOf(page, from, to))
    this.at += this.bytes.write(text.slice(1, -1), this.at, 'utf8')
  }

  private digits(integer: number): void {
    if (integer >= billion) {
      const upper = Math.floor(integer / billion)
      this.digits(upper)
      this.padded(integer - upper * billion, 9)
      return
    }
    let count = 1
    for (let bound = 10; integer >= bound && count < 9; bound *= 10) count += 1
    this.padded(integer, count)
  }

  /** Writes exactly `count` digits of a number below one billion. */
  private padded(value: number, count: number): void {
    const { bytes } = this
    let left = value | 0
    for (let at = this.at + count - 1; at >= this.at; at -= 1) {
      const tenth = (left / 10) | 0
      bytes[at] = 48 + left - tenth * 10
      left = tenth
    }
    this.at += count
  }

  private fraction(micros: number): void {
    this.bytes[this.at] = 46
    this.at += 1
    let [value, count] = [micros, 6]
    for (; value % 10 === 0; value /= 10) count -= 1
    this.padded(value, count)
  }
}
