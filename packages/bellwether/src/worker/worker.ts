/**
 * A worker: claims what it can start now, runs each turn in its own scope, settles what it answers. Every write is fenced; a
 * fence that is lost aborts the scope, and nothing that it still says is taken. The loop around it only waits and steps.
 */
import type { Claimant, ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import { Halt } from './cancellation.js'
import { runTurn } from './run-turn.js'
import type { Scope, WorkerOptions } from './scope.js'

export interface Worker {
  readonly workerId: string
  readonly running: ReadonlyMap<string, Scope>
  /** Claims and starts what there is room for. */
  step(): Promise<{ started: number; again: boolean }>
  /** Runs turns that came another way: the watchdog's reconcile. */
  start(turns: readonly ClaimedTurn[]): void
  /** Renews every running turn; aborts those whose fence is gone. */
  beat(): Promise<void>
  /** Resolves when something has finished, so that there is room. */
  room(): Promise<void>
  /** Claims nothing more; whoever waits for room is let go. */
  stopClaiming(): void
  /** Stops claiming, waits for what runs, then aborts the rest: their rows are reclaimed by whoever is alive. */
  drain(graceMs: number): Promise<void>
}

export function openWorker(options: WorkerOptions): Worker {
  const { kernel, clock, workerId, workerTarget, settings } = options
  const running = new Map<string, Scope>()
  let draining = false
  const freed: (() => void)[] = []
  let lastBeatMs = clock.monotonicMs()

  function letGo(): void {
    for (const free of freed.splice(0)) free()
  }

  function stopClaiming(): void {
    draining = true
    letGo()
  }

  function start(turns: readonly ClaimedTurn[]): void {
    for (const turn of turns) {
      // The same turn again: it was reclaimed from us, so the scope that still runs it has lost its fence.
      running.get(turn.agentTurnId)?.halt.call('fence_lost')
      const scope: Scope = { turn, halt: new Halt(), held: turn.kind === 'turn', done: Promise.resolve() }
      running.set(turn.agentTurnId, scope)
      scope.done = runTurn(options, scope).finally(() => {
        if (running.get(turn.agentTurnId) === scope) running.delete(turn.agentTurnId)
        letGo()
      })
    }
  }

  return {
    workerId,
    running,
    start,
    async step() {
      const max = settings.concurrency - running.size
      if (draining || max <= 0) return { started: 0, again: false }
      const claimant: Claimant = { workerTarget, workerId, max, resumeLeaseSeconds: settings.resumeLeaseSeconds }
      const { turns, again, refused } = await kernel.claim(claimant)
      for (const { project_id, agent_id, inbox_id, detail } of refused) {
        options.log.warn({ project_id, agent_id, inbox_id, detail }, 'an inbox row was refused')
      }
      start(turns)
      return { started: turns.length, again }
    },
    async beat() {
      const scopes = [...running.values()].filter((scope) => scope.held)
      if (scopes.length === 0) {
        lastBeatMs = clock.monotonicMs()
        return
      }
      const askedMs = clock.monotonicMs()
      try {
        const alive = await kernel.beat(
          scopes.map((scope) => scope.turn),
          workerId,
        )
        lastBeatMs = clock.monotonicMs()
        for (const scope of scopes) {
          if (alive.has(scope.turn.agentTurnId)) options.onBeat?.(scope.turn, askedMs)
          else scope.halt.call('fence_lost')
        }
      } catch (error) {
        // Nobody vouches for these turns any more: whoever judges us silent has fenced us out, or is about to.
        if (clock.monotonicMs() - lastBeatMs > settings.inboxProcessingTimeoutSeconds * 1_000) {
          for (const scope of scopes) scope.halt.call('no_beat')
        }
        throw error
      }
    },
    stopClaiming,
    room: () =>
      draining || running.size < settings.concurrency
        ? Promise.resolve()
        : new Promise((resolve) => freed.push(resolve)),
    async drain(graceMs) {
      stopClaiming()
      const finished = Promise.all([...running.values()].map((scope) => scope.done))
      const giveUp = new AbortController()
      await Promise.race([finished, clock.sleep(graceMs, giveUp.signal)])
      giveUp.abort()
      for (const scope of running.values()) scope.halt.call('draining')
    },
  }
}
