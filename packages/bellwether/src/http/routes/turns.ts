/** Turns: enqueue, list, read, their spans, wait for the end, stop, send a message, continue. */
import type { IncomingMessage } from 'node:http'
import { defined, linkAbort } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { TurnRow, TurnTrail } from '@bellwether/protocol/http'
import { readMessages } from '../../kernel/reads/messages.js'
import { readChildTurns, readCosts, readTurnCards, readTurnDetail } from '../../kernel/reads/turn-detail.js'
import { readFollowUp } from '../../kernel/reads/follow-up.js'
import { readSpans } from '../../kernel/reads/spans.js'
import { listTurns, readInstructions, readTurn } from '../../kernel/reads/turns.js'
import { readTurnsDuring } from '../../kernel/reads/turns/turns-during.js'
import { openChanges } from '../../board/dispatch/evidence/read-changes.js'
import { changesOfTurn } from '../../board/dispatch/evidence/worktree-work.js'
import type { Fusion } from '../../view/fusion.js'
import { linkClient, noTurn, type Api, type KernelParts } from '../api.js'
import { callerName, type Grant } from '../auth.js'
import { once } from '../idempotency.js'
import { turnChanges, withoutDiff } from '../files/turn-changes.js'
import { filesOf, type Span } from '../files/turn-files.js'
import { makeShares } from '../shares.js'
import type { BoardParts } from './board.js'

// Each holds a connection and some memory; above it, clients must poll. One key leaves places for others.
const waiters = { total: 1_000, perKey: 500 } as const
const pollMs = 5_000

export interface TurnParts extends KernelParts {
  /** Views that may have seen which files a turn changed. */
  readonly fusion?: Fusion | undefined
  /** The board whose tasks may have worktrees. */
  readonly board?: Pick<BoardParts, 'dispatcher' | 'projectId'> | undefined
}

/** A client that waits for the end of a turn, for some seconds. */
interface Waiter {
  readonly client: IncomingMessage
  readonly grant: Grant
  readonly wait: number
}

const instant = (time: string | undefined) => (time === undefined ? undefined : new Date(time))

