/** Reads approvals and grants. Reads only, bounded. */
import type { ApprovalRow, GrantRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'

export interface ApprovalQuery {
  readonly projectId: string
  /** `waiting`: the open ones, oldest first. `all`: also decided ones, newest first. */
  readonly show: 'waiting' | 'all'
  readonly limit: number
}

const columns = `a.approval_id, a.agent_id, a.agent_turn_id, a.tool_call_id, a.tool_name, a.arguments, a.asked_at,
  a.deadline, a.status, a.scope, a.decided_by, a.decided_at, a.reason,
  a.tool_call_id is null and exists (select from state.approvals o where o.agent_turn_id = a.agent_turn_id
    and o.tool_call_id is null and o.tool_name = a.tool_name and o.arguments = a.arguments and o.status = 'allowed'
    and o.used_at is not null and o.turn_epoch < a.turn_epoch) as may_have_run`

/** An open request of a turn that is over is not listed; the PMO closes it soon. */
export async function readApprovals(db: Queryable, { projectId, show, limit }: ApprovalQuery): Promise<ApprovalRow[]> {
  return show === 'waiting'
    ? db.query<ApprovalRow>({
        name: 'bw_read_open_approvals',
        text: `select ${columns} from state.approvals a cross join lateral state.head(a.project_id, a.agent_id) h
          where a.project_id = $1 and a.status = 'waiting' and a.deadline > state.now()
            and h.active_agent_turn_id = a.agent_turn_id
          order by a.asked_at, a.approval_id limit $2`,
        values: [projectId, limit],
      })
    : db.query<ApprovalRow>({
        name: 'bw_read_approvals',
        text: `select ${columns} from state.approvals a where a.project_id = $1
          order by a.asked_at desc, a.approval_id desc limit $2`,
        values: [projectId, limit],
      })
}

/** The API key of the worker whose turn asks: it may not decide. */
export async function readApprovalOwner(
  db: Queryable,
  projectId: string,
  approvalId: string,
): Promise<{ readonly key_id: string | null } | undefined> {
  const [owner] = await db.query<{ key_id: string | null }>({
    name: 'bw_approval_owner',
    text: `select l.key_id from state.approvals a left join state.lease_tokens l on l.agent_turn_id = a.agent_turn_id
      where a.project_id = $1 and a.approval_id = $2`,
    values: [projectId, approvalId],
  })
  return owner
}

export async function readGrants(db: Queryable, projectId: string, limit: number): Promise<GrantRow[]> {
  return db.query<GrantRow>({
    name: 'bw_read_grants',
    text: `select g.grant_id, g.agent_id, g.agent_turn_id, g.tool_name, g.arguments, g.any_arguments, g.granted_by,
        g.granted_at, g.uses, g.last_used_at
      from state.approval_grants g left join lateral state.head(g.project_id, g.agent_id) h on true
      where g.project_id = $1 and (g.agent_turn_id is null or g.agent_turn_id = h.active_agent_turn_id)
      order by g.granted_at desc, g.grant_id limit $2`,
    values: [projectId, limit],
  })
}
