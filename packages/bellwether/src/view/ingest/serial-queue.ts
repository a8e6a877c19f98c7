/**
 * Runs the writers of one source one after the other, in the order of arrival. A long task yields the event loop between its
 * slices, but no other task of the same queue runs in between. Above its limit the queue rejects callers with a retry delay,
 * which slows down senders.
 */
import { setImmediate } from 'node:timers/promises'
import { Retryable } from '@bellwether/protocol'

// At 1,000 rows each, about 100 ms of work. A rejected sensor retries without loss; one that waits too long times out.
const waitingMax = 64

export class SerialQueue {
  #tail: Promise<unknown> = Promise.resolve()
  #waiting = 0

  get waiting(): number {
    return this.#waiting
  }

  run<T>(task: () => Promise<T> | T): Promise<T> {
    if (this.#waiting >= waitingMax) {
      throw new Retryable('Too many requests are waiting for this source; try again later', {
        code: 'busy',
        afterMs: 500,
      })
    }
    this.#waiting += 1
    const result = this.#tail.then(task).finally(() => {
      this.#waiting -= 1
    })
    // The next task runs even if this one fails; the failure goes to this task's caller.
    this.#tail = result.then(
      () => undefined,
      () => undefined,
    )
    return result
  }
}

/** Lets other callbacks of the event loop run. */
export async function yieldToEventLoop(): Promise<void> {
  await setImmediate()
}

/** Runs a generator to its end and yields the event loop between its slices. */
export async function runInSlices<T>(task: Generator<void, T>): Promise<T> {
  for (;;) {
    const step = task.next()
    if (step.done === true) return step.value
    await yieldToEventLoop()
  }
}
