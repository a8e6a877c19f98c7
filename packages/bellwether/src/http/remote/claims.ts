/**
 * Claims of workers outside this house: turns with everything that is needed to run them, or none after a wait. Always: a turn is
 * claimed only for a client that is still there; one that resumes is marked so before it is handed out; one that dies on the way to
 * the client is found silent and given to another (W2.1, W2.3). A ring wakes one who waits, and whoever finds work wakes the next.
 */
import { defined, type Clock, type Log } from '@bellwether/base'
import { Retryable, subjects } from '@bellwether/protocol'
import type { ClaimedTurn, Claimant } from '../../kernel/verbs/turn/claim.js'
import type { Kernel } from '../../kernel/kernel.js'
import { readWork, type Work } from '../../kernel/reads/work.js'
import { signIn } from '../../kernel/verbs/roster.js'
import type { ToolResult } from '@bellwether/protocol/http'
import type { Bell, Listening } from '../../ports/bell/bell.js'
import { terminated } from '../../worker/run-turn.js'
import { incomplete } from '../../worker/submit-result.js'
import { remotePrefix, type RemoteWatch } from './watch.js'

export interface RemoteTurn {
  readonly turn: ClaimedTurn
  readonly work: Work
  readonly results: readonly ToolResult[]
}

export interface ClaimRequest {
  readonly target: string
  /** What the worker calls itself. */
  readonly worker: string
  readonly max: number
  readonly waitMs: number
  readonly signal: AbortSignal
}

export interface Claims {
  claim(request: ClaimRequest): Promise<RemoteTurn[]>
  /** Everybody who waits looks again. */
  wakeAll(): void
  close(): Promise<void>
}

export interface ClaimOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  readonly clock: Clock
  readonly log: Log
  readonly watch: Pick<RemoteWatch, 'add'>
  readonly settings: { readonly pollSeconds: number; readonly resumeLeaseSeconds: number }
  /** A turn ended on its way out: a tool said that its result ends it. */
  readonly onEnded: () => void
}

// Each is a connection that waits.
const waitersMax = 1_000
// Each is a pattern that the bell matches every ring against.
const doorsMax = 200
// A head that is busy with someone else is free again within a transaction; one that is not must not hold the claim for ever.
const againMs = 5
const busyMaxMs = 500
// What one answer may hold, shared by its turns; of one box never more than the newest cards that fit.
const answerBytesMax = 33_554_432
const boxBytesMax = 4_194_304

interface Door {
  readonly waiting: Set<() => void>
  /** How often the bell has rung here: a ring between a look and the wait after it must not be lost. */
  rings: number
  readonly listening: Promise<Listening>
}

