/**
 * The kernel: the verbs bound to one database and one bell. Each method is one round trip and one transaction; the kernel rings the bell
 * after the commit, and a ring only wakes. Single calls that arrive together share a batch.
 */
import { groupBy } from '@bellwether/base'
import { defaultChannel, InvalidInput, subjects } from '@bellwether/protocol'
import type { Bell, Ring } from '../ports/bell/bell.js'
import type { Database } from '../ports/database/database.js'
import type { Ids } from '../ports/ids.js'
import { coalesce } from './coalesce.js'
import { openLocalWorkers, type LocalWorker } from './local-workers.js'
import type { BatchRow, ToolResult } from '@bellwether/protocol/http'
import { readBatch } from './reads/batches.js'
import { readBudget, type BudgetRow } from './reads/budgets.js'
import { readBoxes, readCard } from './reads/cards.js'
import { readWaiting } from './reads/messages.js'
import { readProgramSession, type StoredSession } from './reads/program-session.js'
import { readResults } from './reads/waits.js'
import {
  endHold,
  enterAccount,
  holdAccount,
  park,
  releaseParked,
  type Entered,
  type Hold,
  type Limit,
} from './verbs/accounts/accounts.js'
import { dispatchTasks } from './verbs/batches/dispatch_tasks.js'
import { batchIdOfCall, fork, joinTool, type NewBatch, type OutsideBatch } from './verbs/batches/fork.js'
import {
  commitUsage,
  limitTurn,
  openPurse,
  releaseUsage,
  reserve,
  type Ask,
  type BudgetLeft,
  type Committed,
  type Limits,
  type Purse,
  type Reserved,
  type Used,
} from './verbs/budgets/budgets.js'
import { meterSpending, type Metered } from './verbs/budgets/spending.js'
import { makeBox, type Card, type NewBox } from './verbs/cards.js'
import { putAgents, putProfile, putTool, type Agent, type Profile, type Tool } from './verbs/roster.js'
import { takeCall, type PmoCall } from './verbs/tools/pmo_calls.js'
import { report, type Receipt, type ReportResult } from './verbs/tools/report.js'
import {
  beatTools,
  openCalls,
  startTool,
  type OpenCall,
  type OpenCallsQuery,
  type StartedTool,
} from './verbs/tools/tool_hosts.js'
import { appendTranscript, type TranscriptBatch } from './verbs/content/append_transcript.js'
import { beat, type Beat } from './verbs/turn/beat.js'
import { claim, claimOf, reconcile, type Claim, type Claimant, type ClaimedTurn } from './verbs/turn/claim.js'
import { deliver, delivered, deliveryRow, type Delivery, type DeliverResult } from './verbs/turn/deliver.js'
import { enqueue, turnRow, type Enqueued, type NewTurn } from './verbs/turn/enqueue.js'
import { say, takeMessages, type NewMessage, type TurnMessage } from './verbs/content/messages.js'
import { record, type Recorded, type Writing } from './verbs/content/record.js'
import { forkTurn, type TurnFork } from './verbs/turn/fork_turn.js'
import { resume } from './verbs/turn/resume.js'
import { storeSession, type ProgramSession } from './verbs/content/store_session.js'
import { stop, type Stopping, type StopResult } from './verbs/turn/stop.js'
import { suspend, type Suspended, type Suspension } from './verbs/turn/suspend.js'
import { swapBox, type BoxSwap } from './verbs/content/swap_box.js'
import {
  askApproval,
  askForCall,
  decideApproval,
  takeDecision,
  withoutUnapproved,
  type ApprovalRequest,
  type AskedApproval,
  type Decision,
  type DecisionDetail,
  type DecisionResult,
  type HostedCall,
  type TakenDecision,
} from './verbs/approvals/approvals.js'
import { uiAction, type RejectedAction, type UiAction, type UiActionVerdict } from './verbs/turn/ui_action.js'
import { call, fenceRow, ringsFor, type Fence, type Ringable, type Verdict } from './verdict.js'

