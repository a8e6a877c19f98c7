/**
 * Creates UUIDv7 ids as text. They sort by creation time, within one process also inside one millisecond (a counter fills the
 * twelve bits after the time), so that new rows are neighbours in an index.
 */
import type { Clock, Random } from '@bellwether/base'

export interface Ids {
  next(): string
}

const counterMax = 0xfff
const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

export function uuidv7(clock: Pick<Clock, 'wallMs'>, random: Pick<Random, 'bytes'>): Ids {
  let lastMs = 0
  let writtenMs = -1
  let written = ''
  const hexTime = (ms: number): string => {
    if (ms === writtenMs) return written
    const text = ms.toString(16).padStart(12, '0')
    writtenMs = ms
    written = `${text.slice(0, 8)}-${text.slice(8)}`
    return written
  }
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
        // 4,096 ids in one millisecond, or the clock stepped back: use the next millisecond to stay monotonic.
        lastMs += 1
        counter = 0
      }
      const time = hexTime(lastMs)
      const tail = random.bytes(8)
      const variant = hex[(tail[0]! & 0x3f) | 0x80]! + hex[tail[1]!]!
      const node = hex[tail[2]!]! + hex[tail[3]!]! + hex[tail[4]!]! + hex[tail[5]!]! + hex[tail[6]!]! + hex[tail[7]!]!
      return `${time}-7${counter.toString(16).padStart(3, '0')}-${variant}-${node}`
    },
  }
}
