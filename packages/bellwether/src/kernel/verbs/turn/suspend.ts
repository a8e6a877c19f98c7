/**
 * Suspend: the turn waits for tools. One transaction writes cards, waits, deadline and commands; the relay publishes the commands after
 * the commit.
 */
import { afterExecutions, InvalidInput, token, type AfterExecution } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { cardProblem } from '../cards.js'
import { cardMaxBytes, plainText, storable } from '../../content.js'
import { defaultPmoTool, pmoHost } from '../../pmo-tools.js'
import { forkOfCall, together, waitSeconds, type ForkRows, type NewBatch } from '../batches/fork.js'
import type { TURN } from '../../turn.js'
import { call, fenceRow, type Fence, type Verdict } from '../../verdict.js'

export interface ToolCall {
  readonly toolCallId: string
  readonly toolName: string
  readonly args: unknown
  readonly afterExecution?: AfterExecution
  readonly timeoutSeconds?: number
  readonly idempotent?: boolean
  /** Who answers the call if no command is sent for it: people, or a host that has already taken the call. */
  readonly hostedBy?: string
  /** The call is a fork: the verb creates the batch together with the wait, and the PMO answers when the batch is done. */
  readonly batch?: NewBatch
}

export interface Suspension extends Fence {
  readonly stepId: string
  readonly calls: readonly ToolCall[]
}

export type Suspended = typeof TURN.suspend.to | 'already' | 'stale'

// One year: no tool takes longer, and the deadline must stay a valid date.
const timeoutMaxSeconds = 31_536_000

function checkCall({ toolName, afterExecution, timeoutSeconds }: ToolCall): void {
  if (afterExecution !== undefined && !afterExecutions.includes(afterExecution)) {
    throw new InvalidInput(
      `"after_execution" of tool "${toolName}" must be ${afterExecutions.join(' or ')} (got ${JSON.stringify(afterExecution)})`,
      { code: 'invalid_after_execution' },
    )
  }
  if (timeoutSeconds !== undefined && !(timeoutSeconds > 0 && timeoutSeconds <= timeoutMaxSeconds)) {
    throw new InvalidInput(
      `The timeout of tool "${toolName}" must be more than 0 and at most ${timeoutMaxSeconds} seconds (got ${timeoutSeconds})`,
      { code: 'invalid_timeout' },
    )
  }
}

function hostOf({ hostedBy }: ToolCall): string | undefined {
  return hostedBy === undefined ? undefined : plainText(hostedBy, 'hosted_by')
}

// A step with more calls than this is a runaway loop.
const callsMax = 1_000

export async function suspend(
  db: Queryable,
  ids: Ids,
  suspension: Suspension,
  suspendSeconds: number,
): Promise<Suspended> {
  const { calls } = suspension
  const distinct = new Set(calls.map((call) => call.toolCallId))
  if (calls.length === 0 || calls.length > callsMax || distinct.size !== calls.length) {
    throw new InvalidInput(`A turn suspends on 1 to ${callsMax} tool calls with distinct ids (got ${calls.length})`, {
      code: 'invalid_tool_calls',
    })
  }
  const stepId = plainText(suspension.stepId, 'step_id')
  const forks: ForkRows[] = []
  const rows = calls.map((one) => {
    checkCall(one)
    storable(one.args ?? {}, `the arguments of tool "${one.toolName}"`, cardMaxBytes)
    if (one.batch !== undefined) forks.push(forkOfCall(ids, suspension, stepId, one.toolCallId, one.batch))
    return {
      tool_call_id: plainText(one.toolCallId, 'tool_call_id'),
      tool_name: token(one.toolName, 'tool'),
      card_id: ids.next(),
      arguments: one.args ?? {},
      after_execution: one.afterExecution,
      // The wait's deadline is its batch's (hazard 17).
      timeout_seconds: one.batch === undefined ? one.timeoutSeconds : waitSeconds(one.batch),
      idempotent: one.idempotent,
      hosted_by: one.batch === undefined ? hostOf(one) : pmoHost,
      pmo_tool: defaultPmoTool(one.toolName),
    }
  })
  const [verdict] = await call<Verdict<Suspended | 'refused'>>(
    db,
    'suspend',
    [{ ...fenceRow(suspension), step_id: stepId, calls: rows }],
    suspendSeconds,
    forks.length === 0 ? null : JSON.stringify(together(forks)),
  ).catch(cardProblem)
  if (verdict === undefined || verdict.what === 'refused') {
    throw new InvalidInput('A tool_call_id of this step was already used in this project', {
      code: 'duplicate_tool_call',
      hint: 'make tool call ids unique, for example by prefixing the step id',
    })
  }
  return verdict.what
}
