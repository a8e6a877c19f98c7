/**
 * The guardian's logic without its pipes: one timer per turn that runs a command, a dead-man switch. A turn's processes run only while its
 * timer is renewed. If it is not, the guard freezes them, and continues them when a renewal arrives: a pause of the database or of
 * the worker costs time and no work. If the worker has ended, the guard kills them; once it has started to kill, a renewal has no
 * effect.
 *
 * Why the turn never runs twice at the same time: another worker runs it only after a reclaim, and a reclaim needs `silence` seconds
 * without a beat, by the clock of the database. They begin no earlier than the moment when the last confirmed beat was sent. The timer
 * expires after 60 % of that time, counted from the same moment, so the processes are frozen before a reclaim is possible. The guard
 * cannot know whether a reclaim happens. The database may be paused for everyone: then no one can reclaim, and after the pause every
 * watchdog first watches for another `silence` (W2.10). Or only this worker cannot reach it. Therefore the guard continues the
 * processes only after a later beat has confirmed the fence, and the worker kills them if a beat finds that the fence is lost.
 */
import { type Clock, defined, makeWake } from '@bellwether/base'
import { freezeTree, thawTree } from './freeze-tree.js'
import { killTree } from './kill-tree.js'

export type GuardCommand =
  | {
      readonly do: 'watch'
      readonly token: string
      readonly until: number
      readonly grace: number
      /** Another guardian watched this turn before and may have frozen its processes. */
      readonly again?: boolean
    }
  | { readonly do: 'renew'; readonly token: string; readonly until: number }
  | { readonly do: 'root'; readonly token: string; readonly pid: number }
  | { readonly do: 'release'; readonly token: string }
  | { readonly do: 'ping' }

interface TurnTimer {
  until: number
  readonly grace: number
  root?: number
  /** Its processes are stopped, because the timer was not renewed. */
  frozen: boolean
  /** Some of its processes may be stopped: one was reported after or during a freeze. */
  partlyFrozen?: boolean
  /** The guard is freezing or continuing them now. */
  changing?: boolean
  ending?: Promise<void>
}

export interface GuardOptions {
  readonly clock: Clock
  /** The clock of the deadlines. */
  readonly nowMs: () => number
  readonly onFrozen: (token: string) => void
  readonly onExpired: (token: string) => void
  readonly end?: typeof killTree
  readonly freeze?: typeof freezeTree
  readonly thaw?: typeof thawTree
}

export interface Guard {
  apply(command: GuardCommand): void
  /** Checks once and freezes the processes of turns that were not renewed. */
  check(): void
  /** The worker has ended: kills all turns and resolves when no process is left or the tries are used up. */
  killAll(): Promise<void>
  /** Checks until the signal aborts. */
  run(signal: AbortSignal): Promise<void>
}

const checkMs = 1_000
// After a pause of its own process the guard first reads the commands that arrived during the pause.
const lateMs = 500
const catchUpMs = 50
// A process that does not end is killed again every second, for at most an hour.
const againMs = 1_000
const triesMax = 3_600
// Longer than any failover. A worker that hangs for longer does not need its processes any more.
const frozenMaxMs = 3_600_000

export function openGuard(options: GuardOptions): Guard {
  const { clock, nowMs, onFrozen, onExpired, end = killTree, freeze = freezeTree, thaw = thawTree } = options
  const timers = new Map<string, TurnTimer>()
  const wake = makeWake(clock)

  async function killTurn(token: string, one: TurnTimer): Promise<void> {
    for (let tries = 1; timers.get(token) === one && tries <= triesMax; tries += 1) {
      // If the timer has expired, another worker may run the turn: kill without SIGTERM first.
      const graceMs = tries === 1 && nowMs() < one.until ? one.grace : 0
      const left = await end({ clock, graceMs, ...selectorOf(token, one) })
      if (left.length === 0) break
      await clock.sleep(againMs)
    }
    if (timers.get(token) === one) timers.delete(token)
  }

  function kill(token: string, one: TurnTimer): void {
    if (one.ending !== undefined) return
    one.ending = killTurn(token, one)
    onExpired(token)
  }

  async function setFrozen(token: string, one: TurnTimer, frozen: boolean): Promise<void> {
    one.changing = true
    const { root } = one
    await (frozen ? freeze : thaw)({ clock, ...selectorOf(token, one) })
    one.changing = false
    // A process that started in between may run, while others are stopped.
    one.frozen = frozen && one.root === root
    one.partlyFrozen = frozen && !one.frozen
    if (frozen) onFrozen(token)
    // A renewal or the release may have arrived in between.
    if (timers.get(token) === one) adjust(token, one)
    else if (frozen && one.ending === undefined) await thaw({ clock, ...selectorOf(token, one) })
  }

  /** Freezes, continues or kills the processes of a turn, depending on when its timer was last renewed. */
  function adjust(token: string, one: TurnTimer): void {
    if (one.ending !== undefined || one.changing === true) return
    const isOver = nowMs() >= one.until
    if (nowMs() - one.until > frozenMaxMs) kill(token, one)
    else if (isOver ? !one.frozen : one.frozen || one.partlyFrozen === true) void setFrozen(token, one, isOver)
  }

  function check(): void {
    for (const [token, one] of timers) adjust(token, one)
  }

  return {
    check,
    apply(command) {
      if (command.do === 'ping') return check()
      const known = timers.get(command.token)
      if (command.do === 'watch') {
        const { until, grace, again = false } = command
        if (known === undefined) timers.set(command.token, { until, grace, frozen: again })
        else if (known.ending === undefined) known.until = until
      } else if (known !== undefined && known.ending === undefined) {
        if (command.do === 'renew') known.until = Math.max(known.until, command.until)
        else if (command.do === 'root') known.root = command.pid
        else {
          timers.delete(command.token)
          if (known.frozen) void thaw({ clock, ...selectorOf(command.token, known) })
        }
        // The process may have started after a freeze.
        if (command.do === 'root' && known.frozen) {
          known.frozen = false
          known.partlyFrozen = true
        }
      }
      const now = timers.get(command.token)
      if (now !== undefined) adjust(command.token, now)
      wake.now()
    },
    async killAll() {
      for (const [token, one] of timers) kill(token, one)
      await Promise.all([...timers.values()].flatMap((one) => one.ending ?? []))
    },
    async run(signal) {
      while (!signal.aborted) {
        const due = [...timers.values()].filter((one) => !one.frozen && one.changing !== true)
        const next = Math.min(...due.map((one) => (one.ending === undefined ? one.until : Infinity)))
        const wantedMs = nowMs() + Math.max(0, Math.min(checkMs, next - nowMs()))
        await wake.wait(wantedMs - nowMs(), signal)
        if (nowMs() - wantedMs > lateMs) await clock.sleep(catchUpMs, signal)
        if (!signal.aborted) check()
      }
    },
  }
}

const selectorOf = (token: string, { root }: TurnTimer) => ({
  wanted: (other: string) => other === token,
  ...defined({ root }),
})
