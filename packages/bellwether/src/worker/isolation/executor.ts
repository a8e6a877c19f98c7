/**
 * Runs function agents in threads and processes, one per turn. A beat confirms the fence just before the function starts. Afterwards a
 * turn may run only while beats confirm it: the guardian freezes a process whose beats stop, and a thread, which cannot be frozen, is
 * ended before another worker may take its turn over, and the turn is handed back.
 */
import { onAbort, type Clock, type Log } from '@bellwether/base'
import { TURN } from '../../kernel/turn.js'
import type { ClaimedTurn } from '../../kernel/verbs/turn/claim.js'
import type { Step } from '../../kernel/verbs/content/record.js'
import { turnKey, type Fence } from '../../kernel/verdict.js'
import type { Guardian, Watch } from '../../ports/processes/guardian.js'
import type { Self } from '../../ports/processes/proc.js'
import { sweepOlder } from '../../ports/processes/sweep.js'
import { writeToken } from '../../ports/processes/token.js'
import { retryUntil } from '../../ports/retry.js'
import { FenceLost, type AgentFunction, type TurnAction, type TurnContext } from '../agent.js'
import { runGuest, type Guest } from './guest.js'
import type { IsolatedFunction } from './isolation.js'
import { startProcessGuest } from './process.js'
import { startThreadGuest } from './thread.js'

export interface IsolationExecutorOptions {
  readonly clock: Clock
  readonly log: Log
  readonly guardian: Guardian
  readonly installation: string
  readonly self: Self
  /** How long a beat keeps a turn running. Shorter than the silence after which another worker takes over. */
  readonly ttlMs: number
  /** The time between the abort signal and the end of a function that does not stop. */
  readonly graceMs: number
  /** The working directory of processes. */
  readonly folder: string
  /** Returns an unfinished turn to the queue. */
  readonly handBack: (turn: ClaimedTurn) => Promise<void>
}

export interface IsolationExecutor {
  agent(spec: IsolatedFunction): AgentFunction
  /** A beat that was sent at `sentMs` confirmed the fence. */
  renew(turn: Fence, sentMs: number): void
  /** Whether the guardian watches this turn: then it freezes the turn's processes while no beat confirms the fence. */
  guards(turn: Fence): boolean
  /** Ends the spare thread. */
  close(): Promise<void>
}

type Lease = Pick<Watch, 'renew' | 'release' | 'expired' | 'lost'>

// Long enough for a database to restart; after that, other workers reclaim the turn.
const patience = {
  backoff: { mode: 'exponential', baseMs: 400, multiplier: 2, maxMs: 5_000, jitterPct: 0 },
  maxMs: 300_000,
} as const
// One turn of the event loop, in which confirmed beats that arrived while it was blocked are read.
const catchUpMs = 1

