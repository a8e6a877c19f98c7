/** Tests that the bus is bounded and ordered, with each reader at its own pace. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EventBus, type EventBatch } from './event-bus.js'

const part = (count: number, name = 'x') => ({
  type: 'insert' as const,
  rows: Array.from({ length: count }, () => `"${name}"`).join(','),
  count,
})

describe('the event bus', () => {
  it('[V6.10] two pipes read everything, in order, each at its own pace', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 40 }),
        fc.array(fc.boolean()),
        (sizes, turns) => {
          const bus = new EventBus(1_000_000, () => undefined)
          const readers = [bus.subscribe(), bus.subscribe()]
          const counts = [0, 0]
          const read = (which: number) => {
            const taken = readers[which]!.peek(7)
            if (taken === undefined || taken === 'lost') return
            expect(taken.count).toBeLessThanOrEqual(7)
            expect(taken.end).toBe(counts[which]! + taken.count)
            counts[which] = taken.end
            readers[which]!.advance(taken.end)
          }
          sizes.forEach((size, at) => {
            bus.publish([part(size)], 0)
            read(turns[at] === true ? 0 : 1)
          })
          for (const which of [0, 1]) while (readers[which]!.lag() > 0) read(which)
          const total = sizes.reduce((sum, size) => sum + size, 0)
          expect(counts).toEqual([total, total])
          expect(bus.items()).toHaveLength(0)
        },
      ),
    )
  })

  it('[V5.1] a pipe that falls behind by more than the bus holds loses its position once; others do not', () => {
    const bus = new EventBus(10, () => undefined)
    const [slow, fast] = [bus.subscribe(), bus.subscribe()]
    for (let at = 0; at < 5; at += 1) {
      bus.publish([part(4)], 0)
      fast.advance(bus.end)
    }
    expect(fast.peek(100)).toBeUndefined()
    expect(slow.peek(100)).toBe('lost')
    const rest = slow.peek(100)
    expect(rest).toMatchObject({ end: 20 })
  })

  it('[V5.1] a batch has at most the requested length, but at least one part', () => {
    const bus = new EventBus(100, () => undefined)
    const reader = bus.subscribe()
    for (let at = 0; at < 4; at += 1) bus.publish([part(2)], 0)
    const { length } = (reader.peek(2) as EventBatch).text
    expect(reader.peek(100, 1)).toMatchObject({ count: 2 })
    expect(reader.peek(100, 2 * length)).toMatchObject({ count: 4 })
    expect(reader.peek(100)).toMatchObject({ count: 8 })
  })

  it('[V5.1] pauses the watcher while no pipe keeps up', () => {
    const holds: boolean[] = []
    const bus = new EventBus(10, (on) => void holds.push(on))
    const [reader] = [bus.subscribe(), bus.subscribe()]
    bus.publish([part(4)], 0)
    expect(holds.at(-1)).toBe(false)
    bus.publish([part(4)], 0)
    expect(holds.at(-1)).toBe(true)
    reader.advance(bus.end)
    expect(holds.at(-1)).toBe(false)
  })

  it('[V5.1] after an interruption of the watcher every pipe loses its position', () => {
    const bus = new EventBus(10, () => undefined)
    const readers = [bus.subscribe(), bus.subscribe()]
    bus.interrupt()
    expect(readers.map((reader) => reader.peek(1))).toEqual(['lost', 'lost'])
    expect(readers.map((reader) => reader.peek(1))).toEqual([undefined, undefined])
  })
})
