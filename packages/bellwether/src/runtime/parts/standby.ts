/**
 * A thread that beats for a worker whose event loop is blocked by agent code, so that its turns are not started elsewhere while they
 * still run. The thread does nothing as long as the event loop turns. It records the blocked worker, and ends a process that stays
 * blocked too long: its turns are then taken over, and its commands are killed by the guardian.
 */
import type { Worker } from 'node:worker_threads'
import { type Log, systemClock } from '@bellwether/base'
import { startThread } from '@bellwether/base/thread'
import type { WorkerOptions } from '../../worker/scope.js'
import { fenceKey, type StandbyData, type StandbyOrder } from './standby-messages.js'

export interface StandbyOptions extends Omit<StandbyData, 'turned'> {
  readonly log: Log
}

export interface Standby extends NonNullable<WorkerOptions['standby']> {
  close(): Promise<void>
}

/** The thread starts with the first turn: an idle worker does not pay for it. */
export function openStandby({ log, ...data }: StandbyOptions): Standby {
  const turned = new Int32Array(new SharedArrayBuffer(4))
  let thread: Worker | undefined
  const closing = new AbortController()
  const { signal } = closing
  const ended: string[] = []

  async function count(): Promise<void> {
    while (!signal.aborted) {
      Atomics.add(turned, 0, 1)
      await systemClock.sleep(data.beatMs / 4, signal)
    }
  }

  function start(): Worker {
    void count()
    const born = startThread('./standby-main', import.meta.url, { ...data, turned } satisfies StandbyData)
    born.unref()
    born.on('message', ({ blockedMs }: { readonly blockedMs: number }) =>
      log.warn({ blocked_seconds: Math.round(blockedMs / 1_000) }, 'event loop was blocked'),
    )
    // Without the thread the worker still beats as long as its loop turns.
    born.on('error', (error) => log.error({ err: error }, 'standby beat thread failed'))
    return born
  }

  const post = (order: StandbyOrder) => (thread ??= start()).postMessage(order, [])

  return {
    add(turns) {
      if (signal.aborted) return
      if (ended.length > 0) post({ remove: ended.splice(0) })
      post({
        add: turns.map(({ projectId, agentId, agentTurnId, turnEpoch }) => ({
          projectId,
          agentId,
          agentTurnId,
          turnEpoch,
        })),
      })
    },
    remove(turn) {
      // With the next turn, or when there are many: a beat for an ended turn has no effect.
      ended.push(fenceKey(turn))
      if (ended.length >= endedMax && !signal.aborted) post({ remove: ended.splice(0) })
    },
    async close() {
      closing.abort()
      await thread?.terminate()
    },
  }
}

const endedMax = 100
