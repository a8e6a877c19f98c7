/**
 * Approvals and grants. A person decides: no worker's key does, and no key decides about what its own turn asks. One decision counts;
 * a repeated or late one is refused and changes nothing. The audit log has every decision.
 */
import { Terminal } from '@bellwether/protocol'
import { readApprovalOwner, readApprovals, readGrants } from '../../kernel/reads/approvals.js'
import { revokeGrant, type DecisionDetail, type DecisionResult } from '../../kernel/verbs/approvals/approvals.js'
import type { Api, KernelParts } from '../api.js'
import { callerName } from '../auth.js'

export function approvalRoutes(api: Api, { kernel, tail }: KernelParts): void {
  api('GET /projects/:project/approvals', async ({ params: { project: projectId }, query }) => ({
    approvals: await readApprovals(kernel.db, { projectId, ...query }),
  }))

  api('POST /projects/:project/approvals/:approval/decision', async ({ params, body, grant }) => {
    const { project: projectId, approval: approvalId } = params
    const owner = await readApprovalOwner(kernel.db, projectId, approvalId)
    if (owner === undefined) throw refusal('unknown', approvalId, null)
    if (owner.key_id === grant.keyId)
      throw new Terminal('This key claimed the turn that asks: it may not decide', {
        code: 'own_question',
        hint: 'decide with another key, and give the worker a key of role worker',
      })
    const allows = body.decision === 'allow'
    const { result, detail } = await kernel.decideApproval({
      projectId,
      approvalId,
      by: callerName(grant),
      ...(allows ? { scope: body.for, anyArguments: body.any_arguments } : { reason: body.reason }),
    })
    if (result !== 'decided') throw refusal(result, approvalId, detail)
    tail.wake()
    return { approval_id: approvalId, status: allows ? 'allowed' : 'denied' }
  })

  api('GET /projects/:project/grants', async ({ params, query }) => ({
    grants: await readGrants(kernel.db, params.project, query.limit),
  }))

  api('DELETE /projects/:project/grants/:grant', async ({ params }) => {
    if (!(await revokeGrant(kernel.db, params.project, params.grant)))
      throw new Terminal(`Grant ${params.grant} does not exist`, {
        code: 'unknown_grant',
        hint: 'it was revoked, or its turn has ended; `bellwether approvals grants` lists the current ones',
      })
    return { grant_id: params.grant }
  })
}

/** The database writes times in JSON in a form of its own. */
const instantOf = (at: string | null = null) => (at === null ? 'an unknown time' : new Date(at).toISOString())

function refusal(result: Exclude<DecisionResult, 'decided'>, id: string, detail: DecisionDetail | null): Terminal {
  const listed = '`bellwether approvals` lists the calls that wait'
  switch (result) {
    case 'unknown':
      return new Terminal(`Approval ${id} does not exist`, { code: 'unknown_approval', hint: listed })
    case 'already':
      return new Terminal(
        `Approval ${id} was ${detail?.status} by ${detail?.decided_by ?? 'someone'} at ${instantOf(detail?.decided_at)}. Nothing changed`,
        { code: 'already_decided', hint: `one decision counts; ${listed}` },
      )
    case 'expired':
      return new Terminal(
        `The deadline of approval ${id} passed at ${instantOf(detail?.deadline)}: the call was denied`,
        { code: 'approval_expired', hint: listed },
      )
    case 'ended':
      return new Terminal(`The turn of approval ${id} does not wait for it any more. Nothing changed`, {
        code: 'approval_ended',
        hint: listed,
      })
    case 'full':
      return new Terminal('The agent has the maximum number of grants', {
        code: 'too_many_grants',
        hint: 'revoke some (`bellwether approvals grants`), or allow this call once',
      })
  }
}
