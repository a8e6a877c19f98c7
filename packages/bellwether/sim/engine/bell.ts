/**
 * The bell of the simulated world: rings travel in memory, and receiving one is a step of the listener that the scheduler may delay. A plan can
 * lose, repeat or delay a ring. A dead fibre receives nothing.
 */
import { matches } from '@bellwether/protocol'
import type { Bell, Ring } from '../../src/ports/bell/bell.js'
import type { BellFaults } from './plan.js'
import type { Prng } from './prng.js'
import type { Strand } from './strand.js'

interface Ear {
  readonly strand: Strand
  readonly pattern: string
  readonly onRing: (ring: Ring | undefined) => void
}

export class Belfry {
  readonly #ears = new Set<Ear>()

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
        const ear = { strand, pattern, onRing }
        this.#ears.add(ear)
        this.#hear(ear, undefined)
        return Promise.resolve({
          stop: () => {
            this.#ears.delete(ear)
            return Promise.resolve()
          },
        })
      },
      close: () => {
        for (const ear of this.#ears) if (ear.strand === strand) this.#ears.delete(ear)
        return Promise.resolve()
      },
    }
  }

  #carry(ring: Ring): void {
    const faults = this.faults()
    for (const ear of this.#ears) {
      if (!ear.strand.alive || !matches(ear.pattern, ring.subject)) continue
      if (faults === undefined) {
        this.#hear(ear, ring)
        continue
      }
      if (this.random.chance(faults.drop)) continue
      const copies = this.random.chance(faults.duplicate) ? 2 : 1
      for (let copy = 0; copy < copies; copy += 1) {
        this.#hear(ear, ring, this.random.chance(faults.late) ? faults.lateMs : undefined)
      }
    }
  }

  #hear(ear: Ear, ring: Ring | undefined, lateMs?: number): void {
    const { strand } = ear
    const option = {
      label: `hear ${ring?.subject ?? '(connected)'}`,
      go: () => {
        if (this.#ears.has(ear)) ear.onRing(ring)
      },
    }
    if (lateMs === undefined) strand.ready.push(option)
    else strand.timers.push({ ...option, atUs: strand.time.monotonicUs + lateMs * 1000 })
  }
}