export interface Kernel {
  readonly db: Database
  readonly ids: Ids
  putAgents(agents: readonly Agent[]): Promise<void>
  putProfile(profile: Profile): Promise<void>
  putTool(tool: Tool): Promise<void>
  makeBox(box: NewBox): Promise<string>
  readBoxes(boxIds: readonly (string | null)[]): Promise<Card[]>
  readCard(cardId: string): Promise<Card | undefined>

  /** Enqueues one turn; concurrent calls share a batch. Throws InvalidInput if the turn cannot be accepted. */
  enqueue(turn: NewTurn): Promise<Enqueued>
  /** Enqueues many turns in one transaction; a turn that cannot be accepted becomes an InvalidInput in its place. */
  enqueueMany(turns: readonly NewTurn[]): Promise<(Enqueued | InvalidInput)[]>
  /** Starts a turn with cards of an earlier one. Throws InvalidInput if it cannot be accepted; nothing is written then. */
  forkTurn(fork: TurnFork): Promise<Enqueued>
  /** Leases an idle agent for a person's action; the worker that claims the turn calls the tool. Only `accepted` changes anything. */
  uiAction(action: UiAction): Promise<UiActionResult>
  stop(stopping: Stopping): Promise<StopResult>
  report(receipts: readonly Receipt[]): Promise<ReportResult[]>
  startTool(projectId: string, toolCallId: string, host: string): Promise<StartedTool | undefined>
  /** Before a host starts a call of a tool with `approve: ask`; `waiting`: a person decides first. */
  askForCall(call: HostedCall): Promise<'allowed' | 'waiting' | 'gone'>
  /** A program of a running turn asks a person for a call. */
  askApproval(request: ApprovalRequest): Promise<AskedApproval>
  takeDecision(approvalId: string, turnEpoch: number): Promise<TakenDecision>
  decideApproval(decision: Decision): Promise<{ result: DecisionResult; detail: DecisionDetail | null }>
  /** Calls that a tool host may start, for hosts that no bell reaches. */
  openCalls(query: OpenCallsQuery): Promise<OpenCall[]>
  /** A tool host reports the calls it is working on; returns the ones it must give up. */
  beatTools(projectId: string, toolCallIds: readonly string[], host: string): Promise<Set<string>>

