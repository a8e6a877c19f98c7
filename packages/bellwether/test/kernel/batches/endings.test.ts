/** How batches end early: a failed task, fail_fast, the deadline, a parent that is stopped or reaped. */
import { expect, it } from 'vitest'
import { kernelPerFile, project } from '../../support/kernel.js'
import { batchOf, deliverAll, forkFrom, forkResult, join, receiptsOf, reuse } from '../../support/forks.js'
import { headOf, turnRow } from '../../support/kernel-rows.js'
import { guardOn, pass } from '../../support/watchdog.js'

const t = kernelPerFile()

it('a failed task does not affect the others, and the answer names it', async () => {
  await t.agents('c-boss', 'c1', 'c2')
  const parent = await t.running('c-boss')
  await forkFrom(t, parent, 'c-call', [reuse('c1'), reuse('c2')])
  const [first, second] = await t.claim()
  await t.kernel.deliver({ ...first!, status: 'failed', error: 'broke', content: { text: 'oh' } })
  await join(t)
  await deliverAll(t, [second!])
  await join(t, 2)
  const { status, result } = await forkResult(t, parent.agentTurnId)
  expect(status).toBe('partial')
  expect(result.tasks.map((task) => [task.status, task.error])).toEqual([
    ['failed', 'broke'],
    ['success', undefined],
  ])
})

it('fail_fast ends the other tasks at the first failure: running ones are stopped, queued ones never start', async () => {
  await t.agents('d-boss', 'd1', 'd2')
  const parent = await t.running('d-boss')
  const batchId = await forkFrom(t, parent, 'd-call', {
    tasks: [reuse('d1'), reuse('d2'), reuse('d2')],
    failFast: true,
  })
  const children = await t.claim()
  expect(children).toHaveLength(2)
  const [first, second] = children.toSorted((one, other) => (one.agentId < other.agentId ? -1 : 1))
  await t.kernel.deliver({ ...first!, status: 'failed', error: 'broke', content: { text: 'oh' } })
  await join(t, 3)
  expect(await batchOf(t, batchId)).toMatchObject({ status: 'failed', failed_count: 1 })
  expect((await batchOf(t, batchId)).tasks.map((task) => task.status)).toEqual(['failed', 'canceled', 'canceled'])
  expect((await t.kernel.deliver({ ...second!, status: 'success', content: { text: 'late' } })).what).toBe('stale')
  expect(await headOf(t, 'd2')).toMatchObject({ status: 'idle' })
  const { status, error, result } = await forkResult(t, parent.agentTurnId)
  expect([status, error?.code]).toEqual(['failed', 'batch_failed'])
  expect(result.tasks.map((task) => [task.status, task.error])).toEqual([
    ['failed', 'broke'],
    ['canceled', 'fail_fast'],
    ['canceled', 'fail_fast'],
  ])
})

it('[W2.2e] the wait has the deadline of its batch: after it the parent gets the results so far, and the other tasks are stopped', async () => {
  await t.agents('e-boss', 'e1', 'e2')
  const parent = await t.running('e-boss')
  const batchId = await forkFrom(t, parent, 'e-call', { tasks: [reuse('e1'), reuse('e2')], deadlineSeconds: 100 })
  const { resume_deadline: wait } = await headOf(t, 'e-boss')
  const { deadline } = await batchOf(t, batchId)
  expect(wait!.getTime() - deadline!.getTime()).toBeGreaterThan(10_000)
  const [first] = await t.claim()
  await deliverAll(t, [first!])
  await t.advance(101)
  await join(t, 3)
  expect(await batchOf(t, batchId)).toMatchObject({ status: 'timeout', done_count: 1 })
  const { status, result } = await forkResult(t, parent.agentTurnId)
  expect(status).toBe('partial')
  expect(result.tasks.map((task) => `${task.status} ${task.error}`).toSorted()).toEqual([
    'canceled batch_deadline',
    'success undefined',
  ])
  for (const name of ['e1', 'e2']) expect(await headOf(t, name)).toMatchObject({ status: 'idle' })
})

it('stopping a parent cancels its batches in the same transaction, and its children and grandchildren are stopped', async () => {
  await t.agents('f-boss', 'f1', 'f2')
  const parent = await t.running('f-boss')
  const batchId = await forkFrom(t, parent, 'f-call', [reuse('f1')])
  const [child] = await t.claim()
  const inner = await forkFrom(t, child!, 'f-inner', [reuse('f2')])
  const [grandchild] = await t.claim()
  await t.kernel.stop({ projectId: project, agentTurnId: parent.agentTurnId })
  expect(await batchOf(t, batchId)).toMatchObject({ status: 'canceled' })
  await join(t)
  expect(await batchOf(t, inner)).toMatchObject({ status: 'canceled' })
  await join(t, 3)
  for (const turn of [child!, grandchild!])
    expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ outcome: 'canceled' })
  for (const id of [batchId, inner]) expect((await batchOf(t, id)).settled_at).not.toBeNull()
  expect(await receiptsOf(t, 'f-call')).toEqual([])
})

it('reaping a parent cancels its batch', async () => {
  await t.agents('g-boss', 'g1')
  const parent = await t.running('g-boss')
  const batchId = await forkFrom(t, parent, 'g-call', { tasks: [reuse('g1')], deadlineSeconds: 100_000 })
  await t.all(
    "update state.agent_state_head set turn_deadline = state.now() - interval '1 hour' where agent_id = 'g-boss'",
  )
  const guard = guardOn(t, { activeReapSeconds: 10 })
  await pass(t, 20, guard)
  expect(await turnRow(t, parent.agentTurnId)).toMatchObject({ outcome: 'timeout', error: 'turn_deadline' })
  expect(await batchOf(t, batchId)).toMatchObject({ status: 'canceled' })
})
