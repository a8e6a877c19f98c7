/**
 * The bell of the simulated world: rings travel in memory, and receiving one is a step of the listener that the scheduler may delay. A plan can
 * lose, repeat or delay a ring. A dead fibre receives nothing.
 */
import { matches } from '@bellwether/protocol'
import type { Bell, Ring } from '../../src/ports/bell/bell.js'
import type { BellFaults } from './plan.js'
import type { Prng } from './prng.js'
import type { Strand } from './strand.js'

interface Listener {
  readonly strand: Strand
  readonly pattern: string
  readonly onRing: (ring: Ring | undefined) => void
}

export class SimulatedBell {
  readonly #listeners = new Set<Listener>()

  /** Calls `faults` at each ring, because the faults of a plan may have stopped by then. */
  constructor(
    readonly random: Prng,
    readonly faults: () => BellFaults | undefined,
  ) {}

  bellOf(strand: Strand): Bell {
    return {
      kind: 'notify',
      ring: async (rings) => {
        await strand.yield(`ring ${rings.map(({ subject }) => subject).join(' ')}`)
        for (const ring of rings) this.#carry(ring)
      },
      listen: (pattern, onRing) => {
        const listener = { strand, pattern, onRing }
        this.#listeners.add(listener)
        this.#deliver(listener, undefined)
        return Promise.resolve({
          stop: () => {
            this.#listeners.delete(listener)
            return Promise.resolve()
          },
        })
      },
      close: () => {
        for (const listener of this.#listeners) if (listener.strand === strand) this.#listeners.delete(listener)
        return Promise.resolve()
      },
    }
  }

  #carry(ring: Ring): void {
    const faults = this.faults()
    for (const listener of this.#listeners) {
      if (!listener.strand.alive || !matches(listener.pattern, ring.subject)) continue
      if (faults === undefined) {
        this.#deliver(listener, ring)
        continue
      }
      if (this.random.chance(faults.drop)) continue
      const copies = this.random.chance(faults.duplicate) ? 2 : 1
      for (let copy = 0; copy < copies; copy += 1) {
        this.#deliver(listener, ring, this.random.chance(faults.late) ? faults.lateMs : undefined)
      }
    }
  }

  #deliver(listener: Listener, ring: Ring | undefined, lateMs?: number): void {
    const { strand } = listener
    const option = {
      label: `hear ${ring?.subject ?? '(connected)'}`,
      go: () => {
        if (this.#listeners.has(listener)) listener.onRing(ring)
      },
    }
    if (lateMs === undefined) strand.ready.push(option)
    else strand.timers.push({ ...option, atUs: strand.time.monotonicUs + lateMs * 1000 })
  }
}
