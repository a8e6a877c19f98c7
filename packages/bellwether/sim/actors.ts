/**
 * The actors of the simulation, built from the product: the real worker with its loops and watchdog, the real guard and the real relay; only
 * the outside world (clients, tool hosts, a stream) is simulated. Each actor is a process: one fibre, one connection, and it may die at
 * any statement.
 */
import { defined } from '@bellwether/base'
import type { Log } from '@bellwether/base'
import { beginning, readEvents } from '../src/kernel/verbs/events.js'
import { openKernel, type Kernel } from '../src/kernel/kernel.js'
import type { TurnBudget } from '../src/kernel/verbs/budgets/budgets.js'
import { openJoiner } from '../src/pmo/batches.js'
import { openGuard } from '../src/pmo/guard.js'
import { openRelay } from '../src/pmo/relay.js'
import type { EventStream } from '../src/ports/stream/stream.js'
import type { ClaimedTurn } from '../src/kernel/verbs/turn/claim.js'
import { FenceLost, type AgentFunction, type TurnAction, type TurnContext } from '../src/worker/agent.js'
import { runWorker } from '../src/worker/loop.js'
import type { Body, Fibre } from './engine/index.js'

export const project = 'p'
export const target = 'w'

/** Scaled down so that a run needs few ticks; the ratios are those of the defaults. */
export const timing = {
  watchdogIntervalSeconds: 20,
  dispatchedRetrySeconds: 30,
  dispatchedTimeoutSeconds: 90,
  pendingWakeupSeconds: 20,
  pendingWakeupSkipSeconds: 120,
  activeReapSeconds: 240,
  suspendedReapSeconds: 240,
  maxQueueSeconds: 3_600,
  inboxProcessingTimeoutSeconds: 90,
  maxDeaths: 3,
  suspendTimeoutSeconds: 60,
  resumeLeaseSeconds: 60,
  pollSeconds: 20,
  beatSeconds: 20,
  drainSeconds: 1,
} as const

/** Fibres have no standard error; the invariants find permanent failures. */
export const silent: Log = { info: () => undefined, warn: () => undefined, error: () => undefined }

export function kernelOf(fibre: Fibre): Kernel {
  return openKernel({ db: fibre.db, bell: fibre.bell, ids: fibre.ids })
}

/** The payload says what a turn does: work for a while, write a card, call tools once, then deliver. */
export interface Script {
  readonly workMs?: number
  readonly tools?: readonly ('answers' | 'silent' | 'twice' | 'terminates')[]
  readonly writes?: number
  /** Forks a task for each of these agents and waits. */
  readonly fork?: readonly string[]
  readonly failFast?: boolean
  /** The turn kills its worker: always, or only the first one. */
  readonly kills?: 'always' | 'once'
  /** How many calls the turn pays for, and the tokens per call. */
  readonly spends?: { readonly calls: number; readonly tokens: number }
  /** Calls a provider that refuses its first calls because of a limit; the worker dies during its first probe. */
  readonly refusals?: number
}

/** The name of a child says what it does, because it has no payload from a client. */
function scriptOf(turn: ClaimedTurn): Script {
  if (turn.payload['batch_id'] === undefined) return (turn.payload['script'] ?? {}) as Script
  const spends = { calls: 2, tokens: 30 }
  return turn.agentId.startsWith('slow') ? { workMs: 30_000, spends } : { writes: 1, spends }
}

/** Pays for calls until the budget is exceeded. */
async function spend(
  fibre: Fibre,
  turn: ClaimedTurn,
  { calls, tokens }: NonNullable<Script['spends']>,
): Promise<boolean> {
  const kernel = kernelOf(fibre)
  for (let count = 0; count < calls; count += 1) {
    const reservationId = fibre.ids.next()
    const { what } = await kernel.reserve(turn, { reservationId, tokens })
    if (what === 'exceeded') return false
    if (what === 'stale') throw new FenceLost(turn.agentTurnId)
    await kernel.commitUsage(turn, { reservationId, tokens: tokens - count })
  }
  return true
}

const account = 'provider'

/** One call that is charged to the account. It notes the window that it probes before it learns whether the provider refuses. */
async function callProvider(fibre: Fibre, { accounts, turn }: TurnContext, refusals: number): Promise<void> {
  const entered = await accounts?.enter(account)
  await fibre.db.query({
    text: `insert into state.sim_calls
      select $1, $2, a.held_since, a.window_no from (select 1) one left join state.account_holds a
        on a.account = $3 and a.ended_at is null and (a.probe_turn_id, a.probe_epoch) = ($1, $2)`,
    values: [turn.agentTurnId, turn.turnEpoch, account],
  })
  const [row] = await fibre.db.query<{ calls: number; probes: number }>({
    text: 'select count(*)::int as calls, count(probe)::int as probes from state.sim_calls',
  })
  if (entered === 'probe' && row?.probes === 1) await fibre.die()
  if ((row?.calls ?? 0) <= refusals) await accounts?.hold({ account, reason: 'limit reached' })
  if (entered === 'probe') await accounts?.works(account)
}

