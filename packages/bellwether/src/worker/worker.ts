/**
 * A worker: claims the turns it has room for and runs each in its own scope. Every write is fenced. If a turn's fence is lost, its
 * scope is canceled and nothing it still writes is accepted. The loop around the worker (loop.ts) only waits and steps.
 */
import { errorMessage } from '@bellwether/base'
import type { LocalWorker } from '../kernel/local-workers.js'
import type { Claim, Claimant, ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import { Cancellation } from './cancellation.js'
import { printable } from './card-text.js'
import { runTurn } from './run-turn.js'
import type { Scope, WorkerOptions } from './scope.js'

export interface Worker extends LocalWorker {
  readonly workerId: string
  readonly running: ReadonlyMap<string, Scope>
  /** Claims and starts as many turns as there is room for. `again`: more turns may be waiting. */
  step(): Promise<{ started: number; again: boolean }>
  /** Runs turns that the watchdog's reconcile claimed. */
  start(turns: readonly ClaimedTurn[]): void
  /** Sends one beat for all running turns and cancels those whose fence is lost. */
  beat(): Promise<void>
  /** Ends a running turn as failed, because its function caused an uncaught error. */
  fail(turn: ClaimedTurn, error: unknown): Promise<void>
  /** Resolves when there is room for another turn, or when the worker stops claiming. */
  room(): Promise<void>
  /** How many more turns it could take now. None while a turn that shared worker deaths must run with fewer neighbours. */
  free(): number
  /** A bell rang: turns wait that this worker has not seen. Until the next step has claimed them, it makes no offer. */
  notice(): void
  /** Claims nothing more and resolves everything that waits for room. */
  stopClaiming(): void
  /** Stops claiming, waits for running turns, then cancels the others and hands back those that stop. Other workers take over the rest. */
  drain(graceMs: number): Promise<void>
}

// Shorter than what the supervisor adds to the drain before it kills a worker (5 s).
const handBackMs = 3_000

export function openWorker(options: WorkerOptions): Worker {
  const { kernel, clock, workerId, workerTarget, settings } = options
  const running = new Map<string, Scope>()
  let draining = false
  let heldBack = false
  /** The last claim found the end of the queue, and no bell has rung since. */
  let caughtUp = false
  /** Room that calls in flight may fill. */
  let offered = 0
  const offers = new Set<Promise<void>>()
  const waitingForRoom: (() => void)[] = []
  let lastBeatMs = clock.monotonicMs()

  function announceRoom(): void {
    // Hot path: called once per turn, and usually nothing waits.
    if (waitingForRoom.length > 0) for (const resolve of waitingForRoom.splice(0)) resolve()
  }

  const isHarmless = ({ turn, settling = false }: Scope) => settling || options.guarded?.(turn) === true
  /** Turns whose programs wait for a person do not count, up to once the concurrency: they work later, perhaps all at the same time. */
  const asking = new Set<Scope>()
  function onAsking(scope: Scope): void {
    if (scope.asking > 0 && running.get(scope.turn.agentTurnId) === scope) asking.add(scope)
    else asking.delete(scope)
    announceRoom()
  }
  const free = (): number =>
    heldBack
      ? 0
      : Math.max(0, settings.concurrency - running.size - offered + Math.min(asking.size, settings.concurrency))

  /** Its place is free, also if its function still runs. */
  function remove(scope: Scope): void {
    if (running.get(scope.turn.agentTurnId) === scope) running.delete(scope.turn.agentTurnId)
    asking.delete(scope)
    options.standby?.remove(scope.turn)
  }

  /** How many tasks of each batch run here. */
  const tasks = new Map<string, number>()
  function countTask({ projectId, payload }: ClaimedTurn, more: 1 | -1): void {
    // Hot path: most turns belong to no batch.
    const batchId = payload['batch_id']
    if (typeof batchId !== 'string') return
    const count = (tasks.get(batchId) ?? 0) + more
    if (count > 0) {
      tasks.set(batchId, count)
      return
    }
    // It was perhaps the last task of the batch, and its parent waits. A bell does not throw.
    tasks.delete(batchId)
    void kernel.ringJoiner(projectId, batchId)
  }

  function stopClaiming(): void {
    draining = true
    announceRoom()
  }

  function start(turns: readonly ClaimedTurn[]): void {
    if (turns.length > 0) options.standby?.add(turns)
    for (const turn of turns) {
      // The same turn again: it was reclaimed from this worker, so the scope that still runs it has lost its fence.
      const earlier = running.get(turn.agentTurnId)
      earlier?.cancellation.cancel('fence_lost')
      if (earlier !== undefined) asking.delete(earlier)
      const scope: Scope = {
        turn,
        cancellation: new Cancellation(),
        fenced: turn.kind === 'turn',
        asking: 0,
        onAsking,
        done: Promise.resolve(),
      }
      running.set(turn.agentTurnId, scope)
      scope.done = run(scope)
    }
  }

  async function run(scope: Scope): Promise<void> {
    countTask(scope.turn, 1)
    try {
      await runTurn(options, scope)
    } finally {
      countTask(scope.turn, -1)
      remove(scope)
      heldBack = false
      announceRoom()
    }
  }

  const claimantFor = (max: number): Claimant => ({
    workerTarget,
    workerId,
    max,
    resumeLeaseSeconds: settings.resumeLeaseSeconds,
  })

  /** Starts what was claimed. True: more turns may be waiting. */
  function accept({ turns, again, refused, ...claimed }: Claim): boolean {
    for (const { project_id, agent_id, inbox_id, detail } of refused) {
      options.log.warn({ project_id, agent_id, inbox_id, detail }, 'inbox row rejected')
    }
    start(turns)
    // An idle worker is never held back by its own turns: it asks again with the next poll.
    heldBack = claimed.heldBack && running.size > 0
    return again || heldBack
  }

  /** Only turns that have stopped are handed back: another worker may start them at once. */
  async function handBack(scopes: readonly Scope[]): Promise<void> {
    const stopped: Scope[] = []
    const late = new AbortController()
    await Promise.race([
      Promise.all(scopes.map((scope) => scope.done.then(() => stopped.push(scope)))),
      clock.sleep(handBackMs, late.signal),
    ])
    late.abort()
    const fences = stopped.filter((scope) => scope.fenced).map((scope) => scope.turn)
    if (fences.length === 0) return
    try {
      await kernel.handBack(fences, workerId)
    } catch (error) {
      options.log.warn({ err: error, turns: fences.length }, 'turns not handed back; other workers reclaim them')
    }
  }

  return {
    workerId,
    running,
    start,
    async step() {
      const max = free()
      if (draining || max <= 0) return { started: 0, again: false }
      caughtUp = false
      const claim = await kernel.claim(claimantFor(max))
      const again = accept(claim)
      caughtUp = !again
      return { started: claim.turns.length, again }
    },
    workerTarget,
    notice() {
      caughtUp = false
    },
    offer(turns) {
      // Older turns go first: a worker that may have some claims them itself.
      if (draining || !caughtUp || free() < turns) return undefined
      offered += turns
      let end = (): void => undefined
      const taken = new Promise<void>((resolve) => (end = resolve))
      offers.add(taken)
      return {
        claimant: claimantFor(turns),
        take(claim) {
          offered -= turns
          if (claim !== undefined && accept(claim)) caughtUp = false
          offers.delete(taken)
          end()
          announceRoom()
        },
      }
    },
    async beat() {
      const scopes = [...running.values()].filter((scope) => scope.fenced)
      if (scopes.length === 0) {
        lastBeatMs = clock.monotonicMs()
        return
      }
      const sentMs = clock.monotonicMs()
      try {
        const alive = await kernel.beat(
          scopes.map((scope) => scope.turn),
          workerId,
        )
        lastBeatMs = sentMs
        for (const scope of scopes) {
          if (alive.has(scope.turn)) options.onBeat?.(scope.turn, sentMs)
          else scope.cancellation.cancel('fence_lost')
        }
      } catch (error) {
        // Without a beat for one processing timeout, another worker has reclaimed these turns or is about to. A guarded turn is
        // frozen by now, and a later beat finds out whether it continues.
        if (clock.monotonicMs() - lastBeatMs > settings.inboxProcessingTimeoutSeconds * 1_000) {
          for (const scope of scopes) if (!isHarmless(scope)) scope.cancellation.cancel('no_beat')
        }
        throw error
      }
    },
    async fail(turn, error) {
      const content = { text: printable(errorMessage(error)) }
      await kernel.deliver({ ...turn, status: 'failed', error: 'agent_failed', content })
      const scope = running.get(turn.agentTurnId)
      if (scope?.turn !== turn) return
      scope.cancellation.cancel('failed')
      // Its function may never return: a drain must not wait for it.
      remove(scope)
      announceRoom()
    },
    stopClaiming,
    free,
    room: () => (draining || free() > 0 ? Promise.resolve() : new Promise((resolve) => waitingForRoom.push(resolve))),
    async drain(graceMs) {
      stopClaiming()
      await Promise.all(offers)
      const finished = Promise.all([...running.values()].map((scope) => scope.done))
      const giveUp = new AbortController()
      await Promise.race([finished, clock.sleep(graceMs, giveUp.signal)])
      giveUp.abort()
      const left = [...running.values()]
      for (const scope of left) scope.cancellation.cancel('draining')
      await handBack(left)
    },
  }
}
