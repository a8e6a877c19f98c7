/** The spans of a turn on a real database: every kind, with the start and end that the rows have. */
import { expect, it } from 'vitest'
import { readApprovals } from '../../../src/kernel/reads/approvals.js'
import { readSpans } from '../../../src/kernel/reads/spans.js'
import { kernelPerTest, project } from '../../support/kernel.js'
import { enqueueTurn, reportSuccess, suspendedTurn } from '../../support/kernel-turns.js'

const t = kernelPerTest()

/** Each span as kind, name, and seconds from the first one: start and end. */
async function spansOf(agentTurnId: string) {
  const { spans, truncated } = await readSpans(t.db, agentTurnId)
  expect(truncated).toBe(false)
  const first = spans[0]!.started_at.getTime()
  const second = (at: Date | null) => (at === null ? null : Math.round((at.getTime() - first) / 1_000))
  return spans.map((span) => [span.kind, span.name, second(span.started_at), second(span.ended_at)] as const)
}

it('has the queue, the lease, the run, its steps, the wait for a worker before it resumes, and tool calls until their results', async () => {
  await t.agents('a')
  await t.kernel.enqueue({ projectId: project, agentId: 'a', instruction: 'x' })
  await t.advance(5)
  const [turn] = await t.claim()
  const step = { stepId: 's-1', phase: 'model' }
  await t.kernel.record({ ...turn!, step: { ...step, status: 'running', metadata: { model: 'm' } } })
  await t.advance(3)
  const metadata = { model: 'm', usage: { total_tokens: 70 }, cost_micros: 9, first_token_ms: 800, tries: 2 }
  await t.kernel.record({ ...turn!, step: { ...step, status: 'success', metadata } })
  const calls = [{ toolCallId: 'c-1', toolName: 'grep', args: {} }]
  await t.kernel.suspend({ ...turn!, stepId: 's-1', calls }, 60)
  await t.advance(4)
  await reportSuccess(t, 'c-1')
  await t.advance(1)
  const [again] = await t.claim()
  await t.kernel.resume(again!, 'worker-1')
  await t.advance(2)
  await t.kernel.deliver({ ...again!, status: 'success', content: { text: 'ok' } })
  expect(await spansOf(turn!.agentTurnId)).toEqual([
    ['queue', '', 0, 0],
    ['lease', '', 0, 5],
    ['run', 'a', 5, 15],
    ['step', 'model', 5, 8],
    ['tool', 'grep', 8, 12],
    ['lease', 'resume', 12, 13],
  ])
  const { spans } = await readSpans(t.db, turn!.agentTurnId)
  expect(spans[3]).toMatchObject({
    model: 'm',
    tokens: 70,
    cost_micros: 9,
    first_token_ms: 800,
    tries: 2,
    status: 'success',
  })
  expect(spans[4]).toMatchObject({
    parent_span_id: 'run',
    call_card_id: expect.any(String),
    result_card_id: expect.any(String),
  })
})

it('has the lease of a turn that was queued behind another one, and one lease per takeover', async () => {
  await t.agents('a')
  const first = await t.running('a')
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'a', instruction: 'x' })
  await t.advance(3)
  expect(await spansOf(agentTurnId)).toEqual([['queue', '', 0, null]])
  await t.kernel.deliver({ ...first, status: 'success', content: { text: 'ok' } })
  await t.advance(2)
  const seconds = [3, 4]
  let [turn] = await t.claim(1, 'worker-0')
  for (const [at, wait] of seconds.entries()) {
    await t.advance(10)
    await t.kernel.handBack([turn!], `worker-${at}`)
    await t.advance(wait)
    ;[turn] = await t.claim(1, `worker-${at + 1}`)
    expect(turn).toMatchObject({ agentTurnId, takenOver: true })
  }
  await t.advance(1)
  await t.kernel.handBack([turn!], 'worker-2')
  expect(await spansOf(agentTurnId)).toEqual([
    ['queue', '', 0, 3],
    ['lease', '', 3, 5],
    ['run', 'a', 5, null],
    ['lease', 'takeover', 15, 18],
    ['lease', 'takeover', 28, 32],
    ['lease', 'takeover', 33, null],
  ])
  // A turn of an earlier version: when it was leased is not known.
  await t.all('update state.agent_inbox set leased_at = null')
  expect((await spansOf(agentTurnId))[0]).toEqual(['queue', '', 0, 5])
})

it('has the lease of each turn of a claim that takes over several', async () => {
  await t.agents('a', 'b')
  await enqueueTurn(t, 'a')
  await enqueueTurn(t, 'b')
  const turns = await t.claim()
  await t.advance(10)
  await t.kernel.handBack(turns, 'worker-1')
  await t.advance(2)
  expect(await t.claim(2, 'worker-2')).toHaveLength(2)
  for (const { agentTurnId } of turns) expect(await spansOf(agentTurnId)).toContainEqual(['lease', 'takeover', 10, 12])
})

it('has questions and approvals as waits for people, and leaves open what has not ended', async () => {
  await t.agents('b')
  await t.kernel.putTool({ projectId: project, toolName: 'deploy', options: { approve: 'ask' } })
  const turn = await suspendedTurn(t, 'b', [
    { toolCallId: 'q', toolName: 'ask_person', args: { question: 'ok?' } },
    { toolCallId: 'd', toolName: 'deploy', args: {} },
  ])
  await t.advance(7)
  const [approval] = await readApprovals(t.db, { projectId: project, show: 'waiting', limit: 1 })
  await t.kernel.decideApproval({ projectId: project, approvalId: approval!.approval_id, by: 'ann', scope: 'once' })
  const spans = await spansOf(turn.agentTurnId)
  expect(spans).toContainEqual(['person', 'ask_person', 0, null])
  expect(spans).toContainEqual(['tool', 'deploy', 0, null])
  expect(spans).toContainEqual(['person', 'approval of deploy', 0, 7])
  expect(spans).toContainEqual(['run', 'b', 0, null])
})

it('has the calls that a program made itself, from the transcript, and the children below the run', async () => {
  await t.agents('c', 'child')
  const turn = await t.running('c')
  const entry = (number: number, kind: 'tool_call' | 'tool_result', callId: string, ageMs: number) => ({
    ...{ kind, content: '{}', callId, name: 'Bash', number, ageMs },
  })
  await t.advance(10)
  const entries = [
    entry(1, 'tool_call', 'x', 9_000),
    entry(2, 'tool_result', 'x', 3_000),
    entry(3, 'tool_call', 'y', 1_000),
  ]
  await t.kernel.appendTranscript([{ ...turn, session: 1, entries }], 65_536)
  await t.kernel.enqueue({
    ...{ projectId: project, agentId: 'child', instruction: 'x' },
    source: { agentId: 'c', agentTurnId: turn.agentTurnId },
  })
  const spans = await spansOf(turn.agentTurnId)
  expect(spans).toContainEqual(['tool', 'Bash', 1, 7])
  expect(spans).toContainEqual(['tool', 'Bash', 9, null])
  expect(spans).toContainEqual(['child', 'child', 10, null])
})
