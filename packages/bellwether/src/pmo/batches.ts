/**
 * The joiner brings every batch to its end. One step handles what is due: it enqueues tasks that the forking process left behind, stops
 * children that are no longer needed, and answers the parents of closed batches. Any number of PMOs may step at the same time, and each
 * action may be repeated after a crash, because the rows hold all the state.
 */
import { tryEach, type Clock, type Log, makeWake } from '@bellwether/base'
import { subjects } from '@bellwether/protocol'
import type { Kernel } from '../kernel/kernel.js'
import { dispatchTasks, dueTasks } from '../kernel/verbs/batches/dispatch_tasks.js'
import { joinTool } from '../kernel/verbs/batches/fork.js'
import {
  answerBatches,
  batchesMax,
  collectBatches,
  retireAgents,
  stopChildren,
  type Due,
} from '../kernel/verbs/batches/join.js'
import type { Bell } from '../ports/bell/bell.js'
import { loop } from '../ports/loop.js'

export interface Joiner {
  /**
   * Handles everything that is due, and the batches that a worker has rung for. Returns the milliseconds until the next batch is due, or
   * undefined if there is none.
   */
  step(rung?: readonly string[]): Promise<number | undefined>
}

export function openJoiner({ kernel }: { readonly kernel: Kernel }): Joiner {
  const { db, ids } = kernel

  async function carryOut(due: Due): Promise<void> {
    if (due.what === 'dispatch') {
      await dispatchTasks(db, due.batch_id, await dueTasks(db, due.batch_id), (verdicts) => kernel.ring(verdicts))
    } else if (due.what === 'answer') {
      await kernel.ring(await answerBatches(db, ids, [due.batch_id]))
    } else if (due.what === 'stop') {
      await kernel.ring(await stopChildren(db, ids, due))
    } else if (due.what === 'settled') {
      await retireAgents(db, [due.batch_id])
    }
  }

  return {
    async step(rung = []) {
      const dues = await collectBatches(db, ids, rung)
      await tryEach(dues, carryOut, 'batch actions')
      return dues.find((due) => due.what === 'look')?.due_in_ms ?? undefined
    },
  }
}

// A batch whose ring was lost waits at most this long: `joinPollMs` while there are batches, else `idlePollMs`. An idle step costs one
// indexed read.
const joinPollMs = 250
const idlePollMs = 1_000
const joinSoonestMs = 5
// The joiner uses at most a third of a connection's time: if the database is busy, it looks less often.
const restFactor = 2

export interface JoinerOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

export async function runJoiner({ kernel, bell, clock, log, signal }: JoinerOptions): Promise<void> {
  const joiner = openJoiner({ kernel })
  const wake = makeWake(clock)
  // Further rings only wake: their batches are found when they are due.
  const rung = new Set<string>()
  const listening = await bell.listen(subjects.anyPmoCall(joinTool), (ring) => {
    const batchId = ring?.payload['batch_id']
    if (typeof batchId === 'string' && rung.size < batchesMax) rung.add(batchId)
    wake.now()
  })
  const step = async () => {
    // Repeats while a batch is due before the next poll.
    for (;;) {
      const startMs = clock.monotonicMs()
      const batchIds = [...rung]
      rung.clear()
      const dueInMs = await joiner.step(batchIds)
      const restMs = (clock.monotonicMs() - startMs) * restFactor
      // A ring starts a look at once, but a stream of rings does not keep the connection busy.
      if (batchIds.length > 0) await clock.sleep(restMs, signal)
      if (dueInMs === undefined) return 'quiet'
      if (signal.aborted || dueInMs > joinPollMs) return 'waiting'
      await wake.wait(Math.min(joinPollMs, Math.max(joinSoonestMs, dueInMs, restMs)), signal)
    }
  }
  await loop({ name: 'joiner', intervalMs: joinPollMs, quietMaxMs: idlePollMs, clock, log, signal }, step, wake)
  await listening.stop()
}