export function openClaims(options: ClaimOptions): Claims {
  const { kernel, bell, clock, log, watch, settings } = options
  const doors = new Map<string, Door>()
  let waiters = 0

  function wakeOne(door: Door): void {
    const first = door.waiting.values().next().value
    first?.()
  }

  async function doorOf(target: string): Promise<Door> {
    watch.add(target)
    const known = doors.get(target)
    if (known !== undefined) {
      await known.listening
      return known
    }
    await makeRoom()
    const waiting = new Set<() => void>()
    const door: Door = {
      waiting,
      rings: 0,
      // Once there is a door: a bell may ring while it is hung. After a reconnection rings may have been missed: everybody looks.
      listening: Promise.resolve().then(() =>
        bell.listen(subjects.anyWakeup(target), (ring) => {
          door.rings += 1
          if (ring === undefined) for (const wake of waiting) wake()
          else wakeOne(door)
        }),
      ),
    }
    doors.set(target, door)
    try {
      await door.listening
      return door
    } catch (error) {
      doors.delete(target)
      throw error
    }
  }

  /** Doors at which nobody waits are shut when there are too many: names cost nothing, and listening does. */
  async function makeRoom(): Promise<void> {
    if (doors.size < doorsMax) return
    for (const [target, door] of doors) {
      if (door.waiting.size > 0) continue
      doors.delete(target)
      await (await door.listening).stop()
      return
    }
    throw new Retryable('workers wait at too many targets', { code: 'busy', afterMs: 60_000 })
  }

  /** Until woken, the poll is due or the signal fires. */
  async function wait(door: Door, ms: number, signal: AbortSignal): Promise<void> {
    const over = new AbortController()
    const wake = () => over.abort()
    door.waiting.add(wake)
    signal.addEventListener('abort', wake, { once: true })
    await clock.sleep(ms, over.signal)
    signal.removeEventListener('abort', wake)
    door.waiting.delete(wake)
  }

  async function take(claimant: Claimant): Promise<{ turns: readonly ClaimedTurn[]; again: boolean }> {
    const { turns, again, refused } = await kernel.claim(claimant)
    for (const { project_id, agent_id, inbox_id, detail } of refused)
      log.warn({ project_id, agent_id, inbox_id, detail }, 'an inbox row was refused')
    if (turns.length > 0 || again) return { turns, again }
    return { turns: await kernel.reconcile(claimant), again: false }
  }

  /** Undefined: another has it, or it ended here. */
  async function handOut(turn: ClaimedTurn, workerId: string, bytesMax: number): Promise<RemoteTurn | undefined> {
    // A takeover goes on where the dead worker stood: what it had resumed with is still what was answered last (W2.3b).
    const results = turn.kind === 'resume' || turn.takenOver ? await kernel.readResults(turn.agentTurnId) : []
    if (results.some((result) => result.after_execution === 'terminate')) {
      // T3.3c: the result is the deliverable; no worker is asked again.
      const { deliver: content, status = 'success', error } = terminated(results)
      const verdict = await kernel.deliver({ ...fenceOf(turn), status, content, ...defined({ error }) })
      if (verdict.what === 'refused') {
        const { deliver, ...failed } = incomplete(verdict.missing)
        await kernel.deliver({ ...fenceOf(turn), content: deliver, ...failed })
      }
      options.onEnded()
      return undefined
    }
    if (turn.kind === 'resume' && (await kernel.resume(turn, workerId, results[0]?.step_id)) === 'stale')
      return undefined
    const work = await readWork(kernel.db, turn, bytesMax)
    return work === 'stale' ? undefined : { turn, work, results }
  }

  /** The turns are claimed: what keeps the worker's row from being right must not keep them from the worker. */
  const untold = (error: unknown) => log.warn({ err: error }, 'a worker’s free slots could not be noted')

  async function handOutAll(turns: readonly ClaimedTurn[], workerId: string): Promise<RemoteTurn[]> {
    const out: RemoteTurn[] = []
    const bytesMax = Math.min(boxBytesMax, Math.floor(answerBytesMax / (2 * turns.length)))
    for (const turn of turns) {
      try {
        const handed = await handOut(turn, workerId, bytesMax)
        if (handed !== undefined) out.push(handed)
      } catch (error) {
        // It stays claimed and silent, and comes back by the watchdog; the others must not.
        log.error({ err: error, agent_turn_id: turn.agentTurnId }, 'a claimed turn could not be handed out')
      }
    }
    return out
  }

  return {
    async claim({ target, worker, max, waitMs, signal }) {
      if (waiters >= waitersMax)
        throw new Retryable('too many workers wait for turns', { code: 'busy', afterMs: 1_000 })
      waiters += 1
      try {
        const door = await doorOf(target)
        // One row for each target: the same worker may claim from several.
        const workerId = `${remotePrefix}${target}:${worker}`
        // Before its first claim: W2.5 counts by the workers that are known.
        await signIn(kernel.db, workerId, target, max, max)
        const claimant = { workerTarget: target, workerId, max, resumeLeaseSeconds: settings.resumeLeaseSeconds }
        const endsMs = clock.monotonicMs() + waitMs
        for (;;) {
          if (signal.aborted) {
            // It may have been woken for this: whoever waits next looks instead.
            wakeOne(door)
            return []
          }
          const { rings } = door
          const { turns, again } = await take(claimant)
          if (turns.length > 0) wakeOne(door)
          const out = await handOutAll(turns, workerId)
          if (out.length > 0) {
            await signIn(kernel.db, workerId, target, max, max - out.length).catch(untold)
            return out
          }
          const leftMs = endsMs - clock.monotonicMs()
          const busy = again || turns.length > 0
          if (leftMs <= (busy ? -busyMaxMs : 0)) return []
          if (busy) await clock.sleep(againMs, signal)
          else if (rings === door.rings) await wait(door, Math.min(leftMs, settings.pollSeconds * 1_000), signal)
        }
      } finally {
        waiters -= 1
      }
    },
    wakeAll() {
      for (const door of doors.values()) {
        door.rings += 1
        for (const wake of door.waiting) wake()
      }
    },
    async close() {
      for (const door of doors.values()) await (await door.listening).stop()
      doors.clear()
    },
  }
}

const fenceOf = ({ projectId, agentId, agentTurnId, turnEpoch }: ClaimedTurn) => ({
  projectId,
  agentId,
  agentTurnId,
  turnEpoch,
})
