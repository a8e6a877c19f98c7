/**
 * The gate between a turn and the accounts to which its calls are charged. The rows of the holds decide (kernel/verbs/accounts); the gate
 * keeps nothing. A held account ends the run of the turn with AccountHeld, and the turn is suspended until it is free.
 */
import type { Hold } from '../kernel/verbs/accounts/accounts.js'
import { AccountHeld, type AccountGate } from './agent.js'
import type { Scope, WorkerOptions, WorkerSettings } from './scope.js'

interface GateOptions extends Pick<Scope, 'turn'> {
  readonly options: Pick<WorkerOptions, 'kernel' | 'settings'>
  /** Throws if the fence is lost. */
  readonly fenced: <T>(verdict: T | 'stale') => T
  /** Repeats a verb while the database is unavailable. */
  readonly verb: <T>(call: () => Promise<T>) => Promise<T>
}

// The defaults of worker.park_after_seconds and worker.max_hold_seconds.
const defaultParkAfterSeconds = 15
const defaultMaxHoldSeconds = 21_600

// A month with 31 days and one hour more, because of a change of clocks.
const periodMaxSeconds = 31 * 86_400 + 3_600

export const maxHoldSecondsOf = ({ maxHoldSeconds }: Pick<WorkerSettings, 'maxHoldSeconds'>) =>
  maxHoldSeconds ?? defaultMaxHoldSeconds

/** The same words in the transcript of the turn and in lists. */
export const parkedNote = ({ account, until, reason }: Hold) =>
  `Waits for account ${account} until ${until.toISOString()}: ${reason}`

export function openAccountGate({ options, turn, fenced, verb }: GateOptions): AccountGate {
  const { kernel, settings } = options
  return {
    parkAfterMs: (settings.parkAfterSeconds ?? defaultParkAfterSeconds) * 1_000,
    async enter(account) {
      const entered = await verb(() => kernel.enterAccount(turn, account))
      if (entered.what === 'held') throw new AccountHeld(entered.hold)
      return fenced(entered.what)
    },
    async works(account) {
      await verb(() => kernel.endHold(account, 'probe', turn))
    },
    async holdSpending({ limit, until }) {
      const hold = {
        account: `spending: ${turn.projectId}, ${limit}`,
        until: new Date(until),
        reason: `spending limit "${limit}" reached`,
      }
      throw new AccountHeld(await verb(() => kernel.holdAccount(turn, hold, periodMaxSeconds)))
    },
    async hold(limit) {
      throw new AccountHeld(await verb(() => kernel.holdAccount(turn, limit, maxHoldSecondsOf(settings))))
    },
  }
}
