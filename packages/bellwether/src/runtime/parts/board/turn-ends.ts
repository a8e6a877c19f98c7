/**
 * Waits for the ends of turns, for any number of callers. The outbox announces an end; a poll, one query for all waiting callers,
 * finds what the events miss: a turn that the kernel does not know, or an event that a hung writer holds back.
 */
import { type Clock, type Log, onAbort, makeWake, type Wake } from '@bellwether/base'
import type { TurnStatus } from '../../../board/ports.js'
import type { Follower, Tail } from '../../../http/tail.js'
import { backoffMs, defaultCallPolicy } from '../../../ports/retry.js'

export interface TurnEndsOptions {
  /** Reads the turns of these keys; a key without a turn is absent. */
  readonly read: (keys: readonly string[]) => Promise<ReadonlyMap<string, TurnStatus>>
  /** Absent: only the poll finds ends. */
  readonly tail: Tail | undefined
  readonly clock: Clock
  readonly log: Log
}

export interface TurnEnds {
  /** Resolves when the turn of `key` is no longer active, or with its status when the signal aborts. */
  ended(key: string, signal: AbortSignal): Promise<TurnStatus>
}

// Runs take seconds to minutes, and a poll is one indexed lookup.
const pollMs = 250
const pollBesideEventsMs = 1_000
const failureBackoff = { ...defaultCallPolicy.retry.backoff, maxMs: 5_000 }

export function openTurnEnds({ read, tail, clock, log }: TurnEndsOptions): TurnEnds {
  const waiting = new Map<string, Set<(status: TurnStatus) => void>>()
  const never = new AbortController().signal
  /** Ends the pause of the running loop. */
  let wake: Wake | undefined
  /** The turns that callers wait for; undefined while they are being read: then every end wakes the loop. */
  let active: ReadonlySet<string> | undefined

  const statusIn = (found: ReadonlyMap<string, TurnStatus>, key: string): TurnStatus =>
    found.get(key) ?? { status: 'unknown' }

  async function readAll(): Promise<void> {
    active = undefined
    const keys = [...waiting.keys()]
    const found = await read(keys)
    const turnIds = new Set<string>()
    for (const key of keys) {
      const now = statusIn(found, key)
      if (now.status === 'active') turnIds.add(now.agentTurnId)
      else for (const finish of waiting.get(key) ?? []) finish(now)
    }
    active = turnIds
  }

  /** Runs while callers wait. While the database is unavailable it retries with growing pauses; the turns are safe. */
  async function run(pause: Wake): Promise<void> {
    let failures = 0
    let follower: Follower | undefined
    while (waiting.size > 0) {
      try {
        // Follow before the read: an end is then either in the database or among the later events.
        if (follower === undefined && tail !== undefined) {
          follower = await tail.follow()
          follower.onEnd((agentTurnId) => {
            if (active === undefined || active.has(agentTurnId)) pause.now()
          })
        }
        await readAll()
        failures = 0
      } catch (error) {
        log.warn({ err: error, waiting: waiting.size }, 'cannot read the status of turns; retrying')
        failures += 1
      }
      if (waiting.size === 0) break
      const idleMs = follower === undefined ? pollMs : pollBesideEventsMs
      await pause.wait(failures === 0 ? idleMs : backoffMs({ backoff: failureBackoff }, failures), never)
    }
    follower?.stop()
    wake = undefined
  }

  return {
    ended: (key, signal) =>
      new Promise((resolve, reject) => {
        const leave = () => {
          const all = waiting.get(key)
          all?.delete(finish)
          if (all?.size === 0) waiting.delete(key)
          if (waiting.size === 0) wake?.now()
          release()
        }
        const finish = (now: TurnStatus) => {
          leave()
          resolve(now)
        }
        const giveUp = () => {
          read([key]).then(
            (found) => finish(statusIn(found, key)),
            (error: unknown) => {
              leave()
              reject(error)
            },
          )
        }
        const release = onAbort(signal, giveUp)
        if (signal.aborted) return
        waiting.set(key, (waiting.get(key) ?? new Set()).add(finish))
        if (wake !== undefined) return wake.now()
        wake = makeWake(clock)
        void run(wake)
      }),
  }
}
