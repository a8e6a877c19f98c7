/**
 * The worker API, for workers in any language: claim, beat, record steps, suspend, deliver. It uses the same verbs and
 * fences as a local worker, and a token per claim: a worker that lost its turn gets 409 `stale`, and nothing changes. worker-budgets.ts has the routes of
 * budgets.
 */
import { defined } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { waitMaxSeconds } from '@bellwether/protocol/http'
import { readBudgetLeft } from '../../kernel/reads/budgets.js'
import { messageOf, readMessages } from '../../kernel/reads/messages.js'
import { stepOwner } from '../../kernel/reads/work.js'
import { submitResultName } from '../../worker/submit-result.js'
import { linkClient, type Api, type KernelParts } from '../api.js'
import { mustBeLive } from '../auth.js'
import { MissingFields } from '../problem.js'
import type { Claims, RemoteTurn } from '../remote/claims.js'
import { fenceOf, stale } from '../remote/fence.js'
import { mustReachAnyProject, mustReachTarget } from '../roles.js'
import { batchOf } from './batches.js'
import { cardOf } from './cards.js'
import { budgetState, workerBudgetRoutes } from './worker-budgets.js'
import { reportsUsage } from '../../worker/spending.js'

export interface WorkerParts extends KernelParts {
  readonly claims: Claims
  readonly workerSettings: {
    readonly beatSeconds: number
    readonly inboxProcessingTimeoutSeconds: number
    readonly suspendTimeoutSeconds: number
    readonly transcriptMaxBytes: number
  }
}

export function workerRoutes(api: Api, parts: WorkerParts): void {
  const { kernel, tail, claims, workerSettings } = parts
  workerBudgetRoutes(api, parts)

  api('POST /workers/:target/claim', async ({ params, body, grant, raw }) => {
    mustReachAnyProject(grant)
    mustReachTarget(grant, params.target)
    const link = linkClient(raw, parts.signal)
    try {
      const turns = await claims.claim({
        target: params.target,
        project: grant.project,
        keyId: grant.keyId,
        worker: body.worker_id ?? grant.keyId,
        max: body.max,
        waitMs: Math.min(body.wait_seconds, waitMaxSeconds) * 1_000,
        signal: link.signal,
        isLive: () => grant.isLive(),
      })
      // If the key was revoked after the claim, the watchdog gives the silent turns to another worker.
      mustBeLive(grant)
      return { turns: turns.map(wire) }
    } finally {
      link.abort()
    }
  })

  const wire = ({ turn, leaseToken, work, results, left }: RemoteTurn) => ({
    fence: { agent_turn_id: turn.agentTurnId, turn_epoch: turn.turnEpoch, lease_token: leaseToken },
    agent_turn_id: turn.agentTurnId,
    turn_epoch: turn.turnEpoch,
    lease_token: leaseToken,
    project_id: turn.projectId,
    agent_id: turn.agentId,
    kind: turn.kind,
    taken_over: turn.takenOver,
    message_type: turn.messageType,
    inbox_id: turn.inboxId,
    channel_id: turn.channelId,
    payload: turn.payload,
    deaths: turn.deaths,
    recursion_depth: turn.recursionDepth,
    traceparent: turn.traceparent,
    correlation_id: turn.correlationId,
    turn_deadline: turn.turnDeadline,
    beat_seconds: workerSettings.beatSeconds,
    silent_seconds: workerSettings.inboxProcessingTimeoutSeconds,
    agent: work.agent,
    profile: work.profile,
    tools: work.tools,
    context_box_id: turn.contextBoxId,
    context: work.context.cards,
    context_truncated: work.context.truncated,
    output_box_id: turn.outputBoxId,
    output: work.output.cards,
    output_truncated: work.output.truncated,
    session_id: work.sessionId,
    memory: work.memory.cards,
    memory_truncated: work.memory.truncated,
    results,
    left: budgetState(left).left,
  })

  api('POST /turns/:turn/beat', async ({ params, body, grant }) => {
    const fence = await fenceOf(kernel, grant, params.turn, body)
    const beat = { ...fence, ...defined({ activity: body.activity, currentTool: body.current_tool }) }
    const alive = await kernel.beat([beat], fence.claimedBy)
    if (!alive.has(beat)) throw stale()
    const unread = await kernel.takeMessages(fence)
    if (unread === 'stale') throw stale()
    const { messages_seen: seen } = body
    // A response may be lost: a worker that says what it has read gets the rest again.
    const messages = seen === undefined ? unread : (await readMessages(kernel.db, params.turn, seen)).map(messageOf)
    return {
      status: 'alive',
      messages: messages.map(({ createdAt, ...message }) => ({ ...message, created_at: createdAt })),
    }
  })

  api('POST /turns/:turn/steps', async ({ params, body, grant }) => {
    const fence = await fenceOf(kernel, grant, params.turn, body)
    const cards = body.cards?.map((card) => ({ cardId: kernel.ids.next(), ...cardOf(card) }))
    const step = body.step && {
      stepId: body.step.step_id ?? kernel.ids.next(),
      phase: body.step.phase,
      status: body.step.status,
      ...defined({ toolCallIds: body.step.tool_call_ids, metadata: body.step.metadata, error: body.step.error }),
    }
    if (step !== undefined && body.step?.step_id !== undefined) await mustOwnStep(step.stepId, params.turn)
    if (step !== undefined && reportsUsage(step)) await kernel.meterSpending(fence, undefined)
    const recorded = await kernel.record({ ...fence, ...defined({ cards, step }) })
    if (recorded === 'stale') throw stale()
    tail.wake()
    return {
      status: 'recorded',
      step_id: step?.stepId ?? null,
      card_ids: (cards ?? []).map((card) => card.cardId),
      // The verb reads the budget only for a step.
      ...budgetState(step === undefined ? await readBudgetLeft(kernel.db, params.turn) : recorded.left),
    }
  })

  async function mustOwnStep(stepId: string, turn: string): Promise<void> {
    const owner = await stepOwner(kernel.db, stepId)
    if (owner === undefined || owner === turn) return
    throw new InvalidInput(`step_id "${stepId}" belongs to another turn`, {
      code: 'duplicate_step',
      hint: 'make it unique, for example by prefixing the turn’s id, or omit it',
    })
  }

  api('POST /turns/:turn/suspend', async ({ params, body, grant }) => {
    if (body.calls.some((call) => call.tool_name === submitResultName)) {
      throw new InvalidInput(`${submitResultName} ends the turn; a worker cannot wait for it`, {
        code: 'use_deliver',
        hint: 'POST /turns/{turn}/deliver with its text or fields',
      })
    }
    const fence = await fenceOf(kernel, grant, params.turn, body)
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
    const status = await kernel.suspend({ ...fence, stepId, calls }, workerSettings.suspendTimeoutSeconds)
    if (status === 'stale') throw stale()
    tail.wake()
    return { status, step_id: stepId }
  })

  api('POST /turns/:turn/deliver', async ({ params, body, grant }) => {
    const fence = await fenceOf(kernel, grant, params.turn, body)
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
