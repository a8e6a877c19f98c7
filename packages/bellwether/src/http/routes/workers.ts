/**
 * The worker API, for workers in any language: claim, beat, write steps, suspend, deliver. The same verbs and the same fences as
 * within the house: whoever has lost a turn is answered 409 `stale`, and nothing happened.
 */
import { activities, afterExecutions, cardTypes, InvalidInput, Terminal } from '@bellwether/protocol'
import { z } from 'zod'
import { stepOwner, turnOwner, type TurnOwner } from '../../kernel/reads/work.js'
import type { Fence } from '../../kernel/verdict.js'
import { submitResultName } from '../../worker/submit-result.js'
import {
  cardOf,
  id,
  newCard,
  notFound,
  secondsMax,
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
import { MissingFields } from '../problem.js'
import { claimMax, type Claims, type RemoteTurn } from '../remote/claims.js'
import { mustBeUnlimited, mustReachProject } from '../roles.js'
import { batchOf, batchShape } from './batches.js'

export interface WorkerParts extends KernelParts {
  readonly claims: Claims
  readonly workerSettings: {
    readonly beatSeconds: number
    readonly inboxProcessingTimeoutSeconds: number
    readonly suspendTimeoutSeconds: number
  }
}

const claimBody = z.strictObject({
  max: z.number().int().min(1).max(claimMax).default(1),
  wait_seconds: secondsMax(3_600).default(0),
  worker_id: text(120).optional(),
})
const fenced = { turn_epoch: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER) }
const beatBody = z.strictObject({
  ...fenced,
  activity: z.enum(activities).optional(),
  current_tool: text(200).optional(),
})
// What a worker writes of its own. How a turn began and how it ended is written by the kernel.
const workerCardTypes = cardTypes.filter((type) => !type.startsWith('task.'))
const stepsBody = z.strictObject({
  ...fenced,
  cards: z
    .array(newCard.extend({ type: z.enum(workerCardTypes) }))
    .min(1)
    .max(100)
    .optional(),
  step: z
    .strictObject({
      step_id: id.optional(),
      phase: text(100),
      status: text(100),
      tool_call_ids: z.array(id).max(1_000).optional(),
      metadata: z.record(z.string(), z.unknown()).optional(),
      error: text(10_000).optional(),
    })
    .optional(),
})
const suspendBody = z.strictObject({
  ...fenced,
  step_id: id.optional(),
  calls: z
    .array(
      z.strictObject({
        tool_call_id: id,
        tool_name: token,
        arguments: z.unknown().optional(),
        after_execution: z.enum(afterExecutions).optional(),
        timeout_seconds: z.number().positive().max(31_536_000).optional(),
        idempotent: z.boolean().optional(),
        batch: batchShape.optional(),
      }),
    )
    .min(1)
    .max(1_000),
})
const deliverBody = z
  .strictObject({
    ...fenced,
    status: z.enum(['success', 'failed', 'timeout']).default('success'),
    text: words.optional(),
    fields: z
      .array(z.strictObject({ name: text(200), value: z.unknown() }))
      .max(1_000)
      .optional(),
    error: text(500).optional(),
  })
  .refine((body) => (body.text === undefined) !== (body.fields === undefined), {
    error: 'give text or fields, and not both',
  })

const oneTurn = z.object({ turn: id })
const stale = () =>
  new Terminal('this turn is not yours any more, and nothing was done', {
    code: 'stale',
    hint: 'stop working on it: another worker has it, or it has ended',
  })

