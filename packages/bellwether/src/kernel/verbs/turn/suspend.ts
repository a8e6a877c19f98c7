/** Suspend: the turn waits for tools. Cards, waits, deadline and commands are one transaction; the commands leave after it. */
import { afterExecutions, InvalidInput, token, type AfterExecution } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { unknownCard } from '../cards.js'
import { cardMaxBytes, plainText, storable } from '../../content.js'
import { forkOfCall, together, waitSeconds, type ForkRows, type NewBatch } from '../batches/fork.js'
import { TURN } from '../../turn.js'
import { call, fenceRow, type Fence } from '../../verdict.js'

export interface ToolCall {
  readonly toolCallId: string
  readonly toolName: string
  readonly args: unknown
  readonly afterExecution?: AfterExecution
  readonly timeoutSeconds?: number
  readonly idempotent?: boolean
  /** Who answers it, when nobody is to be sent a command for it: people, or a host that has taken it already. */
  readonly hostedBy?: string
  /** The call is a fork: its batch comes to be with the wait, and the PMO answers it when the batch is done. */
  readonly batch?: NewBatch
}

export interface Suspension extends Fence {
  readonly stepId: string
  readonly calls: readonly ToolCall[]
}

export type Suspended = typeof TURN.suspend.to | 'already' | 'stale'

// A year: no tool is waited for longer, and the deadline must stay a date.
const timeoutMaxSeconds = 31_536_000

function checkCall({ toolName, afterExecution, timeoutSeconds }: ToolCall): void {
  if (afterExecution !== undefined && !afterExecutions.includes(afterExecution)) {
    throw new InvalidInput(`after_execution of ${toolName} must be ${afterExecutions.join(' or ')}`, {
      code: 'invalid_after_execution',
    })
  }
  if (timeoutSeconds !== undefined && !(timeoutSeconds > 0 && timeoutSeconds <= timeoutMaxSeconds)) {
    throw new InvalidInput(`the timeout of ${toolName} must be more than 0 and at most ${timeoutMaxSeconds} seconds`, {
      code: 'invalid_timeout',
    })
  }
}

function hostOf({ hostedBy }: ToolCall): string | undefined {
  return hostedBy === undefined ? undefined : plainText(hostedBy, 'hosted_by')
}

// A step that asks for more at once is a loop that went wrong.
const callsMax = 1_000

export async function suspend(
  db: Queryable,
  ids: Ids,
  suspension: Suspension,
  suspendSeconds: number,
): Promise<Suspended> {
  const { calls } = suspension
  const distinct = new Set(calls.map((one) => one.toolCallId))
  if (calls.length === 0 || calls.length > callsMax || distinct.size !== calls.length) {
    throw new InvalidInput(`a turn suspends on 1 to ${callsMax} tool calls with distinct ids`, {
      code: 'invalid_tool_calls',
    })
  }
  const stepId = plainText(suspension.stepId, 'step_id')
  const forks: ForkRows[] = []
  const rows = calls.map((one) => {
    checkCall(one)
    storable(one.args ?? {}, `the arguments of ${one.toolName}`, cardMaxBytes)
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
      hosted_by: one.batch === undefined ? hostOf(one) : 'pmo',
    }
  })
  const [verdict] = await call(
    db,
    'suspend',
    [{ ...fenceRow(suspension), step_id: stepId, calls: rows }],
    suspendSeconds,
    forks.length === 0 ? null : JSON.stringify(together(forks)),
  ).catch(unknownCard)
  switch (verdict?.what) {
    case TURN.suspend.to:
    case 'already':
    case 'stale':
      return verdict.what
    default:
      throw new InvalidInput('a tool_call_id of this step was used before in this project', {
        code: 'duplicate_tool_call',
        hint: 'make tool call ids unique, for example by putting the step id in front',
      })
  }
}