  /** From now on the worker may claim in the transaction that enqueues turns, until the returned function is called. */
  attach(worker: LocalWorker): () => void
  /** `refused`: rows without a turn or with another agent's turn, and late receipts (T3.2b). */
  claim(claimant: Claimant): Promise<Claim>
  reconcile(claimant: Claimant): Promise<readonly ClaimedTurn[]>
  /** Returns the beats whose fence is still valid. */
  beat<One extends Beat>(beats: readonly One[], workerId: string | null): Promise<Set<One>>
  /** Returns turns that a worker stopped during its shutdown to the queue, without charging a death. */
  handBack(fences: readonly Fence[], workerId: string): Promise<void>
  record(writing: Writing): Promise<Recorded>
  /** Appends to transcripts and rings for their readers. Returns the last sequence number per batch, in their order. */
  appendTranscript(batches: readonly TranscriptBatch[], maxBytes: number): Promise<(number | 'stale')[]>
  /** Sends a message to a turn that has not ended. Throws Terminal if it has. */
  say(message: NewMessage): Promise<{ readonly seq: number; readonly delivered: boolean }>
  /** Gives the waiting messages to the agent, in order, and marks them as delivered. */
  takeMessages(fence: Fence): Promise<readonly TurnMessage[] | 'stale'>
  readWaiting(agentTurnId: string): Promise<{ readonly waiting: boolean; readonly urgent: boolean }>
  /** The session of a coding agent's program that a run of the turn resumes. */
  readProgramSession(fence: Fence): Promise<StoredSession | undefined>
  storeSession(fence: Fence, session: ProgramSession): Promise<'stored' | 'stale'>
  /** Compaction: creates a new output box for a running turn and returns its id. */
  swapBox(swap: BoxSwap): Promise<{ readonly boxId: string } | 'stale'>
  /** Enqueues the tasks of calls that are forks at once. */
  suspend(suspension: Suspension, suspendSeconds: number): Promise<Suspended>
  /** A PMO takes a call that was sent to it and forks its batch. */
  takeCall(call: PmoCall, batch: NewBatch): Promise<'taken' | 'gone'>
  /** Forks a batch that no turn waits for; `readBatch` returns its state. */
  fork(batch: OutsideBatch): Promise<{ readonly batchId: string; readonly what: 'forked' | 'already' }>
  readBatch(projectId: string, batchId: string): Promise<BatchRow | undefined>
  /** Opens a budget that can pay for turns; opening it again sets its limits. */
  openPurse(purse: Purse): Promise<void>
  readBudget(budgetId: string): Promise<BudgetRow | undefined>
  /** Reserves the most that a call may use; afterwards commit what it used, or release it. */
  reserve(fence: Fence, ask: Ask): Promise<Reserved>
  commitUsage(fence: Fence, used: Used): Promise<Committed>
  releaseUsage(fence: Fence, reservationId: string): Promise<Committed>
  /** Applies an agent's limits to a running turn; never raises a limit. Returns what is left; null without a budget. */
  limitTurn(fence: Fence, limits: Limits): Promise<BudgetLeft | null | 'stale'>
  /** Before a turn spends: counts its usage in the spending limits that apply to its agent and model. */
  meterSpending(fence: Fence, model: string | undefined): Promise<Metered>
  /** Before each call that is charged to an account. */
  enterAccount(fence: Fence, account: string): Promise<Entered>
  /** Holds an account that reached a limit of its provider, at most `maxSeconds`. */
  holdAccount(fence: Fence, limit: Limit, maxSeconds: number): Promise<Hold>
  /** Ends the hold of an account, if the fence is its probe's or absent, and continues its turns. False if there is none. */
  endHold(account: string, by: string, fence?: Fence): Promise<boolean>
  /** Suspends a turn until its account is free, at most `seconds`. */
  park(fence: Fence, hold: Hold, seconds: number): Promise<Suspended>
  resume(fence: Fence, workerId: string, stepId?: string): Promise<'resumed' | 'stale'>
  readResults(agentTurnId: string): Promise<ToolResult[]>
  /** Delivers one turn; concurrent calls share a batch. */
  deliver(delivery: Delivery): Promise<DeliverResult>
  /** Rings for the verdicts of a verb that was called outside the kernel. */
  ring(verdicts: readonly Ringable[]): Promise<void>
  /** Rings for the joiner: a process has no running task of the batch left. */
  ringJoiner(projectId: string, batchId: string): Promise<void>
}

interface UiActionResult {
  readonly what: UiActionVerdict['what']
  /** The turn of the action, or the earlier turn with the same action id. */
  readonly agentTurnId: string | null
  /** Why it was rejected. */
  readonly reason: RejectedAction | null
}

// 500 rows keep a verb near 30 ms; with two calls in flight, one batch runs while the other commits.
const enqueues = { max: 500, inFlight: 2, queueMax: 50_000 }
// Smaller batches than enqueues, and one more in flight: a worker claims as soon as a batch has ended its turns, so that claims and
// endings overlap instead of alternating.
const deliveries = { max: 250, inFlight: 3, queueMax: 50_000 }

/** A turn that cannot be accepted becomes an InvalidInput and does not affect the others. */
function rowOrInvalid(ids: Ids, turn: NewTurn): ReturnType<typeof turnRow> | InvalidInput {
  try {
    return turnRow(ids, turn)
  } catch (error) {
    if (error instanceof InvalidInput) return error
    throw error
  }
}

