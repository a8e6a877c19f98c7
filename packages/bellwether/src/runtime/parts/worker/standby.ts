/**
 * Starts a thread that beats while agent code blocks the event loop of a worker, so that no other worker starts the turns that still run there, and
 * the guardian does not freeze their commands. While the event loop runs, the thread only checks a counter. It records a blocked worker, and ends the
 * process if it stays blocked too long: then other workers take over its turns, and the guardian kills its commands.
 */
import type { Worker } from 'node:worker_threads'
import { type Log, systemClock } from '@bellwether/base'
import { startThread } from '@bellwether/base/thread'
import type { WorkerOptions } from '../../../worker/scope.js'
import { systemMachine } from '../../../ports/disk/machine.js'
import { turnKey, type Fence } from '../../../kernel/verdict.js'
import type { StandbyData, StandbyOrder, StandbyReport } from './standby-messages.js'

export interface StandbyOptions extends Omit<StandbyData, 'ticks'> {
  readonly log: Log
  /** A beat of the thread, sent at `sentMs` (monotonic clock), confirmed the fence. */
  readonly onBeat?: (turn: Fence, sentMs: number) => void
}

export interface Standby extends NonNullable<WorkerOptions['standby']> {
  close(): Promise<void>
}

/** The thread starts with the first turn: an idle worker needs none. */
export function openStandby({ log, onBeat, ...data }: StandbyOptions): Standby {
  const ticks = new Int32Array(new SharedArrayBuffer(4))
  let thread: Worker | undefined
  const closing = new AbortController()
  const { signal } = closing
  const ended: string[] = []

  async function count(): Promise<void> {
    while (!signal.aborted) {
      Atomics.add(ticks, 0, 1)
      await systemClock.sleep(data.beatMs / 4, signal)
    }
  }

  function start(): Worker {
    void count()
    const started = startThread('./standby-main', import.meta.url, { ...data, ticks } satisfies StandbyData)
    started.unref()
    started.on('message', (report: StandbyReport) => {
      if ('blockedMs' in report)
        log.warn({ blocked_seconds: Math.round(report.blockedMs / 1_000) }, 'event loop was blocked')
      else {
        const sentMs = systemClock.monotonicMs() - (systemMachine.uptimeMs() - report.sentAtMs)
        for (const turn of report.confirmed) onBeat?.(turn, sentMs)
      }
    })
    // Without the thread, the worker still beats while its event loop runs.
    started.on('error', (error) => log.error({ err: error }, 'standby beat thread failed'))
    return started
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
      // Sent with the next turn, or when there are many: a beat for an ended turn has no effect.
      ended.push(turnKey(turn))
      if (ended.length >= endedMax && !signal.aborted) post({ remove: ended.splice(0) })
    },
    async close() {
      closing.abort()
      await thread?.terminate()
    },
  }
}

const endedMax = 100
