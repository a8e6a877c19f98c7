/** Turns over HTTP: put one in line, look at many or at one, wait for its end, stop it. */
import type { IncomingMessage } from 'node:http'
import { Retryable, Terminal } from '@bellwether/protocol'
import { z } from 'zod'
import { readChildTurns, readTurnDetail, readTurnCards, type BudgetUse } from '../../kernel/reads/turn-detail.js'
import { listTurns, readTurn, turnStatuses, type TurnRow } from '../../kernel/reads/turns.js'
import type { Fusion } from '../../view/fusion.js'
import {
  fieldSpec,
  id,
  inProject,
  limitOf,
  notFound,
  text,
  token,
  waitMaxSeconds,
  whileAsked,
  words,
  type Api,
  type KernelParts,
} from '../api.js'
import { defined } from '@bellwether/base'
import type { Grant } from '../auth.js'
import { once } from '../idempotency.js'
import { secondsUpTo } from '../query.js'
import { filesOf, type Span } from '../turn-files.js'

const amount = z.number().int().min(0).max(1_000_000_000_000).optional()
const turnBody = z
  .strictObject({
    instruction: words.min(1).optional(),
    context_box_id: id.optional(),
    result_fields: z.array(fieldSpec).min(1).max(200).optional(),
    channel_id: token.optional(),
    correlation_id: id.optional(),
    traceparent: text(100).optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
    budget: z.strictObject({ max_tokens: amount, max_cost_micros: amount, max_wall_ms: amount }).optional(),
  })
  .refine((body) => (body.instruction === undefined) !== (body.context_box_id === undefined), {
    error: 'give an instruction or a context_box_id, and not both',
  })

const oneTurn = inProject.extend({ turn: id })
// Each holds a connection and a place in memory; beyond it clients ask again.
const waitersMax = 1_000
const lookMs = 5_000

export interface TurnParts extends KernelParts {
  /** Views that may have seen what a turn did to files. */
  readonly fusion?: Fusion | undefined
}

