/**
 * Workers in the process that enqueues. One that has room and has seen the end of its queue lets the enqueue claim for it, so that a turn
 * starts after one round trip and one commit instead of two. The claim is the worker's own, so older turns still go first.
 */
import type { Claim, Claimant } from './verbs/turn/claim.js'

export interface Offer {
  readonly claimant: Claimant
  /** Ends the offer. Without an argument, nothing was claimed. */
  take(claim?: Claim): void
}

export interface LocalWorker {
  readonly workerTarget: string
  /** Reserves room for this many turns. Undefined if the worker has none, or claims by itself. */
  offer(turns: number): Offer | undefined
}

// What the first look of a claim reads. A larger batch gains little, and its caller would wait for the claim.
const offeredMax = 16

export function openLocalWorkers() {
  const workers = new Set<LocalWorker>()
  return {
    attach(worker: LocalWorker): () => void {
      workers.add(worker)
      return () => void workers.delete(worker)
    },
    offer(turns: number): Offer | undefined {
      if (turns > offeredMax) return undefined
      for (const worker of workers) {
        const offer = worker.offer(turns)
        if (offer === undefined) continue
        const take = (claim?: Claim): void => {
          // The turns were not for its target: another worker is asked first.
          if (claim === undefined && workers.delete(worker)) workers.add(worker)
          offer.take(claim)
        }
        return { claimant: offer.claimant, take }
      }
      return undefined
    },
  }
}
