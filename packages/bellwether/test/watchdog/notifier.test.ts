/** Messages to people: real database, real HTTP receiver. */
import { createServer } from 'node:http'
import { systemClock, systemRandom } from '@bellwether/base'
import { expect, it, onTestFinished } from 'vitest'
import { setSpendingLimits } from '../../src/kernel/verbs/budgets/spending.js'
import { expireApprovals } from '../../src/kernel/verbs/approvals/approvals.js'
import { putNotices } from '../../src/kernel/verbs/notices.js'
import { expireWaits, prune } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { openNotifier, type NotifierOptions } from '../../src/pmo/notifier.js'
import { openChannels } from '../../src/ports/channels.js'
import { postJson } from '../../src/ports/webhook.js'
import { fullWatchWindow, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { kernelPerTest, target } from '../support/kernel.js'
import { quietLog } from '../support/quiet-log.js'
import { listen } from '../support/servers/listen.js'
import { openNoticeReceiver } from '../support/servers/webhook-receiver.js'

const t = kernelPerTest()
const dashboard = 'https://bw.example'

async function receiver() {
  const opened = await openNoticeReceiver()
  onTestFinished(() => opened.close())
  return opened
}

function notifier(url: string, more: Partial<NotifierOptions> = {}) {
  const { signal } = new AbortController()
  let unsent = 0
  const channels = openChannels({ webhook_url: url })
  const ports = { clock: systemClock, random: systemRandom, log: quietLog, signal }
  const opened = openNotifier({
    ...{ db: t.db, channels, dashboard: () => dashboard, onUnsent: () => (unsent += 1) },
    ...ports,
    ...more,
  })
  return { step: () => opened.step(), unsent: () => unsent }
}

const ask = (toolCallId: string, args: object = { question: 'Ship it?', to: 'alice' }) =>
  suspendedTurn(t, 'asker', [{ toolCallId, toolName: 'ask_person', args, hostedBy: 'people' }])

it('[H6.7] two PMOs send one message per question, with a link to it, its text and its deadline', async () => {
  const hook = await receiver()
  await t.agents('asker')
  const turn = await ask('call/1', { question: 'Ship\u001b[2J it?\nNow?', to: 'alice' })
  const pmos = [notifier(hook.url), notifier(hook.url)]
  await Promise.all(pmos.map((pmo) => pmo.step()))
  for (const pmo of pmos) expect(await pmo.step()).toBe(0)
  expect(hook.notices).toEqual([
    {
      id: 'question p call/1',
      kind: 'question',
      project: 'p',
      text: 'asker asks alice: Ship [2J it? Now?',
      agent: 'asker',
      turn: turn.agentTurnId,
      question: 'call/1',
      deadline: expect.stringMatching(/^\d{4}-.*Z$/),
      at: expect.any(String),
      link: 'https://bw.example/p/p/needs-you?question=call%2F1',
    },
  ])
})

it('[H6.7] a call that waits for approval is announced with its arguments and a link, and so is its missed deadline', async () => {
  const hook = await receiver()
  await t.agents('coder')
  const options = { approve: 'ask', approve_within_seconds: 60 }
  await t.kernel.putTool({ projectId: 'p', toolName: 'deploy', options })
  await suspendedTurn(t, 'coder', [{ toolCallId: 'call-1', toolName: 'deploy', args: { to: 'production' } }])
  const pmo = notifier(hook.url)
  await pmo.step()
  expect(await pmo.step()).toBe(0)
  const { id } = await t.one<{ id: string }>('select approval_id as id from state.approvals')
  expect(hook.notices).toMatchObject([
    {
      kind: 'call_approval',
      text: 'coder asks to run deploy: {"to":"production"}',
      approval: id,
      link: `https://bw.example/p/p/needs-you?approval=${id}`,
    },
  ])
  await t.advance(61)
  await expireApprovals(t.db, t.ids)
  await pmo.step()
  expect(hook.notices.map(({ kind }) => kind)).toEqual(['call_approval', 'call_approval_expired'])
})

it('[H6.7] a message that the receiver rejects is retried with growing pauses, also by a PMO that starts later', async () => {
  const hook = await receiver()
  await t.agents('asker')
  hook.answer(404, 503, 500)
  await ask('call-1')
  const first = notifier(hook.url)
  await first.step()
  expect([hook.requests, await first.step()]).toEqual([1, 0])
  // The pause is 5 s, 10 s, 20 s, each with 20 % of jitter.
  for (const [shortSeconds, longSeconds] of [
    [3.9, 2.2],
    [7.9, 4.2],
    [15.9, 8.2],
  ] as const) {
    const before = hook.requests
    const next = notifier(hook.url)
    await t.advance(shortSeconds)
    await next.step()
    expect(hook.requests).toBe(before)
    await t.advance(longSeconds)
    await next.step()
    expect(hook.requests).toBe(before + 1)
  }
  expect(hook.notices.map(({ id }) => id)).toEqual(['question p call-1'])
  const row = await t.one('select tries, sent_at is not null as sent, next_try_at, error from state.notices')
  expect(row).toEqual({ tries: 4, sent: true, next_try_at: null, error: null })
})

it('[H6.7] a receiver that asks for a pause of years gets its message an hour later', async () => {
  const asking = createServer((_request, response) => response.writeHead(503, { 'retry-after': '99999999999' }).end())
  const port = await listen(asking)
  onTestFinished(() => void asking.close())
  await t.agents('asker')
  await ask('call-1')
  expect(await notifier(`http://127.0.0.1:${port}/`).step()).toBe(0)
  await t.advance(3_601)
  const hook = await receiver()
  expect(await notifier(hook.url).step()).toBe(1)
})

it('[H6.7] a PMO that dies after it claimed a message delays it until its lease ends', async () => {
  const hook = await receiver()
  await t.agents('asker')
  await ask('call-1')
  const hanging = notifier(hook.url, { channels: [{ name: 'webhook', send: () => new Promise(() => undefined) }] })
  void hanging.step().catch(() => undefined)
  await expect.poll(async () => (await t.all('select from state.notices where tries = 1')).length).toBe(1)
  const other = notifier(hook.url)
  expect(await other.step()).toBe(0)
  await t.advance(31)
  expect(await other.step()).toBe(1)
})

it('[H6.7] an answered question is not announced any more, and a missed deadline is', async () => {
  const hook = await receiver()
  await t.agents('asker', 'other')
  hook.answer(503)
  await ask('call-1')
  await notifier(hook.url).step()
  await reportSuccess(t, 'call-1')
  await t.claim()
  await t.advance(60)
  await notifier(hook.url).step()
  expect([hook.requests, hook.notices]).toEqual([1, []])

  const turn = await suspendedTurn(t, 'other', [
    { toolCallId: 'call-2', toolName: 'ask_person', args: { question: 'Which one?' }, hostedBy: 'people' },
  ])
  await notifier(hook.url).step()
  await t.advance(31)
  await expireWaits(t.db, t.ids, target, fullWatchWindow)
  await t.claim()
  for (let round = 0; round < 2; round += 1) await notifier(hook.url).step()
  expect(hook.notices.map(({ kind, link, text }) => [kind, text, link])).toEqual([
    ['question', 'other asks: Which one?', `${dashboard}/p/p/needs-you?question=call-2`],
    [
      'question_expired',
      'No answer within the deadline: other asks: Which one?',
      `${dashboard}/p/p/turns/${turn.agentTurnId}`,
    ],
  ])
})

it('[H6.7] a message is given up after a day, and beyond 1,000 waiting ones the oldest are dropped', async () => {
  const hook = await receiver()
  hook.answer(...Array.from({ length: 50 }, () => 503))
  const put = (...ids: string[]) =>
    putNotices(
      t.db,
      ids.map((noticeId) => ({ noticeId, kind: 'stale_locks', content: { text: noticeId } })),
      ['webhook'],
    )
  await put('old')
  const pmo = notifier(hook.url)
  await pmo.step()
  await t.advance(86_401)
  await pmo.step()
  expect(pmo.unsent()).toBe(1)
  await t.advance(86_400)
  await pmo.step()
  expect(hook.requests).toBe(2)

  await put(...Array.from({ length: 1_002 }, (_, at) => `n${String(at).padStart(4, '0')}`))
  const full = notifier(hook.url, { dashboard: () => undefined })
  expect(await full.step()).toBe(0)
  expect(full.unsent()).toBe(2)
  const left = await t.all<{ notice_id: string }>(
    'select notice_id from state.notices where next_try_at is not null order by 1 limit 1',
  )
  expect(left).toEqual([{ notice_id: 'n0002' }])
  await t.advance(40 * 86_400)
  while ((await prune(t.db, 30)) > 0);
  expect(await t.all('select from state.notices')).toEqual([])
})

it('[H6.7] each channel has its own tries; text of an agent makes no link and no mention in Slack', async () => {
  const hook = await receiver()
  await t.agents('asker')
  hook.answer()
  await ask('call-1', { question: '<!channel> see <https://evil|here> & go' })
  const channels = openChannels({ webhook_url: hook.url, slack_webhook_url: hook.slackUrl }, async (url, ...rest) => {
    if (url === hook.url) throw Object.assign(new Error('down'), { status: 503 })
    return postJson(url, ...rest)
  })
  expect(await notifier(hook.url, { channels }).step()).toBe(1)
  const [message] = hook.slack
  expect(message?.text).toMatch(
    /^asker asks: &lt;!channel&gt; see &lt;https:\/\/evil\|here&gt; &amp; go \(answer by .*\)\n/,
  )
  expect(message?.text).toMatch(/\n<https:\/\/bw\.example\/p\/p\/needs-you\?question=call-1\|Open in Bellwether>$/)
  await t.advance(7)
  expect(await notifier(hook.url).step()).toBe(1)
  expect([hook.notices.length, hook.slack.length]).toEqual([1, 1])
})

it('[H6.7] two PMOs send one message per spending limit and period at 80 %, with what was used', async () => {
  const hook = await receiver()
  const limit = { scope: 'project', period: 'day', costMicros: 50_000_000 } as const
  await setSpendingLimits(t.db, [limit], { action: 'hold', timeZone: 'UTC' })
  await t.agents('ann')
  const turn = await t.running('ann')
  await t.kernel.meterSpending(turn, undefined)
  await t.kernel.reserve(turn, { reservationId: 'r', tokens: 10, costMicros: 45_000_000 })
  const pmos = [notifier(hook.url), notifier(hook.url)]
  for (const pmo of pmos) await pmo.step()
  expect(hook.notices).toEqual([])
  await t.kernel.commitUsage(turn, { reservationId: 'r', tokens: 10, costMicros: 41_000_000 })
  await Promise.all(pmos.map((pmo) => pmo.step()))
  for (const pmo of pmos) expect(await pmo.step()).toBe(0)
  expect(hook.notices).toMatchObject([
    {
      kind: 'spending',
      project: 'p',
      text: 'Spending limit "project day" of project p: cost $41.00 of $50.00',
      link: 'https://bw.example/p/p/health',
    },
  ])
})