export function openIsolationExecutor(options: IsolationExecutorOptions): IsolationExecutor {
  const { clock, log, guardian, installation, self, ttlMs, graceMs } = options
  const leases = new Map<string, Lease>()
  const guarded = new Set<string>()
  let spare: { readonly guest: Guest; readonly memoryMaxMb: number } | undefined

  /** The spare thread if it has the same limit, else a new one; then starts the next spare, because a thread starts slowly. */
  function takeThread(memoryMaxMb: number): Guest {
    const fits = spare?.memoryMaxMb === memoryMaxMb
    const guest = fits && spare !== undefined ? spare.guest : startThreadGuest(memoryMaxMb)
    if (spare === undefined || fits) keepSpare(memoryMaxMb)
    return guest
  }

  function keepSpare(memoryMaxMb: number): void {
    const next = { guest: startThreadGuest(memoryMaxMb), memoryMaxMb }
    spare = next
    void next.guest.ended.then(() => {
      if (spare === next) spare = undefined
    })
  }

  async function inThread(context: TurnContext, spec: IsolatedFunction): Promise<TurnAction> {
    const lease = openLease(clock, await confirm(context), ttlMs)
    return leased(context, lease, async () => {
      try {
        return await runGuest({ ...runOptions(context, spec, lease), guest: takeThread(spec.memoryMaxMb) })
      } catch (error) {
        if (lease.lost.aborted && error instanceof FenceLost) await handBack(context)
        throw error
      }
    })
  }

  async function inProcess(context: TurnContext, spec: IsolatedFunction): Promise<TurnAction> {
    const { turn } = context
    const { projectId, agentId, agentTurnId, turnEpoch } = turn
    const token = writeToken({ installation, ...self, projectId, agentId, agentTurnId, turnEpoch })
    const watch = await guardian.watch(token, await confirm(context))
    guarded.add(turnKey(turn))
    let survivors: readonly number[] = []
    const lease: Lease = {
      ...watch,
      release() {
        if (survivors.length === 0) watch.release()
        else log.error({ agent_turn_id: agentTurnId, pids: survivors }, 'processes not killed, left to the guardian')
      },
    }
    return leased(context, lease, async () => {
      // Processes of an older turn of this agent must not work on the same files any more.
      if ((await sweepOlder({ clock, graceMs, installation }, turn)) > 0) await context.activity('thinking')
      if (context.signal.aborted) throw new FenceLost(agentTurnId)
      const { memoryMaxMb } = spec
      const name = `${agentTurnId}-${turnEpoch}`
      const guest = startProcessGuest({ clock, token, name, cwd: options.folder, memoryMaxMb })
      if (guest.pid !== undefined) watch.root(guest.pid)
      const stepId = context.newId()
      const frozenStep = (status: string): Step => {
        const frozenMs = Math.round(watch.frozenMs())
        return { stepId, phase: 'function', status, metadata: frozenMs > 0 ? { frozen_ms: frozenMs } : {} }
      }
      // Frozen time is not working time. A function that was never frozen writes no step.
      const stopMeter = context.meter?.(() => frozenStep(TURN.start.to))
      try {
        const action = await runGuest({ ...runOptions(context, spec, watch), guest })
        await stopMeter?.()
        if (stopMeter !== undefined && watch.frozenMs() > 0) await context.record({ step: frozenStep('success') })
        return action
      } catch (error) {
        if (watch.lost.reason !== 'guardian_lost' || context.signal.aborted) throw error
        const text = 'The agent was stopped because its guardian died and could not be replaced.'
        return { deliver: { text }, status: 'failed', error: 'guardian_lost' }
      } finally {
        survivors = guest.survivors
      }
    })
  }

  /** Confirms the fence with a beat. Returns when it was sent. */
  async function confirm(context: TurnContext): Promise<number> {
    const sentMs = clock.monotonicMs()
    await context.activity('thinking')
    return sentMs
  }

  async function leased(context: TurnContext, lease: Lease, run: () => Promise<TurnAction>): Promise<TurnAction> {
    const key = turnKey(context.turn)
    leases.set(key, lease)
    try {
      return await run()
    } finally {
      leases.delete(key)
      guarded.delete(key)
      lease.release()
    }
  }

  /** A worker without a beat for one processing timeout cancels the turn, but may still hand it back. */
  async function handBack({ turn, signal }: TurnContext): Promise<void> {
    const over = new AbortController()
    const release = onAbort(signal, () => {
      if (signal.reason !== 'no_beat') over.abort()
    })
    try {
      log.warn({ agent_turn_id: turn.agentTurnId }, 'thread ended, because no beat confirmed its turn')
      await retryUntil(patience, () => options.handBack(turn), { clock, signal: over.signal })
    } catch (error) {
      log.warn({ err: error, agent_turn_id: turn.agentTurnId }, 'turn not handed back; other workers reclaim it')
    } finally {
      release()
    }
  }

  const runOptions = (context: TurnContext, spec: IsolatedFunction, { lost, expired }: Lease) => {
    const { module, name, takesInstruction, memoryMaxMb } = spec
    const request = { module, name, takesInstruction, turn: context.turn, results: context.results }
    return { clock, context, request, lost, expired, graceMs, memoryMaxMb }
  }

  return {
    agent: (spec) => (context) => (spec.isolation === 'process' ? inProcess : inThread)(context, spec),
    renew: (turn, sentMs) => leases.get(turnKey(turn))?.renew(sentMs),
    guards: (turn) => guarded.has(turnKey(turn)),
    async close() {
      await spare?.guest.end(0)
    },
  }
}

/** The lease of a thread: aborts `lost` when no beat has renewed it for `ttlMs`. */
function openLease(clock: Clock, sinceMs: number, ttlMs: number): Lease {
  let untilMs = sinceMs + ttlMs
  const lost = new AbortController()
  const released = new AbortController()
  const expired = () => clock.monotonicMs() >= untilMs
  async function watch(): Promise<void> {
    while (!released.signal.aborted) {
      await clock.sleep(untilMs - clock.monotonicMs(), released.signal)
      if (expired()) await clock.sleep(catchUpMs, released.signal)
      if (!expired() || released.signal.aborted) continue
      lost.abort('expired')
      return
    }
  }
  void watch()
  return {
    lost: lost.signal,
    expired,
    renew: (sentMs) => void (untilMs = Math.max(untilMs, sentMs + ttlMs)),
    release: () => released.abort(),
  }
}