export function workerRoutes(app: Api, parts: WorkerParts): void {
  const { kernel, tail, claims, workerSettings } = parts

  /** The fence that a worker holds: the turn says whose it is, the worker only which attempt. */
  async function fenceOf(grant: Grant, turn: string, turnEpoch: number): Promise<Fence & TurnOwner> {
    const owner = await turnOwner(kernel.db, turn)
    if (owner === undefined) throw notFound(`turn ${turn}`)
    mustReachProject(grant, owner.projectId)
    return { ...owner, agentTurnId: turn, turnEpoch }
  }

  const claim = {
    params: z.object({ target: token }),
    body: claimBody,
    summary: 'Take turns of a worker target',
    description: `Answers at once when there are some, else after \`wait_seconds\` (at most ${waitMaxSeconds}) with none.`,
  }
  app.post('/workers/:target/claim', { schema: claim }, async ({ params, body, grant, raw }) => {
    // A target serves the agents of every project.
    mustBeUnlimited(grant)
    const asked = whileAsked(raw, parts.signal)
    try {
      const turns = await claims.claim({
        target: params.target,
        worker: body.worker_id ?? grant.keyId,
        max: body.max,
        waitMs: Math.min(body.wait_seconds, waitMaxSeconds) * 1_000,
        signal: asked.signal,
      })
      return { turns: turns.map(wire) }
    } finally {
      asked.done()
    }
  })

  const wire = ({ turn, work, results }: RemoteTurn) => ({
    fence: { agent_turn_id: turn.agentTurnId, turn_epoch: turn.turnEpoch },
    agent_turn_id: turn.agentTurnId,
    turn_epoch: turn.turnEpoch,
    project_id: turn.projectId,
    agent_id: turn.agentId,
    kind: turn.kind,
    taken_over: turn.takenOver,
    message_type: turn.messageType,
    inbox_id: turn.inboxId,
    channel_id: turn.channelId,
    payload: turn.payload,
    attempts: turn.attempts,
    recursion_depth: turn.recursionDepth,
    traceparent: turn.traceparent,
    correlation_id: turn.correlationId,
    turn_deadline: turn.turnDeadline,
    beat_seconds: workerSettings.beatSeconds,
    silent_seconds: workerSettings.inboxProcessingTimeoutSeconds,
    profile: work.profile,
    tools: work.tools,
    context_box_id: turn.contextBoxId,
    context: work.context.cards,
    context_truncated: work.context.truncated,
    output_box_id: turn.outputBoxId,
    output: work.output.cards,
    output_truncated: work.output.truncated,
    results,
  })

  const beat = { params: oneTurn, body: beatBody, summary: 'The worker is alive and has this turn' }
  app.post('/turns/:turn/beat', { schema: beat }, async ({ params, body, grant }) => {
    const fence = await fenceOf(grant, params.turn, body.turn_epoch)
    const one = { ...fence, ...defined({ activity: body.activity, currentTool: body.current_tool }) }
    const alive = await kernel.beat([one], fence.claimedBy)
    if (!alive.has(params.turn)) throw stale()
    return { status: 'alive' }
  })

  const steps = {
    params: oneTurn,
    body: stepsBody,
    summary: 'Write cards into the turn’s output box, and a step',
    description: 'Give cards a `card_id` (a UUID) and the step a `step_id`, and the same request may be sent again.',
  }
  app.post('/turns/:turn/steps', { schema: steps }, async ({ params, body, grant }) => {
    const fence = await fenceOf(grant, params.turn, body.turn_epoch)
    const cards = body.cards?.map((card) => ({ cardId: kernel.ids.next(), ...cardOf(card) }))
    const step = body.step && {
      stepId: body.step.step_id ?? kernel.ids.next(),
      phase: body.step.phase,
      status: body.step.status,
      ...defined({ toolCallIds: body.step.tool_call_ids, metadata: body.step.metadata, error: body.step.error }),
    }
    if (step !== undefined && body.step?.step_id !== undefined) await mustOwnStep(step.stepId, params.turn)
    if ((await kernel.record({ ...fence, ...defined({ cards, step }) })) === 'stale') throw stale()
    tail.wake()
    return { status: 'recorded', step_id: step?.stepId ?? null, card_ids: (cards ?? []).map((card) => card.cardId) }
  })

  async function mustOwnStep(stepId: string, turn: string): Promise<void> {
    const owner = await stepOwner(kernel.db, stepId)
    if (owner === undefined || owner === turn) return
    throw new InvalidInput(`step_id ${stepId} is another turn’s`, {
      code: 'duplicate_step',
      hint: 'make it unique, for example by putting the turn’s id in front, or leave it out',
    })
  }

  const suspend = { params: oneTurn, body: suspendBody, summary: 'Call tools and wait for their results' }
  app.post('/turns/:turn/suspend', { schema: suspend }, async ({ params, body, grant }) => {
    if (body.calls.some((call) => call.tool_name === submitResultName)) {
      throw new InvalidInput(`${submitResultName} ends the turn and is no tool to wait for`, {
        code: 'use_deliver',
        hint: 'POST /turns/{turn}/deliver with its text or fields',
      })
    }
    const fence = await fenceOf(grant, params.turn, body.turn_epoch)
    const stepId = body.step_id ?? `${params.turn}/${body.calls[0]!.tool_call_id}`.slice(0, 500)
    const calls = body.calls.map((call) => ({
      toolCallId: call.tool_call_id,
      toolName: call.tool_name,
      args: call.arguments ?? {},
      ...defined({
        afterExecution: call.after_execution,
        timeoutSeconds: call.timeout_seconds,
        idempotent: call.idempotent,
        batch: call.batch && batchOf(call.batch),
      }),
    }))
    const what = await kernel.suspend({ ...fence, stepId, calls }, workerSettings.suspendTimeoutSeconds)
    if (what === 'stale') throw stale()
    tail.wake()
    return { status: what, step_id: stepId }
  })

  const deliver = {
    params: oneTurn,
    body: deliverBody,
    summary: 'End the turn with its deliverable',
    description: 'The same fence again is answered `already`. Missing required fields: 422, and the turn goes on.',
  }
  app.post('/turns/:turn/deliver', { schema: deliver }, async ({ params, body, grant }) => {
    const fence = await fenceOf(grant, params.turn, body.turn_epoch)
    const content =
      body.fields === undefined
        ? { text: body.text ?? '' }
        : { fields: body.fields.map(({ name, value }) => ({ name, value: value ?? null })) }
    const result = await kernel.deliver({ ...fence, status: body.status, content, ...defined({ error: body.error }) })
    if (result.what === 'stale') throw stale()
    if (result.what === 'refused') throw new MissingFields(result.missing)
    tail.wake()
    return { status: result.what }
  })
}
