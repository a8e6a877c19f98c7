/**
 * Approvals: a call waits until a person allows or denies it. A tool call of a suspended turn is released or answered with the
 * decision; a program of a running turn takes it. One decision counts; without one before the deadline the call is denied.
 */
import { InvalidInput, token } from '@bellwether/protocol'
import type { ApprovalScope } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { cardMaxBytes, plainText, storable } from '../../content.js'
import type { ToolCall } from '../turn/suspend.js'
import { callWith, type Fence, type Verdict } from '../../verdict.js'

export interface ApprovalRequest extends Fence {
  /** The same id repeats a request whose answer was lost. */
  readonly approvalId: string
  readonly toolName: string
  readonly args: Readonly<Record<string, unknown>>
  readonly withinSeconds: number
}

export interface AskedApproval {
  /** `full`: too many requests of the turn wait. `allowed`: a grant covers the call. */
  readonly what: 'waiting' | 'allowed' | 'denied' | 'full' | 'stale'
  readonly approval_id: string | null
  readonly reason: string | null
  readonly decided_by: string | null
}

export interface TakenDecision {
  readonly what: 'waiting' | 'allowed' | 'denied' | 'expired' | 'ended' | 'stale'
  readonly reason: string | null
  readonly decided_by: string | null
}

// A person cannot judge more at a time; an agent that asks for more is out of control.
const openMaxPerTurn = 50
const grantsMaxPerAgent = 500

/** A program of a running turn asks for a call. */
export async function askApproval(db: Queryable, request: ApprovalRequest): Promise<AskedApproval> {
  const { projectId, agentId, agentTurnId, turnEpoch, approvalId, toolName, args, withinSeconds } = request
  storable(args, `the arguments of tool "${toolName.slice(0, 80)}"`, cardMaxBytes)
  const [asked] = await callWith<AskedApproval>(
    db,
    'ask_approval',
    projectId,
    agentId,
    agentTurnId,
    turnEpoch,
    approvalId,
    plainText(toolName, 'tool_name'),
    JSON.stringify(args),
    withinSeconds,
    openMaxPerTurn,
  )
  return asked!
}

/** The decision for the program that asked. An approval for one call is returned to one worker. */
export async function takeDecision(db: Queryable, approvalId: string, turnEpoch: number): Promise<TakenDecision> {
  const [taken] = await callWith<TakenDecision>(db, 'take_decision', approvalId, turnEpoch)
  return taken!
}

export interface HostedCall {
  readonly projectId: string
  readonly toolCallId: string
  readonly host: string
  readonly withinSeconds: number
  /** How long the call may take once it is allowed. */
  readonly runSeconds: number
}

/** Before a host starts a call of a tool with `approve: ask`. */
export async function askForCall(db: Queryable, call: HostedCall): Promise<'allowed' | 'waiting' | 'gone'> {
  const { projectId, toolCallId, host, withinSeconds, runSeconds } = call
  const values = [projectId, toolCallId, host, withinSeconds, runSeconds]
  const [row] = await callWith<{ what: 'allowed' | 'waiting' | 'gone' }>(db, 'ask_for_call', ...values)
  return row?.what ?? 'gone'
}

export interface Decision {
  readonly projectId: string
  readonly approvalId: string
  /** What is allowed; absent to deny. */
  readonly scope?: ApprovalScope | undefined
  /** Of a scope beyond one call: the arguments that may have any value. */
  readonly anyArguments?: readonly string[] | undefined
  readonly reason?: string | undefined
  readonly by: string
}

export interface DecisionDetail {
  readonly status: string
  readonly decided_by: string | null
  readonly decided_at: string | null
  readonly deadline: string
}

export type DecisionResult = 'decided' | 'already' | 'expired' | 'ended' | 'full' | 'unknown'
type DecisionVerdict = Verdict<DecisionResult | 'reported' | 'ignored', DecisionDetail>

export async function decideApproval(
  db: Queryable,
  ids: Ids,
  decision: Decision,
): Promise<{ result: DecisionResult; detail: DecisionDetail | null; verdicts: readonly DecisionVerdict[] }> {
  const { projectId, approvalId, scope, anyArguments = [], reason, by } = decision
  if (anyArguments.length > 0 && scope !== 'turn' && scope !== 'agent')
    throw new InvalidInput('"any_arguments" needs "for": "turn" or "agent"', {
      code: 'invalid_decision',
      hint: 'one call is allowed as it is; remove any_arguments, or allow the call for the turn or the agent',
    })
  const verdicts = await callWith<DecisionVerdict>(
    db,
    'decide_approval',
    token(projectId, 'project'),
    plainText(approvalId, 'approval'),
    scope ?? null,
    anyArguments.map((name) => plainText(name, 'any_arguments')),
    reason === undefined ? null : plainText(reason, 'reason'),
    by,
    ids.next(),
    ids.next(),
    ids.next(),
    grantsMaxPerAgent,
  )
  const last = verdicts.at(-1)
  if (last === undefined) return { result: 'unknown', detail: null, verdicts }
  return { result: last.what as DecisionResult, detail: last.detail, verdicts }
}

export const expireMax = 100

/** Denies calls whose deadline has passed, and closes the requests of turns that are over. */
export async function expireApprovals(db: Queryable, ids: Ids): Promise<readonly Verdict<'reported' | 'ignored'>[]> {
  const pairs = Array.from({ length: 2 * expireMax }, () => ids.next())
  return callWith<Verdict<'reported' | 'ignored'>>(db, 'expire_approvals', pairs)
}

/** Calls that a person must allow first fork nothing now: the PMO creates their batches from the arguments after the decision. */
export async function withoutUnapproved(
  db: Queryable,
  projectId: string,
  calls: readonly ToolCall[],
): Promise<readonly ToolCall[]> {
  const forks = calls.filter(({ batch }) => batch !== undefined).map(({ toolName }) => toolName)
  if (forks.length === 0) return calls
  const rows = await db.query<{ tool_name: string }>({
    name: 'bw_asking_tools',
    text: `select tool_name from resource.tools
      where project_id = $1 and tool_name = any ($2) and options ->> 'approve' = 'ask'`,
    values: [projectId, forks],
  })
  const asking = new Set(rows.map((row) => row.tool_name))
  return calls.map(({ batch, ...call }) =>
    batch === undefined || asking.has(call.toolName) ? call : { ...call, batch },
  )
}

/** False: there is no such grant. */
export async function revokeGrant(db: Queryable, projectId: string, grantId: string): Promise<boolean> {
  const rows = await db.query({
    text: 'delete from state.approval_grants where project_id = $1 and grant_id = $2 returning grant_id',
    values: [projectId, grantId],
  })
  return rows.length > 0
}
