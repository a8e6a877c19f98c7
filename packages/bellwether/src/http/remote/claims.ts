/**
 * Claims turns for workers over HTTP, with everything that a worker needs to run them and a lease token of its own per turn, or none after a wait. A
 * turn is claimed only for a client that is still connected, and a resuming turn is marked before it is sent. If a turn is lost on its way to the
 * client, the watchdog finds it silent and another worker takes it over (W2.1, W2.3). A ring wakes one waiting request; a request that finds work
 * wakes the next.
 */
import { defined, linkAbort, type Clock, type Log, type Random } from '@bellwether/base'
import { Retryable, subjects } from '@bellwether/protocol'
import { newLeaseToken, putLeaseTokens, type Holder } from '../../kernel/access/lease-tokens.js'
import type { ClaimedTurn, Claimant } from '../../kernel/verbs/turn/claim.js'
import { resume } from '../../kernel/verbs/turn/resume.js'
import type { Kernel } from '../../kernel/kernel.js'
import { readBudgetLeft } from '../../kernel/reads/budgets.js'
import { readWork, type Work } from '../../kernel/reads/work.js'
import type { BudgetLeft } from '../../kernel/verbs/budgets/budgets.js'
import { signIn } from '../../kernel/verbs/roster.js'
import type { ToolResult } from '@bellwether/protocol/http'
import type { Bell, Listening } from '../../ports/bell/bell.js'
import { overBudget } from '../../worker/budget-watch.js'
import { isDeliverable, terminated, hasResults } from '../../worker/run-turn.js'
import { incomplete } from '../../worker/submit-result.js'
import { actionStep, isUiAction } from '../../worker/ui-action.js'
import { makeShares } from '../shares.js'
import { remotePrefix, type RemoteWatch } from './watch.js'

export interface RemoteTurn {
  readonly turn: ClaimedTurn
  /** The secret that the worker shows with every request for the turn. */
  readonly leaseToken: string
  readonly work: Work
  readonly results: readonly ToolResult[]
  /** What the turn may spend; null without a budget. */
  readonly left: BudgetLeft | null
}

interface ClaimRequest {
  readonly target: string
  /** Only turns of this project. */
  readonly project?: string | undefined
  /** The id of the worker's key. */
  readonly keyId: string
  /** The worker's own name. */
  readonly worker: string
  readonly max: number
  readonly waitMs: number
  readonly signal: AbortSignal
  /** Whether the worker's key is still valid; asked before each claim. */
  readonly isLive: () => boolean
}

export interface Claims {
  claim(request: ClaimRequest): Promise<RemoteTurn[]>
  /** All waiting requests try again. */
  wakeAll(): void
  close(): Promise<void>
}

export interface ClaimOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  readonly clock: Clock
  readonly log: Log
  readonly random: Pick<Random, 'bytes'>
  readonly watch: Pick<RemoteWatch, 'add'>
  readonly settings: {
    readonly pollSeconds: number
    readonly resumeLeaseSeconds: number
    readonly suspendTimeoutSeconds: number
  }
  /** A turn was handled here instead of being sent: a tool's result ended it, or a person's action suspended it. */
  readonly onHandled: () => void
}

// Each uses a connection. A fleet of workers may share one key.
const claimsAtOnce = { total: 1_000, perKey: 900 } as const
// The bell compares every ring with each of them.
const listenersMax = 200
// A head that another transaction has locked is usually free again after that transaction; the claim does not wait longer than this.
const againMs = 5
const busyMaxMs = 500
// The bytes of one response are shared by its turns. Each box has the newest cards that fit.
const responseBytesMax = 33_554_432
const boxBytesMax = 4_194_304

interface Waiter {
  readonly wake: () => void
  /** Undefined: it takes turns of every project. */
  readonly project: string | undefined
}

/** The waiting requests of one worker target. */
interface Listener {
  readonly waiting: Set<Waiter>
  /** The number of rings so far: a ring between a claim and the following wait must not be lost. */
  rings: number
  readonly listening: Promise<Listening>
}

