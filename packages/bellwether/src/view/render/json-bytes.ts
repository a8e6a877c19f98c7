/**
 * JSON written as bytes into one growing buffer: names come from the name pool as bytes and leave as bytes, numbers are
 * written digit by digit, and nothing is a JavaScript string on the way unless it must be. Always: the bytes are exactly
 * those of JSON.stringify in UTF-8. What is written, and in which order, is left to the renderer.
 */
import { textOf } from '../tree/path.js'

/** 1 for a byte that stands for itself inside a JSON text. */
const plain = new Uint8Array(256).map((_, byte) =>
  byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c ? 1 : 0,
)

const billion = 1_000_000_000
/** Below it doubles lie closer together than microseconds, so that six digits name one and no shorter text does. */
const exactSecondsMax = 2 ** 32

export class JsonBytes {
  bytes: Buffer
  at = 0

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(capacity)
  }

  /** Makes room for so many bytes more; `bytes` may be another buffer afterwards. */
  room(count: number): void {
    if (this.at + count <= this.bytes.length) return
    const wider = Buffer.allocUnsafeSlow(Math.max(this.bytes.length * 2, this.at + count))
    this.bytes.copy(wider, 0, 0, this.at)
    this.bytes = wider
  }

  /** What was written so far; writing goes on in a buffer of its own. */
  take(capacity: number): Buffer {
    const taken = this.bytes.subarray(0, this.at)
    this.bytes = Buffer.allocUnsafeSlow(capacity)
    this.at = 0
    return taken
  }

  /** Any text as it is. */
  text(text: string): void {
    this.room(text.length * 3)
    this.at += this.bytes.write(text, this.at, 'utf8')
  }

  /** From here on without a look at the room: callers have made it. */
  byte(code: number): void {
    this.bytes[this.at] = code
    this.at += 1
  }

  /** By the engine: three times as fast as a loop from ten bytes on. */
  copy(from: Uint8Array): void {
    this.bytes.set(from, this.at)
    this.at += from.length
  }

  /** The same for a few bytes, which a loop has written before the engine has begun. */
  short(from: Uint8Array): void {
    const { bytes } = this
    const at = this.at
    for (let i = 0; i < from.length; i += 1) bytes[at + i] = from[i]!
    this.at = at + from.length
  }

  /** Bytes that were written here before, again. */
  again(from: number, to: number): void {
    const { bytes } = this
    let at = this.at
    for (let i = from; i < to; i += 1, at += 1) bytes[at] = bytes[i]!
    this.at = at
  }

  /** A name's bytes as they stand inside quotes. Callers have made room for six times as many. */
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

  /** A finite number. Callers have made room for 24 bytes. */
  number(value: number): void {
    if (value >= 0 && value < exactSecondsMax) {
      const whole = Math.floor(value)
      if (whole === value) return this.digits(whole)
      const micros = Math.round((value - whole) * 1e6)
      // The division rounds correctly: equal means that these digits read back as this very number.
      if ((whole * 1e6 + micros) / 1e6 === value && micros > 0 && micros < 1e6 && whole > 0) {
        this.digits(whole)
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

  private digits(whole: number): void {
    if (whole >= billion) {
      const upper = Math.floor(whole / billion)
      this.digits(upper)
      this.padded(whole - upper * billion, 9)
      return
    }
    let count = 1
    for (let bound = 10; whole >= bound && count < 9; bound *= 10) count += 1
    this.padded(whole, count)
  }

  /** Exactly `count` digits of a number below a billion. */
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
