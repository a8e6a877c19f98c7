/** Fallbacks: the deliverables of turns that did not succeed. Each has its reason and the work that the kernel has (T4.1, W3.1, H7.5). */
import { fallbackContent } from '@bellwether/protocol/http'
import { expect, it } from 'vitest'
import { kernelPerFile, project } from '../support/kernel.js'
import { turnRow } from '../support/kernel-rows.js'
import { deliverTurn, enqueueTurn, grepCalls, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { guardOn, pass } from '../support/watchdog.js'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import { readTurnDetail } from '../../src/kernel/reads/turn-detail.js'

const t = kernelPerFile()

const think = (turn: ClaimedTurn, ...texts: string[]) =>
  t.kernel.record({
    ...turn,
    cards: texts.map((text) => ({ cardId: t.ids.next(), type: 'agent.thought' as const, content: { text } })),
  })
const stop = (agentTurnId: string) =>
  t.kernel.stop({ projectId: project, agentTurnId, stoppedBy: 'key ops', reason: 'changed my mind' })

/** The deliverable card of an ended turn, checked against the contract. */
async function deliverableOf(agentTurnId: string) {
  const { deliverable_card_id: id } = await turnRow(t, agentTurnId)
  const card = await t.kernel.readCard(id!)
  return { kind: card!.metadata['kind'], content: card!.content, ...fallbackContent.parse(card!.content) }
}

it('[T4.1] a stopped turn delivers a fallback with the reason, who stopped it, its last text and its tool results', async () => {
  await t.agents('stopped')
  const turn = await suspendedTurn(t, 'stopped', grepCalls('s1', 's2', 's3'))
  await reportSuccess(t, 's1', { lines: 3 })
  await t.claim()
  // This result waits in the inbox: no worker has taken it.
  await t.kernel.report([{ projectId: project, toolCallId: 's2', status: 'failed', error: { code: 'no_such_file' } }])
  expect(await stop(turn.agentTurnId)).toBe('ended')
  const { kind, text, fallback } = await deliverableOf(turn.agentTurnId)
  expect(kind).toBe('fallback')
  expect(text).toContain('Stopped by key ops: changed my mind')
  expect(text).toContain('Tool results: grep (success), grep (failed)')
  expect(fallback).toMatchObject({
    code: 'stopped',
    ended_by: 'key ops',
    reason: 'changed my mind',
    started: true,
    tool_results: [
      { tool_call_id: 's1', tool_name: 'grep', status: 'success', result: { lines: 3 }, truncated: false },
      { tool_call_id: 's2', tool_name: 'grep', status: 'failed', error: 'no_such_file' },
    ],
    tool_results_received: 2,
    truncated: false,
    output_box_id: turn.outputBoxId,
  })
})

it('[T4.1] a fallback has the newest text of its own turn, also if a queued turn was cancelled after it', async () => {
  await t.agents('writer')
  const earlier = await t.running('writer')
  await think(earlier, 'of the earlier turn')
  await deliverTurn(t, earlier)
  const silent = await t.running('writer')
  await stop(silent.agentTurnId)
  expect((await deliverableOf(silent.agentTurnId)).fallback).toMatchObject({ last_text: null, cards: 0 })

  const turn = await t.running('writer')
  await think(turn, 'a plan', 'half a chapter', ' \n ')
  const queued = await enqueueTurn(t, 'writer')
  await stop(queued.agentTurnId)
  await stop(turn.agentTurnId)
  const { text, fallback } = await deliverableOf(turn.agentTurnId)
  expect(fallback).toMatchObject({ last_text: 'half a chapter', cards: 3 })
  expect(text).toContain('The work so far:\n\nhalf a chapter')
})

it('[T3.6] a turn that is cancelled before it starts delivers a fallback that says so', async () => {
  await t.agents('waiting')
  const running = await t.running('waiting')
  await think(running, 'of the running turn')
  const queued = await enqueueTurn(t, 'waiting')
  expect(await t.kernel.stop({ projectId: project, agentTurnId: queued.agentTurnId })).toBe('ended')
  const cancelled = await deliverableOf(queued.agentTurnId)
  expect(cancelled.kind).toBe('fallback')
  expect(cancelled.text).toBe('Cancelled before it started, by an unnamed caller: no reason was given')
  expect(cancelled.fallback).toMatchObject({ started: false, last_text: null, cards: 0, tool_results: [] })
  await deliverTurn(t, running)
  const leased = await enqueueTurn(t, 'waiting')
  await stop(leased.agentTurnId)
  expect((await deliverableOf(leased.agentTurnId)).fallback).toMatchObject({ started: false, code: 'stopped' })
})

it('[W3.1] every watchdog ending delivers a fallback with its reason and the work so far', async () => {
  await t.agents('leased', 'silent', 'unanswered', 'deadly')
  const silent = await t.running('silent')
  await think(silent, 'half of it')
  const unanswered = await suspendedTurn(t, 'unanswered', grepCalls('w1'))
  const deadly = await t.running('deadly')
  await think(deadly, 'before the crash')
  await t.all('update state.agent_inbox set deaths = 3 where agent_turn_id = $1', deadly.agentTurnId)
  const leased = await enqueueTurn(t, 'leased')
  await pass(t, 340, guardOn(t))
  const endings = [
    { turn: leased, code: 'dispatch_timeout', reason: 'no worker started the turn in time', last_text: null },
    { turn: silent, code: 'timeout_reaped_by_watchdog', reason: /stopped sending beats/, last_text: 'half of it' },
    { turn: unanswered, code: 'suspended_unresumable', reason: /did not arrive/, last_text: null },
    { turn: deadly, code: 'max_deaths', reason: /workers died/, last_text: 'before the crash' },
  ]
  for (const { turn, code, reason, last_text } of endings) {
    const { kind, text, fallback } = await deliverableOf(turn.agentTurnId)
    expect({ kind, ...fallback }).toMatchObject({ kind: 'fallback', code, ended_by: 'watchdog', last_text })
    expect(fallback.reason).toMatch(reason)
    expect(text).toContain(`The watchdog ended this turn (${code}): ${fallback.reason}`)
  }
})

it('[T4.1] a failure that a worker delivers keeps its content and gets the work so far', async () => {
  await t.agents('failing', 'fine')
  const turn = await t.running('failing')
  await think(turn, 'half of it')
  await t.kernel.deliver({ ...turn, status: 'failed', error: 'agent_failed', content: { text: 'boom' } })
  const { kind, text, fallback } = await deliverableOf(turn.agentTurnId)
  expect({ kind, text }).toEqual({ kind: 'fallback', text: 'boom' })
  expect(fallback).toMatchObject({ code: 'agent_failed', ended_by: 'worker', reason: 'boom', last_text: 'half of it' })
  expect((await readTurnDetail(t.db, turn.agentTurnId)).deliverable).toMatchObject({
    kind: 'fallback',
    content: { text: 'boom' },
    fallback: { code: 'agent_failed' },
  })

  const stored = await t.running('failing')
  await think(stored, 'exit code 1')
  await t.kernel.deliver({ ...stored, status: 'timeout', content: { text: 'exit code 1' } })
  expect((await deliverableOf(stored.agentTurnId)).fallback).toMatchObject({
    code: 'timeout',
    last_text: null,
    cards: 1,
  })

  const fine = await t.running('fine')
  await deliverTurn(t, fine, 'all of it')
  const { deliverable_card_id: id } = await turnRow(t, fine.agentTurnId)
  expect(await t.kernel.readCard(id!)).toMatchObject({ content: { text: 'all of it' } })
  expect((await t.kernel.readCard(id!))!.metadata).not.toHaveProperty('kind')
  expect((await readTurnDetail(t.db, fine.agentTurnId)).deliverable).toMatchObject({ kind: 'result', fallback: null })
})

it('[T4.1] a fallback is bounded, and says what it left out', async () => {
  await t.agents('talker')
  const ids = Array.from({ length: 12 }, (_, n) => `b${n}`)
  const turn = await t.running('talker')
  await think(turn, ...Array.from({ length: 250 }, (_, n) => (n === 249 ? `${'\u0001'.repeat(60_000)}end` : 'x')))
  await t.kernel.suspend({ ...turn, stepId: t.ids.next(), calls: grepCalls(...ids) }, 30)
  for (const id of ids) await reportSuccess(t, id, { text: '\u0001'.repeat(50_000) })
  await stop(turn.agentTurnId)
  const { content, fallback } = await deliverableOf(turn.agentTurnId)
  expect(Buffer.byteLength(JSON.stringify(content))).toBeLessThan(200_000)
  expect(fallback.last_text).toHaveLength(8_000)
  expect(fallback.last_text).toMatch(/end$/)
  expect(fallback.tool_results.map((one) => one.tool_call_id)).toEqual(ids.slice(2))
  expect(fallback.tool_results.every((one) => one.truncated && typeof one.result === 'string')).toBe(true)
  expect(fallback).toMatchObject({ tool_results_received: 12, truncated: true })
})

it('[T3.6] a stop that a worker claims as an inbox row delivers its reason', async () => {
  await t.agents('mailed')
  const turn = await t.running('mailed')
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id, turn_epoch, payload)
     values ($1, $2, 'mailed', 'w', 'public', 'stop', 'pending', $3, $4, '{"reason": "by mail", "stopped_by": "a script"}')`,
    t.ids.next(),
    project,
    turn.agentTurnId,
    turn.turnEpoch,
  )
  await t.claim()
  expect((await deliverableOf(turn.agentTurnId)).fallback).toMatchObject({ ended_by: 'a script', reason: 'by mail' })
})
