/**
 * One thing at a time, in the order of asking: everything that writes to a source goes through its lane. A long task gives
 * the event loop away between its slices, and nobody else of this lane gets in between. Bounded: past it, callers are told
 * to come back, which is what slows a flood down.
 */
import { setImmediate } from 'node:timers/promises'
import { Retryable } from '@bellwether/protocol'

// With 1,000 rows each about 100 ms of work: a sensor that hears "later" loses nothing, one that waits for ever may.
const waitingMax = 64

export class Lane {
  #tail: Promise<unknown> = Promise.resolve()
  #waiting = 0

  get waiting(): number {
    return this.#waiting
  }

  run<T>(task: () => Promise<T> | T): Promise<T> {
    if (this.#waiting >= waitingMax) {
      throw new Retryable('too many requests are waiting for this source', { code: 'busy', afterMs: 500 })
    }
    this.#waiting += 1
    const mine = this.#tail.then(task).finally(() => {
      this.#waiting -= 1
    })
    // The next one goes on whatever became of this one; this one's caller hears of its failure.
    this.#tail = mine.then(
      () => undefined,
      () => undefined,
    )
    return mine
  }
}

/** Lets whoever waits for the event loop have it. */
export async function giveWay(): Promise<void> {
  await setImmediate()
}

/** Runs a task that yields between its slices to its end. */
export async function inSlices<T>(task: Generator<void, T>): Promise<T> {
  for (;;) {
    const step = task.next()
    if (step.done === true) return step.value
    await giveWay()
  }
}
