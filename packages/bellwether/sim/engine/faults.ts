/**
 * Applies the plan during a run: decides which faults are due, each at most once, and marks fibres (slow, or to die after the next commit).
 * run.ts executes crashes and moves time.
 */
import { committed } from './fibre.js'
import type { Fault, Plan } from './plan.js'
import type { Strand } from './strand.js'

export interface Hit {
  readonly strand: Strand
  readonly fault: Fault
}

export class FaultBook {
  /** The next step. */
  step = 0
  readonly #open: Set<Fault>
  readonly #calmAfter: number

  constructor(plan: Plan) {
    this.#open = new Set(plan.faults)
    this.#calmAfter = plan.calmAfter ?? Number.POSITIVE_INFINITY
  }

  get calm(): boolean {
    return this.step >= this.#calmAfter
  }

  /** The faults before this step; a fault placed at a step hits the fibre that is about to run. */
  due(strands: readonly Strand[], next: Strand | undefined): Hit[] {
    if (this.calm) return []
    const hits: Hit[] = []
    for (const strand of strands) {
      if (!strand.alive || !strand.dieAfterCommit || !strand.ready.some(({ label }) => label === committed)) continue
      hits.push({ strand, fault: { kind: 'crash', at: this.step } })
    }
    for (const fault of this.#open) {
      const strand =
        typeof fault.at === 'number' ? (fault.at === this.step ? next : undefined) : strandAt(strands, fault.at)
      if (strand === undefined) continue
      this.#open.delete(fault)
      if (!strand.alive) continue
      if (fault.kind === 'slow') strand.slowUntil = this.step + fault.steps
      else if (fault.kind === 'crash-after-commit') strand.dieAfterCommit = true
      hits.push({ strand, fault })
    }
    return hits
  }
}

/** The fibre, when it is at or past its nth yield. */
function strandAt(strands: readonly Strand[], { fibre, nth }: { fibre: string; nth: number }): Strand | undefined {
  return strands.find(({ name, arrivals }) => name === fibre && arrivals > nth)
}
