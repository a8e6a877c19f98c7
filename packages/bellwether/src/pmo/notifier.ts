/**
 * Sends messages to people about what needs them, over the channels. It stores one message per question or approval and per missed deadline of one,
 * beside those that boards and PMOs store, and sends what is due. Any number of PMOs share the work: a message is claimed before it is
 * sent. It is sent again only if a try failed or its PMO died before it could record the success; then it has the same id.
 */
import { type Clock, errorMessage, type Log, objectOf, type Random } from '@bellwether/base'
import { shortened } from '@bellwether/protocol'
import type { NoticeBody } from '@bellwether/protocol/http'
import {
  claimNotices,
  dropNotices,
  endQuestionNotices,
  markFailed,
  markSent,
  putNotices,
  readNewApprovals,
  readNewQuestions,
  type ClaimedNotice,
  type NewApproval,
  type NewNotice,
  type NewQuestion,
} from '../kernel/verbs/notices.js'
import { claimSpendingAlerts } from '../kernel/verbs/budgets/spending.js'
import { spendingNotice } from './spending-notice.js'
import type { Database } from '../ports/database/database.js'
import type { Channel } from '../ports/channels.js'
import type { QuietHours } from '../ports/quiet-hours.js'
import { backoffMs, classify, defaultCallPolicy, retryCall, type Backoff } from '../ports/retry.js'

export interface NotifierOptions {
  readonly db: Database
  readonly channels: readonly Channel[]
  /** The address of the dashboard. Undefined while it is not known: nothing is sent until then. */
  readonly dashboard: () => string | undefined
  /** While they last, only urgent messages are sent; the others wait. */
  readonly quiet?: QuietHours | undefined
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly signal: AbortSignal
  /** Called for each message that will not be sent any more. */
  readonly onUnsent: () => void
}

export interface Notifier {
  /** Stores messages for new questions and sends what is due. Returns how many messages were sent. */
  step(): Promise<number>
}

// A step stores and sends so many; the next one continues.
const questionsMax = 200
const sendMax = 20
// Longer than a request may take. After the death of a sender, the next one waits for as long.
const leaseSeconds = 30
// 5 s, 10 s, 20 s, … up to one hour: a receiver that restarts gets its messages soon, one that is gone costs little.
const backoff: Backoff = { mode: 'exponential', baseMs: 5_000, multiplier: 2, maxMs: 3_600_000, jitterPct: 20 }
// After a day the dashboard is the better place to look.
const giveUpSeconds = 86_400
// More waiting messages mean that no one reads them; the newest matter most.
const waitingMax = 1_000
const textMaxChars = 500
const errorMaxChars = 500
// The notices have their own tries.
const calls = { ...defaultCallPolicy, retry: { ...defaultCallPolicy.retry, maxAttempts: 1 } }

export function openNotifier(options: NotifierOptions): Notifier {
  const { db, channels, quiet, clock, random, log, signal, onUnsent } = options
  const names = channels.map(({ name }) => name)

  async function store(): Promise<void> {
    const questions = await readNewQuestions(db, questionsMax)
    await putNotices(db, questions.map(questionNotice), names)
    await putNotices(db, (await readNewApprovals(db, questionsMax)).map(approvalNotice), names)
    // One transaction: a crash must not lose that the deadline passed.
    await db.transaction(async (tx) => {
      const ended = await endQuestionNotices(tx)
      const expired = ended.filter(({ expired }) => expired)
      for (const channel of names)
        await putNotices(tx, expired.filter((notice) => notice.channel === channel).map(expiredNotice), [channel])
    })
    // One transaction: a crash must not lose an alert, and no alert is repeated.
    await db.transaction(async (tx) => {
      const alerts = await claimSpendingAlerts(tx)
      await putNotices(tx, alerts.map(spendingNotice), names)
    })
    const dropped = await dropNotices(db, names, waitingMax)
    for (let count = 0; count < dropped; count += 1) onUnsent()
    if (dropped > 0)
      log.error({ messages: dropped, limit: waitingMax }, 'too many messages to people wait; oldest dropped')
  }

  async function send(notice: ClaimedNotice, dashboard: string): Promise<boolean> {
    const channel = channels.find(({ name }) => name === notice.channel)!
    const call = { kind: 'external_message', name: `sending a message by ${channel.name}` } as const
    try {
      await retryCall(calls, call, (abort) => channel.send(bodyOf(notice, dashboard), abort), {
        clock,
        random,
        log,
        signal,
      })
    } catch (error) {
      // The receiver may ask for more time, up to the longest pause.
      const wantedMs = Math.min(classify(error).afterMs, backoff.maxMs)
      const pauseMs = Math.max(backoffMs({ backoff }, notice.tries, random.next()), wantedMs)
      const failure = {
        error: errorMessage(error).slice(0, errorMaxChars),
        pauseSeconds: pauseMs / 1_000,
        giveUpSeconds,
      }
      const next = await markFailed(db, notice, failure)
      const fields = { err: error, channel: channel.name, notice: notice.notice_id, tries: notice.tries }
      if (next === 'retried')
        log.warn({ ...fields, retry_in_seconds: failure.pauseSeconds }, 'message to people not sent')
      else {
        onUnsent()
        log.error(fields, 'message to people given up')
      }
      return false
    }
    await markSent(db, notice)
    return true
  }

  return {
    async step() {
      await store()
      const dashboard = options.dashboard()
      if (dashboard === undefined) return 0
      let sent = 0
      while (!signal.aborted) {
        const kinds = quiet?.isQuiet(clock.wallMs()) === true ? quiet.urgent : null
        const due = await claimNotices(db, names, leaseSeconds, sendMax, kinds)
        const results = await Promise.all(due.map((notice) => send(notice, dashboard)))
        sent += results.filter(Boolean).length
        // Failed ones wait for their next try, so this ends.
        if (due.length < sendMax) break
      }
      return sent
    },
  }
}