export function openKernel({ db, bell, ids }: { db: Database; bell: Bell; ids: Ids }): Kernel {
  async function rung<Row extends Ringable>(verdicts: readonly Row[]): Promise<readonly Row[]> {
    const rings = ringsFor(verdicts)
    if (rings.length > 0) await bell.ring(rings)
    return verdicts
  }

  const localWorkers = openLocalWorkers()

  async function enqueueRows(rows: readonly ReturnType<typeof turnRow>[]): Promise<(Enqueued | InvalidInput)[]> {
    const offer = localWorkers.offer(rows.length)
    let claim: Claim | undefined
    try {
      const { results, verdicts, claimed } = await enqueue(db, rows, offer?.claimant)
      if (claimed === undefined) {
        await rung(verdicts)
      } else {
        claim = claimOf(claimed)
        // A worker that has claimed everything needs no ring.
        const done = claim.again || claim.heldBack ? undefined : offer?.claimant.workerTarget
        const others = verdicts.filter((verdict) => done === undefined || verdict.worker_target !== done)
        await rung([...others, ...claimed.others])
      }
      return results
    } finally {
      offer?.take(claim)
    }
  }
  async function ringJoiner(project: string, batchId: string): Promise<void> {
    const subject = subjects.pmoCall({ project, channel: defaultChannel }, joinTool)
    await bell.ring([{ subject, payload: { batch_id: batchId } }])
  }

  async function dispatchAll(project: string, batchId: string, tasks: number): Promise<void> {
    // An idle joiner polls rarely: without the ring, a short batch would wait for the poll.
    await ringJoiner(project, batchId)
    await dispatchTasks(db, batchId, [...Array(tasks).keys()], rung)
  }

  const enqueueOne = coalesce(enqueueRows, enqueues)

  const deliverOne = coalesce(
    async (rows: readonly ReturnType<typeof deliveryRow>[]) => delivered(rows, await rung(await deliver(db, rows))),
    deliveries,
  )

  return {
    db,
    ids,
    putAgents: (agents) => putAgents(db, ids, agents),
    putProfile: (profile) => putProfile(db, profile),
    putTool: (tool) => putTool(db, tool),
    makeBox: (box) => makeBox(db, ids, box),
    readBoxes: (boxIds) => readBoxes(db, boxIds),
    readCard: (cardId) => readCard(db, cardId),
    async enqueue(turn) {
      const result = await enqueueOne(turnRow(ids, turn))
      if (result instanceof InvalidInput) throw result
      return result
    },
    async enqueueMany(turns) {
      const rows = turns.map((turn) => rowOrInvalid(ids, turn))
      const valid = rows.filter((row): row is ReturnType<typeof turnRow> => !(row instanceof InvalidInput))
      const results = valid.length === 0 ? [] : await enqueueRows(valid)
      return rows.map((row) => (row instanceof InvalidInput ? row : results.shift()!))
    },
    async forkTurn(fork) {
      const { result, verdicts } = await forkTurn(db, ids, fork)
      await rung(verdicts)
      return result
    },
    async uiAction(action) {
      const [verdict] = await rung(await uiAction(db, ids, action))
      return {
        what: verdict?.what ?? 'rejected',
        agentTurnId: verdict?.agent_turn_id ?? null,
        reason: verdict?.detail?.reason ?? null,
      }
    },
    async stop(stopping) {
      const { result, verdicts } = await stop(db, ids, stopping)
      await rung(verdicts)
      return result
    },
    async report(receipts) {
      const { results, verdicts } = await report(db, ids, receipts)
      await rung(verdicts)
      return results
    },
    startTool: (projectId, toolCallId, host) => startTool(db, projectId, toolCallId, host),
    askForCall: (call) => askForCall(db, call),
    askApproval: (request) => askApproval(db, request),
    takeDecision: (approvalId, turnEpoch) => takeDecision(db, approvalId, turnEpoch),
    async decideApproval(decision) {
      const { result, detail, verdicts } = await decideApproval(db, ids, decision)
      await rung(verdicts)
      return { result, detail }
    },
    openCalls: (query) => openCalls(db, query),
    beatTools: (projectId, toolCallIds, host) => beatTools(db, projectId, toolCallIds, host),
    attach: (worker) => localWorkers.attach(worker),
    async claim(claimant) {
      const claimed = await claim(db, claimant)
      await rung(claimed.others)
      return claimOf(claimed)
    },
    async reconcile(claimant) {
      return (await reconcile(db, claimant)).turns
    },
    beat: (beats, workerId) => beat(db, beats, workerId),
    async handBack(fences, workerId) {
      await rung(await call<Verdict<'reclaimed'>>(db, 'hand_back', fences.map(fenceRow), workerId))
    },
    record: (writing) => record(db, ids, writing),
    async appendTranscript(batches, maxBytes) {
      const results = await appendTranscript(db, batches, maxBytes)
      const appended = batches.filter((_, at) => results[at] !== 'stale')
      if (appended.length > 0) await bell.ring(transcriptRings(appended))
      return results
    },
    say: (message) => say(db, message),
    async takeMessages(fence) {
      const messages = await takeMessages(db, fence)
      if (messages !== 'stale' && messages.length > 0) await bell.ring(transcriptRings([fence]))
      return messages
    },
    readWaiting: (agentTurnId) => readWaiting(db, agentTurnId),
    readProgramSession: (fence) => readProgramSession(db, fence),
    storeSession: (fence, session) => storeSession(db, fence, session),
    swapBox: (swap) => swapBox(db, ids, swap),
    async suspend(suspension, suspendSeconds) {
      const { projectId } = suspension
      const calls = await withoutUnapproved(db, projectId, suspension.calls)
      const verdict = await suspend(db, ids, { ...suspension, calls }, suspendSeconds)
      if (verdict === 'stale') return verdict
      for (const { toolCallId, batch } of calls)
        if (batch !== undefined) await dispatchAll(projectId, batchIdOfCall(projectId, toolCallId), batch.tasks.length)
      return verdict
    },
    async takeCall(call, batch) {
      const verdict = await takeCall(db, ids, call, batch)
      const { projectId, toolCallId } = call
      if (verdict === 'taken') await dispatchAll(projectId, batchIdOfCall(projectId, toolCallId), batch.tasks.length)
      return verdict
    },
    async fork(batch) {
      const forked = await fork(db, ids, batch)
      if (forked.what === 'forked') await dispatchAll(batch.projectId, forked.batchId, batch.tasks.length)
      return forked
    },
    readBatch: (projectId, batchId) => readBatch(db, projectId, batchId),
    openPurse: (purse) => openPurse(db, purse),
    readBudget: (budgetId) => readBudget(db, budgetId),
    reserve: (fence, ask) => reserve(db, fence, ask),
    commitUsage: (fence, used) => commitUsage(db, fence, used),
    releaseUsage: (fence, reservationId) => releaseUsage(db, fence, reservationId),
    limitTurn: (fence, limits) => limitTurn(db, ids, fence, limits),
    meterSpending: (fence, model) => meterSpending(db, ids, fence, model),
    enterAccount: (fence, account) => enterAccount(db, fence, account),
    holdAccount: (fence, limit, maxSeconds) => holdAccount(db, fence, limit, maxSeconds),
    async endHold(account, by, fence) {
      const ended = await endHold(db, account, by, fence)
      // The guard of a PMO continues the rest, and all of them if this process dies here.
      if (ended) await rung(await releaseParked(db, ids))
      return ended
    },
    park: (fence, hold, seconds) => park(db, ids, fence, hold, seconds),
    resume: (fence, workerId, stepId) => resume(db, fence, workerId, stepId),
    readResults: (agentTurnId) => readResults(db, agentTurnId),
    deliver: async (delivery) => deliverOne(deliveryRow(ids, delivery)),
    async ring(verdicts) {
      await rung(verdicts)
    },
    ringJoiner,
  }
}

// Ids of 36 characters: a ring stays below the limit of a notification.
const turnsPerRing = 100

/** One ring per project, not one per turn: readers of other turns ignore it. */
function transcriptRings(batches: readonly Fence[]): Ring[] {
  return [...groupBy(batches, ({ projectId }) => projectId)].map(([project, fences]) => {
    const turns = fences.map(({ agentTurnId }) => agentTurnId)
    return {
      subject: subjects.transcript({ project, channel: defaultChannel }),
      // Without ids, every reader of the project reads.
      payload: turns.length > turnsPerRing || turns.some((id) => id.length > 60) ? {} : { agent_turn_ids: turns },
    }
  })
}
