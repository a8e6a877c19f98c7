/**
 * Ids are UUIDv7 text: they sort by the time of minting, also within one millisecond of one process (a counter fills the
 * twelve bits after the time), so that rows land next to each other in their index.
 */
import type { Clock } from './clock.js'
import type { Random } from './random.js'

export interface Ids {
  next(): string
}

const counterMax = 0xfff

export function uuidv7(clock: Pick<Clock, 'wallMs'>, random: Pick<Random, 'bytes'>): Ids {
  let lastMs = 0
  let counter = 0
  return {
    next() {
      const nowMs = Math.floor(clock.wallMs())
      if (nowMs > lastMs) {
        lastMs = nowMs
        counter = 0
      } else if (counter < counterMax) {
        counter += 1
      } else {
        // 4,096 ids in one millisecond, or a clock that stepped back: borrow from the future, stay monotonic.
        lastMs += 1
        counter = 0
      }
      const time = lastMs.toString(16).padStart(12, '0')
      const tail = Buffer.from(random.bytes(8))
      tail[0] = (tail[0]! & 0x3f) | 0x80
      const rest = tail.toString('hex')
      const middle = counter.toString(16).padStart(3, '0')
      return `${time.slice(0, 8)}-${time.slice(8)}-7${middle}-${rest.slice(0, 4)}-${rest.slice(4)}`
    },
  }
}