export function turnRoutes(api: Api, parts: TurnParts): void {
  const { kernel, tail, clock } = parts
  const changesOf = parts.board && openChanges(parts.board.dispatcher)
  const places = makeShares('requests that wait for turns', waiters.total, 1_000)

  api('POST /projects/:project/agents/:agent/turns', (request, reply) => {
    const { params, body } = request
    return once(kernel, request, reply, params.project, async (inboxId) => {
      const { metadata, budget } = body
      const turn = await kernel.enqueue({
        projectId: params.project,
        agentId: params.agent,
        ...defined({
          inboxId,
          instruction: body.instruction,
          contextBoxId: body.context_box_id,
          resultFields: body.result_fields,
          channelId: body.channel_id,
          correlationId: body.correlation_id,
          sessionId: body.session_id,
          traceparent: body.traceparent,
          payload: metadata === undefined ? undefined : { metadata },
          budget: budgetOf(budget),
        }),
      })
      tail.wake()
      return { agent_turn_id: turn.agentTurnId, inbox_id: turn.inboxId, status: turn.status }
    })
  })

  api('GET /projects/:project/turns', async ({ params, query }) => {
    const { turns, cursor } = await listTurns(kernel.db, {
      projectId: params.project,
      status: query.status,
      agentId: query.agent,
      since: instant(query.since),
      until: instant(query.until),
      endedSince: instant(query.ended_since),
      endedUntil: instant(query.ended_until),
      error: query.error,
      minCostMicros: query.min_cost_micros,
      text: query.text,
      cursor: query.cursor,
      limit: query.limit,
    })
    if (query.summary !== true) return { turns, cursor }
    const ids = turns.map((turn) => turn.agent_turn_id)
    const [costs, instructions] = await Promise.all([readCosts(kernel.db, ids), readInstructions(kernel.db, ids)])
    const summed = turns.map((turn) => ({
      ...turn,
      cost_micros: costs.get(turn.agent_turn_id) ?? null,
      instruction: instructions.get(turn.agent_turn_id) ?? null,
    }))
    return { turns: summed, cursor }
  })

  api('GET /projects/:project/turns/:turn', async ({ params, query, raw, grant }) =>
    detailOf(await turnOf(params.project, params.turn, { client: raw, grant, wait: query.wait ?? 0 }), grant),
  )

  api('GET /projects/:project/turns/:turn/spans', async ({ params }) => {
    await turnOf(params.project, params.turn)
    return readSpans(kernel.db, params.turn)
  })

  async function detailOf(turn: TurnRow, grant: Grant) {
    const { budget, ...trail } = await readTurnDetail(kernel.db, turn.agent_turn_id)
    const children = await readChildTurns(kernel.db, turn.agent_turn_id)
    const cards = await readTurnCards(kernel.db, turn, trail)
    const files = await filesFor(turn, trail, grant)
    return {
      ...turn,
      ...trail,
      trace_id: traceIdOf(turn.traceparent),
      budget: budget && withNearestLimit(budget),
      context_cards: cards.context_cards,
      cards: cards.cards,
      cards_truncated: cards.truncated,
      children: children.children,
      children_truncated: children.truncated,
      messages: await readMessages(kernel.db, turn.agent_turn_id),
      files: files.files,
      files_truncated: files.truncated,
    }
  }

  api('GET /projects/:project/turns/:turn/changes', async ({ params, grant }) => {
    const turn = await turnOf(params.project, params.turn)
    const { started_at: startedAt, ended_at: endedAt } = turn
    if (startedAt === null || endedAt === null) return withoutDiff('the turn has not ended, or never started')
    const trail = await readTurnDetail(kernel.db, turn.agent_turn_id)
    const task = taskOf(turn, trail.session_id)
    if (task?.runs.some((run) => run.agentTurnId === params.turn) === true) {
      const changes = (await changesOf?.(task)) ?? null
      const { runId } = task.runs.find((run) => run.agentTurnId === params.turn)!
      if (changes !== null && changes.runId === runId) {
        const { runId: _runId, ...shown } = changes
        return shown
      }
      return withoutDiff('the board has the changes of the last run of the task only')
    }
    const { git, board } = parts.board?.projectId === params.project ? parts.board.dispatcher : {}
    if (git === undefined || board === undefined) return withoutDiff('this server does not know the project folder')
    const { files } = await filesFor(turn, trail, grant)
    return turnChanges({ root: board.root, git }, { startedAt: new Date(startedAt), endedAt: new Date(endedAt), files })
  })

  /** The files that a turn may have changed. */
  function filesFor(
    turn: TurnRow,
    trail: Pick<Awaited<ReturnType<typeof readTurnDetail>>, 'deliverable' | 'session_id' | 'parent'>,
    grant: Grant,
  ) {
    const nowMs = clock.wallMs()
    return filesOf({
      deliverable: trail.deliverable?.content,
      span: spanOf(turn, nowMs),
      fusion: parts.fusion,
      reaches: (view) => grant.may(view),
      inWorktree: changesOfTurn(taskOf(turn, trail.session_id), turn.agent_turn_id),
      async turnsDuring({ from, to }) {
        const rows = await readTurnsDuring(kernel.db, turn.project_id, new Date(from * 1_000), new Date(to * 1_000))
        const running = rows.flatMap((row) => {
          const span = spanOf(row, nowMs)
          const idle = row.idle.map(([start, end]) => ({ from: start, to: end }))
          return span === undefined ? [] : [{ agentTurnId: row.agent_turn_id, ...span, idle }]
        })
        // A parent is suspended while its child runs.
        const own = new Set([turn.agent_turn_id, trail.parent?.agent_turn_id])
        return {
          idle: running.find(({ agentTurnId }) => agentTurnId === turn.agent_turn_id)?.idle ?? [],
          others: running.filter(({ agentTurnId }) => !own.has(agentTurnId)),
        }
      },
    })
  }

  /** The board names the session of its turns after the task. */
  function taskOf({ project_id: project }: TurnRow, session: string | null) {
    const { board } = parts
    if (board?.projectId !== project || session?.startsWith('task-') !== true) return undefined
    return board.dispatcher.board.state.tasks.get(session.slice('task-'.length))
  }

  async function turnOf(project: string, turnId: string, waiter?: Waiter): Promise<TurnRow> {
    const turn = await readTurn(kernel.db, project, turnId)
    if (turn === undefined) throw noTurn(turnId, project)
    if (turn.ended_at !== null || waiter === undefined || waiter.wait <= 0) return turn
    const { client, grant, wait } = waiter
    const leave = places.take(grant.keyId, 1, waiters.perKey)
    const link = linkClient(client, parts.signal)
    try {
      return await untilEnded(project, turn, link.signal, wait)
    } finally {
      link.abort()
      leave()
    }
  }

  /**
   * Reads again after it started to follow the events: the end is then either in the database, or among later events. Also
   * polls, because a writer that hangs holds all events back.
   */
  async function untilEnded(project: string, turn: TurnRow, client: AbortSignal, seconds: number): Promise<TurnRow> {
    const follower = await tail.follow()
    const link = linkAbort(client)
    const endsMs = clock.monotonicMs() + seconds * 1_000
    try {
      const ended = follower.ended(turn.agent_turn_id, link.signal)
      for (;;) {
        const now = (await readTurn(kernel.db, project, turn.agent_turn_id)) ?? turn
        const leftMs = endsMs - clock.monotonicMs()
        if (now.ended_at !== null || leftMs <= 0 || link.signal.aborted) return now
        await Promise.race([ended, clock.sleep(Math.min(leftMs, pollMs), link.signal)])
      }
    } finally {
      link.abort()
      follower.stop()
    }
  }

  api('POST /projects/:project/turns/:turn/stop', async ({ params, body, grant }) => {
    const result = await kernel.stop({
      projectId: params.project,
      agentTurnId: params.turn,
      stoppedBy: callerName(grant),
      ...defined({ reason: body.reason }),
    })
    if (result === 'unknown_turn')
      throw new Terminal(`Turn ${params.turn} does not exist in project ${params.project}`, { code: 'unknown_turn' })
    tail.wake()
    return { agent_turn_id: params.turn, status: result }
  })

  api('POST /projects/:project/turns/:turn/messages', async ({ params, body, grant }) => {
    const { seq, delivered } = await kernel.say({
      projectId: params.project,
      agentTurnId: params.turn,
      messageId: body.message_id ?? kernel.ids.next(),
      sender: callerName(grant),
      text: body.text,
      urgent: body.now,
    })
    return { agent_turn_id: params.turn, seq, status: delivered ? 'delivered' : 'waiting' }
  })

  api('POST /projects/:project/turns/:turn/continue', (request, reply) => {
    const { params, body } = request
    return once(kernel, request, reply, params.project, async (inboxId) => {
      const turn = await readTurn(kernel.db, params.project, params.turn)
      if (turn === undefined) throw noTurn(params.turn, params.project)
      const started = await kernel.enqueue({
        ...(await readFollowUp(kernel.db, turn)),
        instruction: body.instruction,
        ...defined({ inboxId, budget: budgetOf(body.budget) }),
      })
      tail.wake()
      return { agent_turn_id: started.agentTurnId, inbox_id: started.inboxId, status: started.status }
    })
  })
}

