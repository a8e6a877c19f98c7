import { beforeEach, expect, it } from 'vitest'
import { setLimits } from '../../src/kernel/verbs/roster.js'
import { wakePending } from '../../src/kernel/verbs/watchdog/watchdog.js'
import type { TurnAction } from '../../src/worker/agent.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { eventsOf, fingerprint, headOf, inboxRow, turnRow } from '../support/kernel-rows.js'
import { deliverTurn, enqueueTurn, grepCalls, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { runTurns, testWorker } from '../support/worker.js'

const t = kernelPerFile()
let agent: string
beforeEach(async () => {
  agent = `a${t.ids.next()}`
  await t.agents(agent)
})

/** The next turn of this agent still runs to its end. */
const works = async (name = agent) => expect(await deliverTurn(t, await t.running(name))).toEqual({ what: 'ended' })

const deep = (levels: number): unknown => (levels === 0 ? 1 : { in: deep(levels - 1) })
const cyclic: Record<string, unknown> = {}
cyclic.self = cyclic

it.each([
  ['an unknown agent', { agentId: 'ghost' }, 'unknown_agent'],
  ['an invalid agent name', { agentId: 'No Such!' }, 'invalid_name'],
  ['an invalid project name', { projectId: 'a.b' }, 'invalid_name'],
  ['a channel that would break a subject', { channelId: 'a.*.>' }, 'invalid_name'],
  ['an oversized instruction', { instruction: 'x'.repeat(1_100_000) }, 'content_too_large'],
  ['an oversized payload', { payload: { x: 'x'.repeat(70_000) } }, 'content_too_large'],
  ['a payload nested too deeply', { payload: { x: deep(70) } }, 'content_too_deep'],
  ['a payload that holds itself', { payload: cyclic }, 'content_too_deep'],
  ['a payload that is not JSON', { payload: { n: 10n } }, 'not_json'],
  ['a NUL in the instruction', { instruction: 'a\0b' }, 'invalid_text'],
  ['half a surrogate pair', { instruction: 'a\ud800b' }, 'invalid_text'],
  ['a NUL in the payload’s key', { payload: { 'a\0': 1 } }, 'invalid_text'],
  ['a NUL in the correlation id', { correlationId: 'a\0' }, 'invalid_text'],
  ['a NUL in the lineage', { source: { agentId: 'a\0' } }, 'invalid_text'],
  ['a NUL in the parent step', { parentStepId: '\0' }, 'invalid_text'],
  ['an endless correlation id', { correlationId: 'x'.repeat(501) }, 'invalid_text'],
  ['an invalid traceparent', { traceparent: '00-xyz' }, 'invalid_traceparent'],
  ['an all-zero trace', { traceparent: `00-${'0'.repeat(32)}-${'1'.repeat(16)}-01` }, 'invalid_traceparent'],
  ['recursion 21 levels deep', { recursionDepth: 21 }, 'recursion_depth_exceeded'],
  ['a recursion depth below zero', { recursionDepth: -1 }, 'invalid_recursion_depth'],
  ['a fractional recursion depth', { recursionDepth: 1.5 }, 'invalid_recursion_depth'],
  ['result fields without names', { resultFields: [{ name: '' }] }, 'invalid_result_fields'],
  ['result fields named twice', { resultFields: [{ name: 'a' }, { name: 'a' }] }, 'invalid_result_fields'],
  ['no result fields at all', { resultFields: [] }, 'invalid_result_fields'],
])('[T3.1a] enqueue refuses %s by name and writes nothing', async (_title, more, code) => {
  const before = await fingerprint(t.db)
  await expect(enqueueTurn(t, agent, more)).rejects.toMatchObject({ name: 'InvalidInput', code })
  expect(await fingerprint(t.db)).toEqual(before)
  await works()
})

it('[T3.1a] accepts content that only looks dangerous: an escaped NUL in text, emoji, SQL, 64 levels', async () => {
  const words = "\\u0000 \\ud800 👩‍👩‍👧 '; drop table state.agent_inbox; -- \u2028"
  await enqueueTurn(t, agent, {
    instruction: words,
    payload: { x: deep(60) },
    correlationId: words,
    recursionDepth: 20,
  })
  const [turn] = (await t.claim()).filter((one) => one.agentId === agent)
  expect((await t.kernel.readBoxes([turn!.contextBoxId]))[0]!.content).toEqual({ text: words })
  expect(turn!.correlationId).toBe(words)
  expect(await deliverTurn(t, turn!, words)).toEqual({ what: 'ended' })
})

it('[T3.1a] accepts the valid turns of a batch with an invalid one, and none for a retired agent', async () => {
  const answers = await t.kernel.enqueueMany([
    { projectId: project, agentId: 'ghost', instruction: 'x' },
    { projectId: project, agentId: agent, instruction: 'x' },
    { projectId: project, agentId: agent, instruction: 'x', recursionDepth: 21 },
  ])
  expect(answers).toMatchObject([
    { code: 'unknown_agent' },
    { status: 'pending' },
    { code: 'recursion_depth_exceeded' },
  ])
  await setLimits(t.db, { turnDeadlineSeconds: 3_600, maxRecursionDepth: 30 })
  expect(await enqueueTurn(t, agent, { recursionDepth: 21 })).toMatchObject({ status: 'queued' })
  await setLimits(t.db, { turnDeadlineSeconds: 3_600, maxRecursionDepth: 20 })
  await t.kernel.putAgents([{ projectId: project, agentId: agent, workerTarget: target, status: 'retired' }])
  await expect(enqueueTurn(t, agent)).rejects.toMatchObject({ code: 'agent_retired' })
})

it('[T3.3b] rejects a tool call id that was used before, twice in one step or by another turn, and the turn continues', async () => {
  await suspendedTurn(t, agent, grepCalls(`${agent}-1`))
  const other = `${agent}-b`
  await t.agents(other)
  const turn = await t.running(other)
  const before = await fingerprint(t.db)
  const suspend = (...ids: string[]) => t.kernel.suspend({ ...turn, stepId: 's', calls: grepCalls(...ids) }, 30)
  await expect(suspend(`${agent}-1`, 'fresh')).rejects.toMatchObject({ code: 'duplicate_tool_call' })
  await expect(suspend('twice', 'twice')).rejects.toMatchObject({ code: 'invalid_tool_calls' })
  await expect(suspend()).rejects.toMatchObject({ code: 'invalid_tool_calls' })
  await expect(suspend('a\0')).rejects.toMatchObject({ code: 'invalid_text' })
  expect(await fingerprint(t.db)).toEqual(before)
  expect(await deliverTurn(t, turn)).toEqual({ what: 'ended' })
  await works(other)
})

it('[T3.4a] rejects unstorable text in receipts, stops, steps and deliverables before it reaches the database', async () => {
  const turn = await suspendedTurn(t, agent, grepCalls(agent))
  const before = await fingerprint(t.db)
  await expect(reportSuccess(t, agent, 'a\0')).rejects.toMatchObject({ code: 'invalid_text' })
  await expect(reportSuccess(t, agent, 'x'.repeat(1_100_000))).rejects.toMatchObject({ code: 'content_too_large' })
  await expect(reportSuccess(t, agent, deep(80))).rejects.toMatchObject({ code: 'content_too_deep' })
  await expect(t.kernel.report([{ projectId: 'a\0', toolCallId: agent, status: 'success' }])).rejects.toMatchObject({
    code: 'invalid_name',
  })
  await expect(t.kernel.stop({ projectId: 'a\0', agentTurnId: turn.agentTurnId })).rejects.toMatchObject({
    code: 'invalid_name',
  })
  await expect(t.kernel.stop({ projectId: project, agentTurnId: 'a\0' })).rejects.toMatchObject({
    code: 'invalid_text',
  })
  await expect(t.kernel.record({ ...turn, step: { stepId: 's', phase: 'a\0', status: 'x' } })).rejects.toMatchObject({
    code: 'invalid_text',
  })
  await expect(
    t.kernel.deliver({ ...turn, status: 'failed', error: 'a\0', content: { text: 'x' } }),
  ).rejects.toMatchObject({ code: 'invalid_text' })
  expect(await fingerprint(t.db)).toEqual(before)
  await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
  await works()
})

it.each([
  ['a deliverable with a NUL', { deliver: { text: 'a\0b' } }, 'invalid_text'],
  ['a deliverable too large', { deliver: { text: 'x'.repeat(1_100_000) } }, 'content_too_large'],
  ['a deliverable that is not JSON', { deliver: { fields: [{ name: 'n', value: 10n }] } }, 'not_json'],
  ['an error with a NUL', { deliver: { text: 'x' }, status: 'failed', error: 'a\0' }, 'invalid_text'],
  ['a suspension on nothing', { suspend: { calls: [] } }, 'invalid_tool_calls'],
  [
    'a tool with an invalid name',
    { suspend: { calls: [{ toolCallId: 'x', toolName: 'a b', args: {} }] } },
    'invalid_name',
  ],
] as const)('[T4.1] an agent that answers %s fails its turn at once, with that name', async (_title, action, error) => {
  const worker = testWorker(t, () => async () => action as TurnAction)
  const { agentTurnId } = await enqueueTurn(t, agent)
  await runTurns(worker)
  expect(await eventsOf(t, agentTurnId, 'task')).toMatchObject([{ payload: { status: 'failed', error } }])
  await works()
})

it('[T3.2b] hand-written rows of any shape block no agent: they are refused, skipped with a reason, or ignored', async () => {
  const [noTurn, noEpoch, stranger, noChannel] = [t.ids.next(), t.ids.next(), t.ids.next(), t.ids.next()]
  const running = await t.running(agent)
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, channel_id, message_type, status, correlation_id, agent_turn_id, turn_epoch)
     values ($1, $5, $6, 'public', 'tool_result', 'pending', 'x', null, 1), ($2, $5, $6, 'public', 'timeout', 'pending', 'x', 'y', null),
       ($3, $5, 'ghost', 'public', 'turn', 'pending', null, $3, 1), ($4, $5, $6, null, 'stop', 'pending', null, null, 1)`,
    noTurn,
    noEpoch,
    stranger,
    noChannel,
    project,
    agent,
  )
  expect(await t.claim()).toEqual([])
  expect(await inboxRow(t, noTurn)).toMatchObject({ status: 'error', error: 'protocol_error: no agent_turn_id' })
  expect(await inboxRow(t, noEpoch)).toMatchObject({ status: 'error', error: 'protocol_error: no turn_epoch' })
  expect(await inboxRow(t, noChannel)).toMatchObject({ status: 'error' })
  await t.advance(61)
  await wakePending(t.db, 5, 60)
  expect(await inboxRow(t, stranger)).toMatchObject({ status: 'skipped', watchdog_error: 'unknown_agent' })
  expect(await deliverTurn(t, running)).toEqual({ what: 'ended' })
  await works()
})

it('[T3.2b] a queued row without a turn id is never leased, is refused by the sweep, and blocks no row behind it', async () => {
  const forged = t.ids.next()
  await t.all(
    "insert into state.agent_inbox (inbox_id, project_id, agent_id, channel_id, message_type, status) values ($1, $2, $3, 'public', 'turn', 'queued')",
    forged,
    project,
    agent,
  )
  await works()
  await t.advance(10)
  await t.all('select * from state.sweep_queued(5, 100)')
  expect(await headOf(t, agent)).toMatchObject({ status: 'idle' })
  expect(await inboxRow(t, forged)).toMatchObject({ status: 'error', error: 'protocol_error: no agent_turn_id' })
})

it('[T3.2b] a turn whose row lost its channel still runs, in the channel of its lease', async () => {
  const { agentTurnId, inboxId } = await enqueueTurn(t, agent)
  await t.all('update state.agent_inbox set channel_id = null where inbox_id = $1', inboxId)
  const [turn] = (await t.claim()).filter((one) => one.agentId === agent)
  expect(await deliverTurn(t, turn!)).toEqual({ what: 'ended' })
  expect(await turnRow(t, agentTurnId)).toMatchObject({ outcome: 'success' })
})