export function turnRoutes(app: Api, parts: TurnParts): void {
  const { kernel, tail } = parts
  let waiters = 0

  const add = {
    params: inProject.extend({ agent: token }),
    body: turnBody,
    summary: 'Put a turn in line',
    description: 'With an `Idempotency-Key` the same request again gets the same answer; another body with it: 422.',
  }
  app.post('/projects/:project/agents/:agent/turns', { schema: add }, (request, reply) => {
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
          resultFields: body.result_fields?.map((field) => ({ ...defined(field), name: field.name })),
          channelId: body.channel_id,
          correlationId: body.correlation_id,
          traceparent: body.traceparent,
          payload: metadata === undefined ? undefined : { metadata },
          budget:
            budget &&
            defined({ tokens: budget.max_tokens, costMicros: budget.max_cost_micros, wallMs: budget.max_wall_ms }),
        }),
      })
      tail.wake()
      return { status: 202, body: { agent_turn_id: turn.agentTurnId, inbox_id: turn.inboxId, status: turn.status } }
    })
  })

  const list = {
    params: inProject,
    querystring: z.object({
      status: z.enum(turnStatuses).optional(),
      agent: token.optional(),
      cursor: text(100).optional(),
      limit: limitOf(500, 50),
    }),
    summary: 'Turns, newest first',
    description: 'A page may be short, even empty, and still have a cursor: ask on with it until it is null.',
  }
  app.get('/projects/:project/turns', { schema: list }, ({ params, query }) =>
    listTurns(kernel.db, {
      projectId: params.project,
      status: query.status,
      agentId: query.agent,
      cursor: query.cursor,
      limit: query.limit,
    }),
  )

  const one = {
    params: oneTurn,
    querystring: z.object({ wait: secondsUpTo(waitMaxSeconds) }),
    summary: 'One turn with its trail; `?wait=SECONDS` waits for its end',
  }
  app.get('/projects/:project/turns/:turn', { schema: one }, async ({ params, query, raw, grant }) =>
    whole(await turnOf(params.project, params.turn, raw, query.wait ?? 0), grant),
  )

  /** A turn with everything that is known of it. */
  async function whole(turn: TurnRow, grant: Grant) {
    const { budget, ...trail } = await readTurnDetail(kernel.db, turn.agent_turn_id)
    const kin = await readChildTurns(kernel.db, turn.agent_turn_id)
    const cards = await readTurnCards(kernel.db, turn, trail)
    const span = spanOf(turn, parts.clock.wallMs())
    const files = filesOf(trail.deliverable?.content, span, parts.fusion, (view) => grant.may(view))
    return {
      ...turn,
      ...trail,
      trace_id: traceIdOf(turn['traceparent']),
      budget: budget === null ? null : withShare(budget),
      context_cards: cards.context_cards,
      cards: cards.cards,
      cards_truncated: cards.truncated,
      children: kin.children,
      children_truncated: kin.truncated,
      files: files.files,
      files_truncated: files.truncated,
    }
  }

  async function turnOf(project: string, turnId: string, asker: IncomingMessage, wait: number): Promise<TurnRow> {
    const turn = await readTurn(kernel.db, project, turnId)
    if (turn === undefined) throw notFound(`turn ${turnId} in project ${project}`)
    if (turn.ended_at !== null || wait <= 0) return turn
    if (waiters >= waitersMax)
      throw new Retryable('too many requests wait for turns', {
        code: 'busy',
        afterMs: 1_000,
        hint: 'ask without wait',
      })
    waiters += 1
    const asked = whileAsked(asker, parts.signal)
    try {
      return await end(project, turn, asked.signal, wait)
    } finally {
      asked.done()
      waiters -= 1
    }
  }

  /**
   * Looks again once it follows the events: an end is then either in the database already, or among those that come. And now and
   * then without an event, because somebody's long transaction holds all of them back.
   */
  async function end(project: string, turn: TurnRow, signal: AbortSignal, seconds: number): Promise<TurnRow> {
    const following = await tail.follow()
    const over = new AbortController()
    const stop = () => over.abort()
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    const endsMs = parts.clock.monotonicMs() + seconds * 1_000
    try {
      const ended = following.ended(turn.agent_turn_id, over.signal)
      for (;;) {
        const now = (await readTurn(kernel.db, project, turn.agent_turn_id)) ?? turn
        const leftMs = endsMs - parts.clock.monotonicMs()
        if (now.ended_at !== null || leftMs <= 0 || over.signal.aborted) return now
        await Promise.race([ended, parts.clock.sleep(Math.min(leftMs, lookMs), over.signal)])
      }
    } finally {
      stop()
      signal.removeEventListener('abort', stop)
      following.stop()
    }
  }

  const stop = {
    params: oneTurn,
    body: z.strictObject({ reason: text(2_000).optional() }),
    summary: 'Stop a turn, or take it out of the line',
  }
  app.post('/projects/:project/turns/:turn/stop', { schema: stop }, async ({ params, body }) => {
    const result = await kernel.stop({
      projectId: params.project,
      agentTurnId: params.turn,
      ...defined({ reason: body.reason }),
    })
    if (result === 'unknown_turn')
      throw new Terminal(`there is no turn ${params.turn} in project ${params.project}`, { code: 'unknown_turn' })
    tail.wake()
    return { agent_turn_id: params.turn, status: result }
  })
}

/** When it was at work; undefined: not yet, or never. */
function spanOf({ started_at: from, ended_at: to }: TurnRow, nowMs: number): Span | undefined {
  return from === null ? undefined : { from: from.getTime() / 1_000, to: (to?.getTime() ?? nowMs) / 1_000 }
}

function traceIdOf(traceparent: unknown): string | null {
  return typeof traceparent === 'string' ? (/^[\da-f]{2}-([\da-f]{32})-/.exec(traceparent)?.[1] ?? null) : null
}

/** How near it is to the nearest of its limits: 1 is the limit. */
function withShare(budget: BudgetUse) {
  const [first] = (['tokens', 'cost_micros', 'wall_ms'] as const)
    .flatMap((name) => {
      const { used, limit } = budget[name]
      return limit === null ? [] : [{ name, fraction: limit === 0 ? 1 : used / limit }]
    })
    .toSorted((a, b) => b.fraction - a.fraction)
  return { ...budget, fraction: first?.fraction ?? null, nearest: first?.name ?? null }
}