/** A card whose text and metadata name its turn, for the invariants. */
export const thought = (agentTurnId: string) => ({
  type: 'agent.thought' as const,
  content: { text: `thought of ${agentTurnId}` },
  metadata: { agent_turn_id: agentTurnId },
})

function scripted(fibre: Fibre): AgentFunction {
  return async (context) => {
    const { turn } = context
    const script = scriptOf(turn)
    if (turn.kind === 'turn') {
      const values = [turn.agentTurnId, turn.turnEpoch, fibre.name]
      await fibre.db.query({ text: 'insert into state.sim_claims values ($1, $2, $3)', values })
    }
    if (script.kills === 'always' || (script.kills === 'once' && !turn.takenOver)) await fibre.die()
    if (script.workMs !== undefined) await fibre.clock.sleep(script.workMs, context.signal)
    for (let count = 0; count < (script.writes ?? 0); count += 1) {
      const stepId = context.newId()
      await context.record({ cards: [thought(turn.agentTurnId)], step: { stepId, phase: 'think', status: 'done' } })
    }
    if (script.refusals !== undefined) await callProvider(fibre, context, script.refusals)
    if (turn.agentId.startsWith('bad')) return { deliver: { text: 'no' }, status: 'failed', error: 'bad' }
    if (script.spends !== undefined && !(await spend(fibre, turn, script.spends)))
      return { deliver: { text: 'what there is' }, status: 'failed', error: 'budget_exceeded' }
    if (script.fork !== undefined && context.results.length === 0) return forking(script, context.newId())
    if (script.tools !== undefined && context.results.length === 0) {
      const calls = script.tools.map((toolName) => ({ toolCallId: context.newId(), toolName, args: {} }))
      return { suspend: { calls } }
    }
    // The deliverable names its fence: an invariant compares it with the fence under which the kernel accepted it.
    return { deliver: { text: `epoch ${turn.turnEpoch}` } }
  }
}

function forking({ fork = [], failFast = false }: Script, toolCallId: string): TurnAction {
  const tasks = fork.map((targetRef) => ({ targetStrategy: 'reuse' as const, targetRef, instruction: 'do it' }))
  return {
    suspend: {
      calls: [{ toolCallId, toolName: 'fork_join', args: {}, batch: { tasks, failFast, deadlineSeconds: 300 } }],
    },
  }
}

interface WorkerOptions {
  readonly concurrency?: number
  readonly maxDeaths?: number
}

async function startWorker(fibre: Fibre, kernel: Kernel, { concurrency = 2, maxDeaths }: WorkerOptions = {}) {
  return runWorker({
    kernel,
    bell: fibre.bell,
    clock: fibre.clock,
    log: silent,
    signal: new AbortController().signal,
    workerId: fibre.name,
    workerTarget: target,
    settings: { ...timing, concurrency },
    loop: { ...timing, ...defined({ maxDeaths }) },
    agent: () => scripted(fibre),
  })
}

export function worker(options?: WorkerOptions): Body {
  return async (fibre) => {
    await (
      await startWorker(fibre, kernelOf(fibre), options)
    ).ended
  }
}

/** A worker that starts after this time. */
export function lateWorker(afterMs: number): Body {
  return async (fibre) => {
    await fibre.clock.sleep(afterMs)
    await worker()(fibre)
  }
}

export function guard(changes: { maxQueueSeconds?: number } = {}): Body {
  return async (fibre) => {
    const watchdog = openGuard({ kernel: kernelOf(fibre), clock: fibre.clock, settings: { ...timing, ...changes } })
    for (;;) {
      await watchdog.step()
      await fibre.clock.sleep(timing.watchdogIntervalSeconds * 1_000)
    }
  }
}

export const joiner: Body = async (fibre) => {
  const joining = openJoiner({ kernel: kernelOf(fibre) })
  for (;;) {
    await joining.step()
    await fibre.clock.sleep(5_000)
  }
}

