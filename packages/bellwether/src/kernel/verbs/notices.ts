/**
 * Messages to people: stored once per need and channel, claimed by one PMO at a time, sent, and retried with growing pauses. A message
 * whose question has ended is not sent any more. The number of waiting messages and the time of retries have bounds.
 */
import type { Queryable } from '../../ports/database/database.js'
import { askPerson } from '../pmo-tools.js'

export interface NewNotice {
  /** The same need has the same id. */
  readonly noticeId: string
  readonly kind: string
  readonly projectId?: string | undefined
  readonly content: NoticeContent
  /** The call of a question, or the id of an approval: the notice is not sent any more after its end. */
  readonly openToolCallId?: string | undefined
}

interface NoticeContent {
  readonly text: string
  /** The path of the item in the dashboard. */
  readonly path?: string | undefined
  readonly [key: string]: unknown
}

export interface ClaimedNotice {
  readonly notice_id: string
  readonly channel: string
  readonly kind: string
  readonly project_id: string | null
  readonly content: NoticeContent
  readonly created_at: Date
  /** Including the one that this claim is for. */
  readonly tries: number
}

/** Stores the notices that are not stored yet, for each channel. */
export async function putNotices(
  db: Queryable,
  notices: readonly NewNotice[],
  channels: readonly string[],
): Promise<void> {
  if (notices.length === 0) return
  const rows = notices.map(({ noticeId, kind, projectId, content, openToolCallId }) => ({
    notice_id: noticeId,
    kind,
    project_id: projectId ?? null,
    content,
    open_tool_call_id: openToolCallId ?? null,
  }))
  await db.query({
    name: 'bw_put_notices',
    text: `insert into state.notices
        (notice_id, channel, kind, project_id, content, created_at, next_try_at, open_tool_call_id)
      select n.notice_id, c, n.kind, n.project_id, n.content, state.now(), state.now(), n.open_tool_call_id
      from jsonb_to_recordset($1) n (notice_id text, kind text, project_id text, content jsonb, open_tool_call_id text)
      cross join unnest($2::text[]) c
      on conflict do nothing`,
    values: [JSON.stringify(rows), channels],
  })
}

export interface NewQuestion {
  readonly project_id: string
  readonly tool_call_id: string
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly arguments: unknown
  readonly deadline: Date | null
}

/** Questions that wait for a person and have no notice yet. The oldest first. */
export async function readNewQuestions(db: Queryable, limit: number): Promise<NewQuestion[]> {
  return db.query<NewQuestion>({
    name: 'bw_read_new_questions',
    text: `select w.project_id, w.tool_call_id, w.agent_id, w.agent_turn_id, c.content -> 'arguments' as arguments,
        t.resume_deadline as deadline
      from state.turn_waiting_tools w
      left join cards.cards c on c.card_id = w.tool_call_card_id
      left join state.turns t on t.agent_turn_id = w.agent_turn_id
      where w.tool_name = $1 and w.wait_status = 'waiting' and not exists (select from state.notices n
        where n.project_id = w.project_id and n.open_tool_call_id = w.tool_call_id)
      order by w.wait_seq limit $2`,
    values: [askPerson, limit],
  })
}

export interface NewApproval extends Omit<NewQuestion, 'tool_call_id'> {
  readonly approval_id: string
  readonly tool_name: string
}

/** Calls that wait for a person's approval and have no notice yet. The oldest first. */
export async function readNewApprovals(db: Queryable, limit: number): Promise<NewApproval[]> {
  return db.query<NewApproval>({
    name: 'bw_read_new_approvals',
    text: `select a.project_id, a.approval_id, a.agent_id, a.agent_turn_id, a.tool_name, a.arguments, a.deadline
      from state.approvals a
      where a.status = 'waiting' and not exists (select from state.notices n
        where n.project_id = a.project_id and n.open_tool_call_id = a.approval_id)
      order by a.asked_at limit $1`,
    values: [limit],
  })
}

export interface EndedQuestion extends Pick<
  ClaimedNotice,
  'notice_id' | 'channel' | 'kind' | 'project_id' | 'content'
> {
  /** Its deadline passed without an answer. */
  readonly expired: boolean
}

