/**
 * Keeps the newest time of each task as bytes and decodes it on `flush`: a task changes many times, but only its last time
 * is ever read.
 */
const roomEach = 32 // an ISO time has 24

export class Timestamps {
  #bytes = new Uint8Array(1_024 * roomEach)
  #lengths = new Uint8Array(1_024)
  #last = 0

  /** False: the time is too long, and the caller stores it as text. */
  set(number: number, from: Uint8Array, start: number, end: number): boolean {
    const length = end - start
    if (length > roomEach) {
      if (number < this.#last) this.#lengths[number] = 0
      return false
    }
    if (number >= this.#lengths.length) this.#grow(number)
    if (number >= this.#last) this.#last = number + 1
    this.#lengths[number] = length
    const bytes = this.#bytes
    for (let i = start, to = number * roomEach; i < end; i += 1, to += 1) bytes[to] = from[i]!
    return true
  }

  /** Writes every time that was set since the last flush. */
  flush(write: (number: number, text: string) => void): void {
    const all = Buffer.from(this.#bytes.buffer)
    for (let number = 0; number < this.#last; number += 1) {
      const length = this.#lengths[number]!
      if (length === 0) continue
      this.#lengths[number] = 0
      write(number, all.toString('utf8', number * roomEach, number * roomEach + length))
    }
    this.#last = 0
  }

  #grow(number: number): void {
    const count = Math.max(number + 1, this.#lengths.length * 2)
    const [bytes, lengths] = [new Uint8Array(count * roomEach), new Uint8Array(count)]
    bytes.set(this.#bytes)
    lengths.set(this.#lengths)
    this.#bytes = bytes
    this.#lengths = lengths
  }
}