type BudgetBody = Readonly<Record<'max_tokens' | 'max_cost_micros' | 'max_wall_ms', number | undefined>>

const budgetOf = (budget: Partial<BudgetBody> | undefined) =>
  budget && defined({ tokens: budget.max_tokens, costMicros: budget.max_cost_micros, wallMs: budget.max_wall_ms })

/** When the turn ran; undefined if it never started. */
function spanOf(
  { started_at: from, ended_at: to }: Pick<TurnRow, 'started_at' | 'ended_at'>,
  nowMs: number,
): Span | undefined {
  const seconds = (at: string | Date) => new Date(at).getTime() / 1_000
  return from === null ? undefined : { from: seconds(from), to: to === null ? nowMs / 1_000 : seconds(to) }
}

function traceIdOf(traceparent: string | null): string | null {
  return /^[\da-f]{2}-([\da-f]{32})-/.exec(traceparent ?? '')?.[1] ?? null
}

function withNearestLimit(budget: NonNullable<TurnTrail['budget']>) {
  const [nearest] = (['tokens', 'cost_micros', 'wall_ms'] as const)
    .flatMap((name) => {
      const { used, limit } = budget[name]
      return limit === null ? [] : [{ name, fraction: limit === 0 ? 1 : used / limit }]
    })
    .toSorted((a, b) => b.fraction - a.fraction)
  return { ...budget, fraction: nearest?.fraction ?? null, nearest: nearest?.name ?? null }
}