export function openClaims(options: ClaimOptions): Claims {
  const { kernel, bell, clock, log, watch, settings } = options
  const listeners = new Map<string, Listener>()
  const places = makeShares('claims', claimsAtOnce.total, 1_000)

  /** Wakes the first request that takes turns of every project, and the first one of the project; without a project, of each project. */
  function wakeNext(listener: Listener, project?: string): void {
    const woken = new Set<string | undefined>()
    for (const waiter of listener.waiting) {
      const isConcerned = waiter.project === undefined || project === undefined || waiter.project === project
      if (!isConcerned || woken.has(waiter.project)) continue
      woken.add(waiter.project)
      waiter.wake()
      if (project !== undefined && woken.size === 2) return
    }
  }

  async function listenerOf(target: string): Promise<Listener> {
    watch.add(target)
    const known = listeners.get(target)
    if (known !== undefined) {
      await known.listening
      return known
    }
    await makeRoom()
    const waiting = new Set<Waiter>()
    const listener: Listener = {
      waiting,
      rings: 0,
      // Starts after `listener` is set, because a ring may come at once. After a reconnection rings may be lost: all try again.
      listening: Promise.resolve().then(() =>
        bell.listen(subjects.anyWakeup(target), (ring) => {
          listener.rings += 1
          if (ring === undefined) for (const { wake } of waiting) wake()
          else wakeNext(listener, ring.subject.split('.')[2])
        }),
      ),
    }
    listeners.set(target, listener)
    try {
      await listener.listening
      return listener
    } catch (error) {
      listeners.delete(target)
      throw error
    }
  }

  /** At the limit, stops a listener without waiting requests: any client can name a target, and each listener has a cost. */
  async function makeRoom(): Promise<void> {
    if (listeners.size < listenersMax) return
    for (const [target, listener] of listeners) {
      if (listener.waiting.size > 0) continue
      listeners.delete(target)
      await (await listener.listening).stop()
      return
    }
    throw new Retryable(`Too many worker targets have waiting workers: at most ${listenersMax}`, {
      code: 'busy',
      afterMs: 60_000,
    })
  }

  /** Resolves when the request is woken, when the time is over, or when the signal aborts. */
  async function wait(listener: Listener, project: string | undefined, ms: number, signal: AbortSignal): Promise<void> {
    const link = linkAbort(signal)
    const waiter = { wake: () => link.abort(), project }
    listener.waiting.add(waiter)
    await clock.sleep(ms, link.signal)
    link.release()
    listener.waiting.delete(waiter)
  }

  async function claimOnce(claimant: Claimant): Promise<{ turns: readonly ClaimedTurn[]; again: boolean }> {
    const { turns, again, refused } = await kernel.claim(claimant)
    for (const { project_id, agent_id, inbox_id, detail } of refused)
      log.warn({ project_id, agent_id, inbox_id, detail }, 'inbox row rejected')
    if (turns.length > 0 || again) return { turns, again }
    return { turns: await kernel.reconcile(claimant), again: false }
  }

  /** The turn with its cards; undefined if another worker has it, or if it ended here. */
  async function prepare(turn: ClaimedTurn, holder: Holder, bytesMax: number): Promise<RemoteTurn | undefined> {
    // A takeover continues where the dead worker stopped: the last results are those with which that worker resumed (W2.3b).
    const results = hasResults(turn) ? await kernel.readResults(turn.agentTurnId) : []
    if (isUiAction(turn) && results.length === 0) {
      // The server carries out the action itself, so that HTTP workers need no code for actions.
      await kernel.suspend({ ...fenceOf(turn), ...actionStep(turn) }, settings.suspendTimeoutSeconds)
      options.onHandled()
      return undefined
    }
    if (isDeliverable(turn, results)) {
      // No worker runs the turn again.
      const { deliver: content, status = 'success', error } = terminated(results)
      const verdict = await kernel.deliver({ ...fenceOf(turn), status, content, ...defined({ error }) })
      if (verdict.what === 'refused') {
        const { deliver, ...failed } = incomplete(verdict.missing)
        await kernel.deliver({ ...fenceOf(turn), content: deliver, ...failed })
      }
      options.onHandled()
      return undefined
    }
    const leaseToken = newLeaseToken(options.random)
    if (!(await hold(turn, leaseToken, holder, results[0]?.step_id))) return undefined
    const left = turn.payload['budget_id'] === undefined ? null : await readBudgetLeft(kernel.db, turn.agentTurnId)
    if (left !== null && left.exceededKeys.length > 0) {
      // A worker would have to end it at once.
      const { deliver: content, ...failed } = overBudget(left.exceededKeys, undefined)
      await kernel.deliver({ ...fenceOf(turn), content, ...failed })
      options.onHandled()
      return undefined
    }
    const work = await readWork(kernel.db, turn, bytesMax)
    return work === 'stale' ? undefined : { turn, leaseToken, work, results, left }
  }

  /** Stores the token, and marks a turn that resumes, in one transaction: a resume keeps the epoch, and the earlier token must end with it. */
  async function hold(turn: ClaimedTurn, leaseToken: string, holder: Holder, stepId?: string): Promise<boolean> {
    const leases = [{ fence: turn, leaseToken }]
    if (turn.kind !== 'resume') return (await putLeaseTokens(kernel.db, leases, holder)).size > 0
    return kernel.db.transaction(async (tx) => {
      if ((await resume(tx, turn, holder.workerId, stepId)) === 'stale') return false
      return (await putLeaseTokens(tx, leases, holder, true)).size > 0
    })
  }

  /** The turns are claimed and must reach the worker, even if its row cannot be updated. */
  const notRecorded = (error: unknown) => log.warn({ err: error }, 'cannot record the free slots of a worker')

  async function prepareAll(turns: readonly ClaimedTurn[], holder: Holder): Promise<RemoteTurn[]> {
    const out: RemoteTurn[] = []
    const bytesMax = Math.min(boxBytesMax, Math.floor(responseBytesMax / (2 * turns.length)))
    for (const turn of turns) {
      try {
        const prepared = await prepare(turn, holder, bytesMax)
        if (prepared !== undefined) out.push(prepared)
      } catch (error) {
        // The turn stays claimed and silent, so the watchdog reclaims it. The other turns are still sent.
        log.error({ err: error, agent_turn_id: turn.agentTurnId }, 'cannot send a claimed turn')
      }
    }
    return out
  }

  return {
    async claim({ target, project, worker, keyId, max, waitMs, signal, isLive }) {
      const leave = places.take(keyId, 1, claimsAtOnce.perKey)
      try {
        const listener = await listenerOf(target)
        // One row per target: a worker may claim from several.
        const workerId = `${remotePrefix}${target}:${worker}`
        // Before the first claim, because W2.5 counts the known workers.
        await signIn(kernel.db, workerId, target, max, max)
        const holder = { workerId, workerTarget: target, keyId }
        const { resumeLeaseSeconds } = settings
        const claimant = { workerTarget: target, workerId, max, resumeLeaseSeconds, projectId: project }
        const endsMs = clock.monotonicMs() + waitMs
        for (;;) {
          if (signal.aborted || !isLive()) {
            // The ring may have been for this request: wake the next one instead.
            wakeNext(listener)
            return []
          }
          const { rings } = listener
          const { turns, again } = await claimOnce(claimant)
          if (turns.length > 0) wakeNext(listener)
          const out = await prepareAll(turns, holder)
          if (out.length > 0) {
            await signIn(kernel.db, workerId, target, max, max - out.length).catch(notRecorded)
            return out
          }
          const leftMs = endsMs - clock.monotonicMs()
          const busy = again || turns.length > 0
          if (leftMs <= (busy ? -busyMaxMs : 0)) return []
          if (busy) await clock.sleep(againMs, signal)
          else if (rings === listener.rings)
            await wait(listener, project, Math.min(leftMs, settings.pollSeconds * 1_000), signal)
        }
      } finally {
        leave()
      }
    },
    wakeAll() {
      for (const listener of listeners.values()) {
        listener.rings += 1
        for (const { wake } of listener.waiting) wake()
      }
    },
    async close() {
      for (const listener of listeners.values()) await (await listener.listening).stop()
      listeners.clear()
    },
  }
}

const fenceOf = ({ projectId, agentId, agentTurnId, turnEpoch }: ClaimedTurn) => ({
  projectId,
  agentId,
  agentTurnId,
  turnEpoch,
})