/** One line without control characters, which a chat or terminal could act on. */
const oneLine = (text: string, max: number) =>
  shortened(text.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029\s]+/gu, ' ').trim(), max)

function questionNotice(question: NewQuestion): NewNotice {
  const { project_id: projectId, tool_call_id: id, agent_id: agent, agent_turn_id: turn, deadline } = question
  const args = objectOf(question.arguments)
  const textOf = (key: string) => (typeof args[key] === 'string' ? args[key] : undefined)
  const to = textOf('to')
  const text = textOf('question') ?? textOf('text') ?? '(no text)'
  return {
    noticeId: `question ${projectId} ${id}`,
    kind: 'question',
    projectId,
    openToolCallId: id,
    content: {
      text: `${agent} asks${to === undefined ? '' : ` ${oneLine(to, 120)}`}: ${oneLine(text, textMaxChars)}`,
      agent,
      turn,
      question: id,
      ...(deadline === null ? {} : { deadline: deadline.toISOString() }),
      path: `/p/${projectId}/needs-you?question=${encodeURIComponent(id)}`,
    },
  }
}

function approvalNotice(approval: NewApproval): NewNotice {
  const { project_id: projectId, approval_id: id, agent_id: agent, agent_turn_id: turn, tool_name: tool } = approval
  return {
    noticeId: `call_approval ${projectId} ${id}`,
    kind: 'call_approval',
    projectId,
    openToolCallId: id,
    content: {
      text: `${agent} asks to run ${oneLine(tool, 120)}: ${oneLine(JSON.stringify(approval.arguments), textMaxChars)}`,
      agent,
      turn,
      approval: id,
      ...(approval.deadline === null ? {} : { deadline: approval.deadline.toISOString() }),
      path: `/p/${projectId}/needs-you?approval=${encodeURIComponent(id)}`,
    },
  }
}

function expiredNotice({
  notice_id: id,
  kind,
  project_id: projectId,
  content,
}: Pick<ClaimedNotice, 'notice_id' | 'kind' | 'project_id' | 'content'>): NewNotice {
  const { deadline: _past, ...rest } = content
  return {
    noticeId: `expired ${id}`,
    kind: kind === 'call_approval' ? 'call_approval_expired' : 'question_expired',
    projectId: projectId ?? undefined,
    content: {
      ...rest,
      text: `${kind === 'call_approval' ? 'Denied, because no one decided before' : 'No answer within'} the deadline: ${content.text}`,
      path: `/p/${projectId}/turns/${encodeURIComponent(String(content['turn']))}`,
    },
  }
}

function bodyOf(
  { notice_id: id, kind, project_id: project, content, created_at: at }: ClaimedNotice,
  dashboard: string,
): NoticeBody {
  const { path = '/', ...rest } = content
  return {
    ...rest,
    id,
    kind,
    ...(project === null ? {} : { project }),
    at: at.toISOString(),
    link: `${dashboard}${path}`,
  }
}
