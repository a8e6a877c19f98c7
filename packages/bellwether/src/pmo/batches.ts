/**
 * The joiner: brings every batch to its end. One step looks at what is due once: puts in line what its maker left behind, stops
 * children that nobody needs any more, answers parents whose batches are over. Any number of PMOs may step at the same
 * time, and each part may be repeated after a crash: what is done is read from the rows, never remembered here.
 */
import type { Clock, Log } from '@bellwether/base'
import { subjects } from '@bellwether/protocol'
import { dispatchTasks, dueTasks, joinTool } from '../kernel/verbs/batches/fork.js'
import { answerBatches, collectBatches, retireAgents, stopRows, type Due } from '../kernel/verbs/batches/join.js'
import type { Kernel } from '../kernel/kernel.js'
import { call } from '../kernel/verdict.js'
import type { Bell } from '../ports/bell/bell.js'
import { loop, makeWake } from '../ports/loop.js'

export interface Joiner {
  /** One look; answers in how many milliseconds the next batch is due, or nothing when there is none. */
  step(): Promise<number | undefined>
}

export function openJoiner({ kernel }: { readonly kernel: Kernel }): Joiner {
  const { db, ids } = kernel

  async function carryOut(due: Due): Promise<void> {
    if (due.what === 'dispatch') {
      await dispatchTasks(db, due.batch_id, await dueTasks(db, due.batch_id), (verdicts) => kernel.ring(verdicts))
    } else if (due.what === 'answer') {
      await kernel.ring(await answerBatches(db, ids, [due.batch_id]))
    } else if (due.what === 'stop') {
      await kernel.ring(await call(db, 'stop', stopRows(ids, due)))
    } else if (due.what === 'settled') {
      await retireAgents(db, [due.batch_id])
    }
  }

  return {
    async step() {
      const dues = await collectBatches(db, ids)
      const errors: unknown[] = []
      for (const due of dues) {
        try {
          await carryOut(due)
        } catch (error) {
          // One batch in trouble keeps no other from its end.
          errors.push(error)
        }
      }
      if (errors.length > 0) throw new AggregateError(errors, `${errors.length} batches could not be brought forward`)
      return dues.find((due) => due.what === 'look')?.due_in_ms ?? undefined
    },
  }
}

// A batch whose ring was lost waits this long at worst; an idle look costs one indexed read.
const joinPollMs = 250
const joinSoonestMs = 5

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
  const listening = await bell.listen(subjects.anyPmoCall(joinTool), () => wake.now())
  const step = async () => {
    // While a batch is due sooner than the next poll, the loop stays with it.
    for (;;) {
      const dueInMs = await joiner.step()
      if (signal.aborted || dueInMs === undefined || dueInMs > joinPollMs) return
      await wake.wait(Math.max(joinSoonestMs, dueInMs), signal)
    }
  }
  await loop({ name: 'joiner', intervalMs: joinPollMs, clock, log, signal }, step, wake)
  await listening.stop()
}
