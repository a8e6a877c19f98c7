/**
 * The only source of time and timers in TypeScript. Durable time is the database's (`state.now()`); this clock is for waiting,
 * for measuring on the monotonic scale, and for showing people the hour.
 */
import { linkAbort, onAbort } from './abort.js'

export interface Clock {
  /** Milliseconds since the epoch according to this host. May be wrong by hours; never compared with a time from the database. */
  wallMs(): number
  /** Milliseconds on a scale that never jumps; it stops while the machine is suspended. */
  monotonicMs(): number
  /** Resolves after `ms`, or as soon as the signal aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted === true) return resolve()
      const done = () => {
        clearTimeout(timer)
        release()
        resolve()
      }
      const timer = setTimeout(done, ms)
      const release = onAbort(signal, done)
    }),
}

/** Ends a wait early. */
export interface Wake {
  /** Ends the current wait, or the next one if nothing waits. */
  now(): void
  wait(ms: number, signal: AbortSignal): Promise<void>
}

export function makeWake(clock: Clock): Wake {
  let woken = false
  let end: (() => void) | undefined
  return {
    now() {
      woken = true
      end?.()
    },
    async wait(ms, signal) {
      if (!woken && !signal.aborted) {
        const wait = linkAbort(signal)
        end = () => wait.abort()
        await clock.sleep(ms, wait.signal)
        wait.release()
        end = undefined
      }
      woken = false
    },
  }
}

/** Reads until there is a value or the time is over (then undefined): for files and pids, which send no events. */
export async function poll<T>(
  clock: Clock,
  { everyMs, withinMs }: { readonly everyMs: number; readonly withinMs: number },
  read: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const untilMs = clock.monotonicMs() + withinMs
  for (;;) {
    const value = await read()
    if (value !== undefined) return value
    if (clock.monotonicMs() >= untilMs) return undefined
    await clock.sleep(everyMs)
  }
}
