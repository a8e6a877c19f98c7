/**
 * What every scenario gets, and helpers to start work and wait for it. The ids of all turns are recorded for the check at the
 * end. A scenario that waits in vain reports it and continues, so that the check shows what is stuck.
 */
import { systemRandom, type Clock } from '@bellwether/base'
import type { BodyFor, TurnDetail } from '@bellwether/protocol/http'
import type { DemoClient } from './client.js'

export interface Context {
  readonly client: DemoClient
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly turnIds: Set<string>
  readonly taskIds: Set<string>
  /** Injected faults by kind. */
  readonly faults: Record<string, number>
  /** Scenarios that failed, and why. */
  readonly failures: string[]
  say(sentence: string): void
}

/** 128 random bits, for idempotency keys and task ids. */
export const newId = () => Buffer.from(systemRandom.bytes(16)).toString('hex')

const pollMs = 250
const waitMaxMs = 40_000

export function countFault({ faults }: Pick<Context, 'faults'>, kind: string): void {
  faults[kind] = (faults[kind] ?? 0) + 1
}

/** `maxTokens`: a limit per turn that the kernel enforces, also after a takeover. */
export async function enqueue(
  context: Context,
  agentId: string,
  instruction: string,
  maxTokens?: number,
): Promise<string> {
  const turn = await context.client.insist('POST /projects/:project/agents/:agent/turns', {
    params: { agent: agentId },
    body: { instruction, budget: maxTokens === undefined ? undefined : { max_tokens: maxTokens } },
    idempotencyKey: newId(),
  })
  context.turnIds.add(turn.agent_turn_id)
  return turn.agent_turn_id
}

export const readTurn = ({ client }: Context, turnId: string) =>
  client.insist('GET /projects/:project/turns/:turn', { params: { turn: turnId } })

export const stopTurn = ({ client }: Context, turnId: string, reason: string) =>
  client.insist('POST /projects/:project/turns/:turn/stop', { params: { turn: turnId }, body: { reason } })

export function waitForEnd(context: Context, what: string, turnId: string): Promise<TurnDetail | undefined> {
  return waitFor(context, what, async () => {
    const turn = await readTurn(context, turnId)
    return turn.ended_at === null ? undefined : turn
  })
}

export async function addTask({ client, taskIds }: Context, body: BodyFor<'POST /board/tasks'>): Promise<string> {
  const { taskId } = await client.ask('POST /board/tasks', { body })
  taskIds.add(taskId)
  return taskId
}

export const readTask = ({ client }: Context, taskId: string) =>
  client.insist('GET /board/tasks/:task', { params: { task: taskId } })

export const changeTask = ({ client }: Context, taskId: string, body: BodyFor<'PATCH /board/tasks/:task'>) =>
  client.insist('PATCH /board/tasks/:task', { params: { task: taskId }, body })

/** Polls until `read` returns a value. Returns undefined, and records a failure, if that takes too long. */
export async function waitFor<T>(
  context: Context,
  what: string,
  read: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const { clock, signal } = context
  const untilMs = clock.monotonicMs() + waitMaxMs
  while (!signal.aborted) {
    const found = await read()
    if (found !== undefined) return found
    if (clock.monotonicMs() > untilMs) {
      context.say(`gave up after ${waitMaxMs / 1_000} s waiting until ${what}`)
      context.failures.push(`not seen: ${what}`)
      return undefined
    }
    await clock.sleep(pollMs, signal)
  }
  return undefined
}
