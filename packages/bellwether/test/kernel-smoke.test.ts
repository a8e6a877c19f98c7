import { expect, it } from 'vitest'
import { kernelPerFile, project } from './support/kernel.js'

const t = kernelPerFile()

it('runs a turn with a tool from enqueue to deliverable', async () => {
  await t.agents('ann')
  const turn = await t.running('ann')
  expect(
    await t.kernel.suspend(
      {
        ...turn,
        stepId: 's1',
        calls: [
          { toolCallId: 'c1', toolName: 'grep', args: { q: 1 } },
          { toolCallId: 'c2', toolName: 'grep', args: {} },
        ],
      },
      30,
    ),
  ).toBe('suspended')
  expect(
    await t.kernel.report([{ projectId: project, toolCallId: 'c1', status: 'success', result: { a: 1 } }]),
  ).toEqual(['reported'])
  expect(
    await t.kernel.report([{ projectId: project, toolCallId: 'c1', status: 'success', result: { a: 2 } }]),
  ).toEqual(['ignored'])
  expect(await t.claim()).toEqual([])
  expect(
    await t.kernel.report([{ projectId: project, toolCallId: 'c2', status: 'failed', error: { code: 'x' } }]),
  ).toEqual(['reported'])
  const [again] = await t.claim()
  expect(again).toMatchObject({ kind: 'resume', agentTurnId: turn.agentTurnId })
  expect((await t.kernel.readResults(turn.agentTurnId)).map((r) => r.status)).toEqual(['success', 'failed'])
  expect(await t.kernel.resume(turn, 'worker-1')).toBe('resumed')
  expect(
    await t.kernel.record({
      ...turn,
      cards: [{ type: 'agent.thought', content: { text: 'hm' } }],
      step: { stepId: 's2', phase: 'think', status: 'done' },
    }),
  ).toEqual({ left: null })
  expect(await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'done' } })).toEqual({ what: 'ended' })
  expect(await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'done' } })).toEqual({ what: 'already' })
  const events = await t.all<{ what: string }>(
    "select concat_ws(' ', kind, payload ->> 'status') as what from state.events order by event_id",
  )
  expect(events.map((event) => event.what)).toEqual([
    'state dispatched',
    'state running',
    'command',
    'command',
    'state suspended',
    'state running',
    'step done',
    'task success',
    'state idle',
  ])
})

it('stops an active turn, cancels a queued one and refuses an incomplete delivery', async () => {
  await t.agents('bob')
  const turn = await t.running('bob')
  const queued = await t.kernel.enqueue({ projectId: project, agentId: 'bob', instruction: 'later' })
  expect(queued.status).toBe('queued')
  expect(await t.kernel.stop({ projectId: project, agentTurnId: queued.agentTurnId })).toBe('ended')
  expect(await t.kernel.stop({ projectId: project, agentTurnId: queued.agentTurnId })).toBe('already')
  expect(await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId, reason: 'no' })).toBe('ended')
  expect(await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'late' } })).toEqual({ what: 'stale' })
  expect(
    await t.all(
      'select agent_turn_id, status, outcome from state.turns where agent_id = $1 order by created_at',
      'bob',
    ),
  ).toMatchObject([{ outcome: 'canceled' }, { outcome: 'canceled' }])
})