/** Notices of questions and approvals that have ended since the last call. They are not sent any more. */
export async function endQuestionNotices(db: Queryable): Promise<EndedQuestion[]> {
  return db.query<EndedQuestion>({
    name: 'bw_end_question_notices',
    text: `with ended as (
        select n.notice_id, n.channel, coalesce(a.status = 'expired', c.content ->> 'status' = 'timeout') as expired
        from state.notices n
        left join state.approvals a on n.kind = 'call_approval' and a.approval_id = n.open_tool_call_id
        left join state.turn_waiting_tools w on n.kind <> 'call_approval' and w.project_id = n.project_id
          and w.tool_call_id = n.open_tool_call_id
        left join cards.cards c on c.card_id = w.tool_result_card_id
        where n.open_tool_call_id is not null and coalesce(a.status, w.wait_status) is distinct from 'waiting'
        for update of n skip locked)
      update state.notices n set open_tool_call_id = null, next_try_at = null
      from ended e where n.notice_id = e.notice_id and n.channel = e.channel
      returning n.notice_id, n.channel, n.project_id, n.content, n.kind, coalesce(e.expired, false) as expired`,
  })
}

/** Takes the notices that are due, for `leaseSeconds`: after it, another PMO may try. The oldest first. `kinds`: only these. */
export async function claimNotices(
  db: Queryable,
  channels: readonly string[],
  leaseSeconds: number,
  limit: number,
  kinds: readonly string[] | null = null,
): Promise<ClaimedNotice[]> {
  const rows = await db.query<ClaimedNotice>({
    name: 'bw_claim_notices',
    text: `with due as (
        select n.notice_id, n.channel from state.notices n
        where n.next_try_at <= state.now() and n.channel = any ($1) and ($4::text[] is null or n.kind = any ($4))
        order by n.created_at, n.notice_id limit $3 for update skip locked)
      update state.notices n set tries = n.tries + 1, next_try_at = state.now() + make_interval(secs => $2)
      from due d where n.notice_id = d.notice_id and n.channel = d.channel
      returning n.notice_id, n.channel, n.kind, n.project_id, n.content, n.created_at, n.tries`,
    values: [channels, leaseSeconds, limit, kinds],
  })
  return rows.sort((a, b) => a.created_at.getTime() - b.created_at.getTime())
}

type NoticeName = Pick<ClaimedNotice, 'notice_id' | 'channel'>

export async function markSent(db: Queryable, { notice_id: id, channel }: NoticeName): Promise<void> {
  await db.query({
    text: `update state.notices set sent_at = state.now(), next_try_at = null, error = null
      where notice_id = $1 and channel = $2 and sent_at is null`,
    values: [id, channel],
  })
}

/** Records a failed try. The next one follows after `pauseSeconds`, or never if the notice is older than `giveUpSeconds`. */
export async function markFailed(
  db: Queryable,
  { notice_id: id, channel }: NoticeName,
  failure: { readonly error: string; readonly pauseSeconds: number; readonly giveUpSeconds: number },
): Promise<'retried' | 'given_up'> {
  const [row] = await db.query<{ given_up: boolean }>({
    text: `update state.notices set error = $3,
        next_try_at = case when created_at > state.now() - make_interval(secs => $5)
          then state.now() + make_interval(secs => $4) end
      where notice_id = $1 and channel = $2 and sent_at is null and next_try_at is not null
      returning next_try_at is null as given_up`,
    values: [id, channel, failure.error, failure.pauseSeconds, failure.giveUpSeconds],
  })
  return row?.given_up === true ? 'given_up' : 'retried'
}

/** Gives up the oldest waiting notices beyond `max` per channel. Returns how many. */
export async function dropNotices(db: Queryable, channels: readonly string[], max: number): Promise<number> {
  const rows = await db.query({
    name: 'bw_drop_notices',
    text: `update state.notices n set next_try_at = null, error = 'too many messages waited'
      from unnest($1::text[]) c cross join lateral (
        select w.notice_id from state.notices w where w.channel = c and w.next_try_at is not null
        order by w.created_at desc, w.notice_id desc offset $2) o
      where n.channel = c and n.notice_id = o.notice_id returning n.notice_id`,
    values: [channels, max],
  })
  return rows.length
}
