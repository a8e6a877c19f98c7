/** Brings turns of a test kernel into the state where a test starts. */
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import type { DeliverResult } from '../../src/kernel/verbs/turn/deliver.js'
import type { NewTurn } from '../../src/kernel/verbs/turn/enqueue.js'
import type { ToolCall } from '../../src/kernel/verbs/turn/suspend.js'
import type { Fence } from '../../src/kernel/verdict.js'
import { project, type TestKernel } from './kernel.js'

export const enqueueTurn = (t: TestKernel, agentId: string, more: Partial<NewTurn> = {}) =>
  t.kernel.enqueue({
    projectId: project,
    agentId,
    ...(more.contextBoxId === undefined ? { instruction: 'do it' } : {}),
    ...more,
  })

/** Calls of the tool grep, one per id. */
export const grepCalls = (...ids: string[]): ToolCall[] =>
  ids.map((id) => ({ toolCallId: id, toolName: 'grep', args: { id } }))

/** A turn of this agent, suspended on these calls. */
export async function suspendedTurn(
  t: TestKernel,
  agentId: string,
  toolCalls: readonly ToolCall[],
): Promise<ClaimedTurn> {
  const turn = await t.running(agentId)
  const verdict = await t.kernel.suspend({ ...turn, stepId: t.ids.next(), calls: toolCalls }, 30)
  if (verdict !== 'suspended') throw new Error(`suspend returned ${verdict}`)
  return turn
}

export const deliverTurn = (t: TestKernel, fence: Fence, text = 'done'): Promise<DeliverResult> =>
  t.kernel.deliver({ ...fence, status: 'success', content: { text } })

export const reportSuccess = (t: TestKernel, toolCallId: string, result: unknown = { ok: true }) =>
  t.kernel.report([{ projectId: project, toolCallId, status: 'success', result }])

/** The watch window of a watchdog that has watched since 1970: all silence counts. */
export const fullWatchWindow = { since: new Date(0), validUntil: new Date('2999-01-01'), clockSetBack: false }