/** Claims calls before it acts (hazard 11) and records each act as an effect. */
export const toolHost: Body = async (fibre) => {
  const kernel = kernelOf(fibre)
  for (;;) {
    const calls = await fibre.db.query<{ tool_call_id: string; tool_name: string }>({
      text: "select tool_call_id, tool_name from state.turn_waiting_tools where wait_status = 'waiting' and started_by is null and tool_name not in ('silent', 'fork_join') order by tool_call_id",
    })
    for (const { tool_call_id: toolCallId, tool_name: tool } of calls) {
      const started = await kernel.startTool(project, toolCallId, fibre.name)
      if (started?.what !== 'started') continue
      await fibre.db.query({ text: 'insert into state.sim_effects values ($1, $2)', values: [toolCallId, fibre.name] })
      const result = tool === 'terminates' ? { __cg_control: { after_execution: 'terminate' } } : { ok: true }
      const receipt = { projectId: project, toolCallId, status: 'success', result } as const
      await kernel.report([receipt])
      if (tool === 'twice') await kernel.report([receipt])
    }
    await fibre.clock.sleep(15_000)
  }
}

export interface Wanted {
  readonly agentId: string
  readonly key: string
  readonly script?: Script
  readonly budget?: TurnBudget
  /** Stops the turn right after enqueueing it. */
  readonly stop?: boolean
}

/** Enqueues with correlation ids, so that a client that restarts after a crash creates no second turn. */
async function enqueueAll(kernel: Kernel, wanted: readonly Wanted[]): Promise<void> {
  for (const { agentId, key, script, stop, budget } of wanted) {
    const turn = await kernel.enqueue({
      projectId: project,
      agentId,
      correlationId: key,
      payload: { script: script ?? {} },
      ...defined({ budget }),
    })
    if (stop) await kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
  }
}

export function client(wanted: readonly Wanted[]): Body {
  return (fibre) => enqueueAll(kernelOf(fibre), wanted)
}

/** A client with a worker in its process: an enqueue may claim for the worker. */
export function program(wanted: readonly Wanted[]): Body {
  return async (fibre) => {
    const kernel = kernelOf(fibre)
    const running = await startWorker(fibre, kernel)
    // The first claim finds the end of the queue: before that, the worker makes no offer.
    await fibre.clock.sleep(1_000)
    await enqueueAll(kernel, wanted)
    await running.ended
  }
}

// Odd, so that pages also end between the two messages of an ending.
const pageSize = 5

/** Follows the outbox by cursor and stores what it saw in the database, so that it continues after a restart. */
export const reader: Body = async (fibre) => {
  let cursor = beginning
  for (;;) {
    const events = await readEvents(fibre.db, cursor, pageSize)
    for (const event of events) {
      await fibre.db.query({ text: 'insert into state.sim_seen values ($1)', values: [event.event_id] })
    }
    cursor = events.at(-1)?.cursor ?? cursor
    if (events.length < pageSize) await fibre.clock.sleep(10_000)
  }
}

/** A stream with JetStream's rules: it rejects a publisher that is behind, and forgets message ids. */
export interface Shelf {
  readonly stored: { cursor: string; msgId: string }[]
}

export function relay(shelf: Shelf): Body {
  return async (fibre) => {
    let expected: number | undefined
    const stream: EventStream = {
      kind: 'nats',
      remembers: true,
      async lastCursor() {
        await fibre.yield('stream: last')
        expected = shelf.stored.length
        return shelf.stored.at(-1)?.cursor
      },
      async publish(events) {
        for (const event of events) {
          await fibre.yield('stream: publish')
          if (!event.durable) continue
          if (shelf.stored.length !== expected) return 'conflict'
          shelf.stored.push({ cursor: event.cursor, msgId: event.msgId })
          expected += 1
        }
        return 'ok'
      },
      close: async () => undefined,
    }
    const outbox = openRelay({ db: fibre.db, stream, log: silent })
    for (;;) {
      await outbox.step()
      await fibre.clock.sleep(10_000)
    }
  }
}

/** Waits until every enqueued turn has ended, and then until readers have caught up. */
export function observer(keys: readonly string[], shelf: Shelf): Body {
  return async (fibre) => {
    for (;;) {
      const [row] = await fibre.db.query<{ ended: number }>({
        text: `select count(*) as ended from state.agent_inbox where correlation_id = any ($1) and ended_at is not null
          and not exists (select from state.batches where settled_at is null)`,
        values: [keys],
      })
      if (row !== undefined && row.ended === keys.length) break
      await fibre.clock.sleep(30_000)
    }
    await fibre.clock.sleep(60_000)
    for (const [seq, { cursor, msgId }] of shelf.stored.entries()) {
      await fibre.db.query({
        text: 'insert into state.sim_published values ($1, $2, $3)',
        values: [seq, cursor, msgId],
      })
    }
  }
}
