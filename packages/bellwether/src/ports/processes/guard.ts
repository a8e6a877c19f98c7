/**
 * The guardian's logic without its pipes: one dead-man switch per turn that runs a command. If a switch is not renewed in time,
 * or its worker has ended, the guard kills every process of the turn. Once it has started to kill, a renewal has no effect.
 */
import type { Clock } from '@bellwether/base'
import { makeWake } from '../loop.js'
import { killTree } from './kill-tree.js'

export type GuardCommand =
  | { readonly do: 'watch'; readonly token: string; readonly until: number; readonly grace: number }
  | { readonly do: 'renew'; readonly token: string; readonly until: number }
  | { readonly do: 'root'; readonly token: string; readonly pid: number }
  | { readonly do: 'release'; readonly token: string }
  | { readonly do: 'ping' }

interface Switch {
  until: number
  readonly grace: number
  root?: number
  ending?: Promise<void>
}

export interface GuardOptions {
  readonly clock: Clock
  /** The clock of the deadlines. */
  readonly nowMs: () => number
  readonly onExpired: (token: string) => void
  readonly end?: typeof killTree
}

export interface Guard {
  apply(command: GuardCommand): void
  /** Checks once and kills the processes of expired turns. */
  check(): void
  /** The worker has ended: kills all turns and resolves when no process is left or the attempts are used up. */
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

export function openGuard({ clock, nowMs, onExpired, end = killTree }: GuardOptions): Guard {
  const switches = new Map<string, Switch>()
  const wake = makeWake(clock)

  async function killTurn(token: string, one: Switch): Promise<void> {
    for (let tries = 1; switches.get(token) === one && tries <= triesMax; tries += 1) {
      const root = one.root === undefined ? {} : { root: one.root }
      const left = await end({
        clock,
        wanted: (other) => other === token,
        graceMs: tries === 1 ? one.grace : 0,
        ...root,
      })
      if (left.length === 0) break
      await clock.sleep(againMs)
    }
    if (switches.get(token) === one) switches.delete(token)
  }

  function check(): void {
    for (const [token, one] of switches) {
      if (one.ending !== undefined || nowMs() < one.until) continue
      one.ending = killTurn(token, one)
      onExpired(token)
    }
  }

  return {
    check: check,
    apply(command) {
      if (command.do === 'ping') return
      const known = switches.get(command.token)
      if (command.do === 'watch') {
        if (known === undefined) switches.set(command.token, { until: command.until, grace: command.grace })
        else if (known.ending === undefined) known.until = command.until
      } else if (known !== undefined && known.ending === undefined) {
        if (command.do === 'renew') known.until = Math.max(known.until, command.until)
        else if (command.do === 'root') known.root = command.pid
        else switches.delete(command.token)
      }
      wake.now()
    },
    async killAll() {
      for (const one of switches.values()) one.until = Math.min(one.until, nowMs())
      check()
      await Promise.all([...switches.values()].flatMap((one) => one.ending ?? []))
    },
    async run(signal) {
      while (!signal.aborted) {
        const next = Math.min(...[...switches.values()].map((one) => (one.ending === undefined ? one.until : Infinity)))
        const wantedMs = nowMs() + Math.max(0, Math.min(checkMs, next - nowMs()))
        await wake.wait(wantedMs - nowMs(), signal)
        if (nowMs() - wantedMs > lateMs) await clock.sleep(catchUpMs, signal)
        if (!signal.aborted) check()
      }
    },
  }
}
