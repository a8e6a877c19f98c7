/** Fork-join (hazard 17): a batch is created with the wait that it answers and ends with one answer, whichever process dies. */
import { expect, it } from 'vitest'
import { dispatchTasks } from '../../../src/kernel/verbs/batches/dispatch_tasks.js'
import { prune } from '../../../src/kernel/verbs/watchdog/watchdog.js'
import { openJoiner } from '../../../src/pmo/batches.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'
import { batchOf, deliverAll, forkFrom, forkResult, join, receiptsOf, reuse } from '../../support/forks.js'
import { headOf } from '../../support/kernel-rows.js'

const t = kernelPerFile()

it('[T3.1d] a parent suspends on a fork, its children run, and it gets one answer in the order of its tasks', async () => {
  await t.agents('a-boss', 'a1', 'a2', 'a3')
  const parent = await t.running('a-boss')
  const batchId = await forkFrom(
    t,
    parent,
    'a-call',
    ['a1', 'a2', 'a3'].map((name) => reuse(name)),
  )
  expect(await headOf(t, 'a-boss')).toMatchObject({ status: 'suspended', waiting_tool_count: 1 })
  const children = await t.claim()
  expect(children.map((turn) => `${turn.agentId} ${turn.recursionDepth}`).toSorted()).toEqual(['a1 1', 'a2 1', 'a3 1'])
  await deliverAll(t, children.toReversed().slice(0, 2))
  await join(t)
  expect(await batchOf(t, batchId)).toMatchObject({ status: 'open', open_count: 1, done_count: 2 })
  expect(await receiptsOf(t, 'a-call')).toEqual([])
  await deliverAll(t, children.slice(0, 1))
  await join(t, 3)
  expect(await batchOf(t, batchId)).toMatchObject({ status: 'done', open_count: 0, done_count: 3, failed_count: 0 })
  expect((await batchOf(t, batchId)).settled_at).not.toBeNull()
  expect(await receiptsOf(t, 'a-call')).toHaveLength(1)

  const { status, result } = await forkResult(t, parent.agentTurnId)
  expect(status).toBe('success')
  expect(result.tasks.map((task) => [task.position, task.status, task.agent_id, task.content])).toEqual([
    [0, 'success', 'a1', { text: 'a1 is done' }],
    [1, 'success', 'a2', { text: 'a2 is done' }],
    [2, 'success', 'a3', { text: 'a3 is done' }],
  ])
  const edges = await t.all(
    "select edge_phase, source_agent_turn_id, target_agent_turn_id from state.execution_edges where primitive = 'join' and correlation_id = 'a-call' order by edge_phase",
  )
  expect(edges).toEqual([
    { edge_phase: 'request', source_agent_turn_id: parent.agentTurnId, target_agent_turn_id: null },
    { edge_phase: 'response', source_agent_turn_id: null, target_agent_turn_id: parent.agentTurnId },
  ])
  await t.kernel.deliver({ ...parent, status: 'success', content: { text: 'all done' } })
})

it('new agents come from a profile, clones copy the memory of their source, and both retire with their batch', async () => {
  await t.agents('b-boss', 'b-model')
  await t.kernel.putProfile({ projectId: project, profileId: 'b-coder', name: 'coder', workerTarget: target })
  const before = await t.running('b-model')
  await t.kernel.record({ ...before, cards: [{ type: 'agent.thought', content: { text: 'I remember' } }] })
  await t.kernel.deliver({ ...before, status: 'success', content: { text: 'known' } })
  const reading = await t.kernel.makeBox({
    projectId: project,
    cards: [{ type: 'task.instruction', content: { text: 'read this first' } }],
  })
  const parent = await t.running('b-boss')
  const batchId = await forkFrom(t, parent, 'b-call', [
    { targetStrategy: 'new', targetRef: 'b-coder', instruction: 'write', contextBoxId: reading },
    { targetStrategy: 'clone', targetRef: 'b-model', contextBoxId: reading },
  ])
  const [fresh, clone] = (await t.claim()).toSorted((one, other) => (one.agentId < other.agentId ? -1 : 1))
  expect(fresh).toMatchObject({
    profileId: 'b-coder',
    payload: { batch_id: batchId, position: 0, target_ref: 'b-coder' },
  })
  const cards = await t.kernel.readBoxes([fresh!.contextBoxId])
  expect(cards.map((card) => card.content)).toEqual([{ text: 'read this first' }, { text: 'write' }])
  expect(clone!.agentId).toMatch(/^b-model-/)
  expect(clone!.contextBoxId).toBe(reading)
  const memory = await t.kernel.readBoxes([clone!.outputBoxId])
  expect(memory.map((card) => card.content)).toEqual([{ text: 'I remember' }, { text: 'known' }])
  await deliverAll(t, [fresh!, clone!])
  // The box of the cloned agent does not contain the clone's cards.
  expect(await t.kernel.readBoxes([before.outputBoxId])).toHaveLength(2)
  await join(t, 3)
  expect(await forkResult(t, parent.agentTurnId)).toMatchObject({ status: 'success' })
  const roster = await t.all<{ status: string }>(
    "select status from resource.project_agents where metadata ->> 'batch_id' = $1",
    batchId,
  )
  expect(roster).toEqual([{ status: 'retired' }, { status: 'retired' }])
})

it('rejects a child that would wait for its own ancestor, and one that is too deep', async () => {
  await t.agents('h-boss', 'h1', 'h2')
  const parent = await t.running('h-boss')
  await forkFrom(t, parent, 'h-call', [reuse('h1')])
  const [child] = await t.claim()
  const inner = await forkFrom(t, child!, 'h-inner', [reuse('h-boss'), reuse('h1'), reuse('h2')])
  expect((await batchOf(t, inner)).tasks.map((task) => [task.error, task.outcome])).toEqual([
    ['reuse_of_ancestor', 'failed'],
    ['reuse_of_ancestor', 'failed'],
    [null, null],
  ])
  await t.all('update state.limits set max_recursion_depth = 2')
  const [grandchild] = await t.claim()
  const deepest = await forkFrom(t, grandchild!, 'h-deepest', [
    reuse('a1'),
    { ...reuse('a2'), targetStrategy: 'clone' },
  ])
  await t.all('update state.limits set max_recursion_depth = 20')
  const { tasks } = await batchOf(t, deepest)
  expect(tasks[0]).toMatchObject({ status: 'failed', error: 'recursion_depth_exceeded' })
  expect(tasks[1]).toMatchObject({ status: 'failed', error: 'recursion_depth_exceeded' })
  await join(t, 2)
  expect(await forkResult(t, grandchild!.agentTurnId)).toMatchObject({
    status: 'failed',
    error: { code: 'batch_failed' },
  })
  await t.kernel.stop({ projectId: project, agentTurnId: parent.agentTurnId })
  await join(t, 5)
})

it('retries a task with a missing target after growing pauses, and fails it in the end', async () => {
  await t.agents('i-boss')
  const parent = await t.running('i-boss')
  const batchId = await forkFrom(t, parent, 'i-call', [reuse('i-late'), reuse('i-never')])
  expect((await batchOf(t, batchId)).tasks).toMatchObject([
    { status: 'waiting', tries: 1, error: 'unknown_agent' },
    { status: 'waiting', tries: 1, error: 'unknown_agent' },
  ])
  await join(t)
  expect((await batchOf(t, batchId)).tasks[0]).toMatchObject({ tries: 1 })
  await t.agents('i-late')
  for (const pause of [1, 2, 4, 8]) {
    await t.advance(pause)
    await join(t)
  }
  expect((await batchOf(t, batchId)).tasks).toMatchObject([
    { status: 'dispatched', tries: 2, error: null },
    { status: 'failed', tries: 5, error: 'unknown_agent' },
  ])
  await deliverAll(
    t,
    (await t.claim()).filter((turn) => turn.agentId === 'i-late'),
  )
  await join(t, 2)
  expect(await forkResult(t, parent.agentTurnId)).toMatchObject({ status: 'partial' })
})

it('a missing box fails its task and no other', async () => {
  await t.agents('j-boss', 'j1', 'j2', 'j3')
  const parent = await t.running('j-boss')
  const batchId = await forkFrom(t, parent, 'j-call', [
    reuse('j1'),
    { targetStrategy: 'reuse', targetRef: 'j2', contextBoxId: 'nowhere' },
    reuse('j3', { contextBoxId: 'nowhere' }),
  ])
  expect((await batchOf(t, batchId)).tasks).toMatchObject([
    { status: 'dispatched' },
    { status: 'failed', error: 'unknown_box' },
    { status: 'failed', error: 'unknown_box' },
  ])
})

it('[T1.2] a suspend with a lost fence forks nothing, and a repeated suspend forks nothing more', async () => {
  await t.agents('k-boss', 'k1')
  const parent = await t.running('k-boss')
  const calls = [{ toolCallId: 'k-call', toolName: 'fork_join', args: {}, batch: { tasks: [reuse('k1')] } }]
  const stale = { ...parent, turnEpoch: parent.turnEpoch - 1, stepId: 'k', calls }
  expect(await t.kernel.suspend(stale, 30)).toBe('stale')
  expect(await t.all("select from state.batches where tool_call_id = 'k-call'")).toEqual([])
  expect(await t.kernel.suspend({ ...parent, stepId: 'k', calls }, 30)).toBe('suspended')
  expect(await t.kernel.suspend({ ...parent, stepId: 'k', calls }, 30)).toBe('already')
  expect(await t.all("select from state.agent_inbox where agent_id = 'k1'")).toHaveLength(1)
})

it('hazard 17: the PMO enqueues the children of a process that died after the fork', async () => {
  await t.agents('l-boss', 'l1', 'l2')
  const parent = await t.running('l-boss')
  const batchId = await forkFrom(t, parent, 'l-call', [reuse('l1')])
  // As if the process had died right after its commit.
  await t.kernel.stop({ projectId: project, agentTurnId: (await batchOf(t, batchId)).tasks[0]!.agent_turn_id })
  await t.all(
    "update state.batch_tasks set status = 'waiting', inbox_id = 'l-in', agent_turn_id = 'l-turn', target_ref = 'l2', next_try_at = state.now() where batch_id = $1",
    batchId,
  )
  await join(t)
  expect(await t.claim()).toMatchObject([{ agentId: 'l2', agentTurnId: 'l-turn' }])
})

it('a batch from outside is forked once per key and can be read until it is done', async () => {
  await t.agents('m1', 'm2')
  const outside = { projectId: project, key: 'nightly', tasks: [reuse('m1'), reuse('m2')] }
  const { batchId, what } = await t.kernel.fork(outside)
  expect([what, await t.kernel.fork(outside)]).toEqual(['forked', { batchId, what: 'already' }])
  const turns = (await t.claim()).filter((turn) => turn.agentId.startsWith('m'))
  expect(turns).toHaveLength(2)
  await deliverAll(t, turns)
  await join(t, 2)
  expect(await batchOf(t, batchId)).toMatchObject({
    status: 'done',
    tasks: [
      { outcome: 'success', content: { text: 'm1 is done' } },
      { outcome: 'success', content: { text: 'm2 is done' } },
    ],
  })
  expect((await batchOf(t, batchId)).settled_at).not.toBeNull()
  expect(await t.kernel.readBatch('another', batchId)).toBeUndefined()
})

it('two PMOs and the forking process together enqueue each task once and answer once', async () => {
  const names = Array.from({ length: 40 }, (_, at) => `n${at}`)
  await t.agents('n-boss', ...names)
  const parent = await t.running('n-boss')
  const batchId = await forkFrom(
    t,
    parent,
    'n-call',
    names.map((name) => reuse(name)),
  )
  const all = names.map((_, at) => at)
  await t.all('update state.batch_tasks set next_try_at = state.now() where batch_id = $1', batchId)
  const joiners = [openJoiner({ kernel: t.kernel }), openJoiner({ kernel: t.kernel })]
  await Promise.all([
    ...joiners.map((one) => one.step()),
    dispatchTasks(t.db, batchId, all),
    dispatchTasks(t.db, batchId, all),
  ])
  const children = (await t.claim()).filter((turn) => turn.payload['batch_id'] === batchId)
  expect(children).toHaveLength(40)
  await Promise.all([deliverAll(t, children), ...joiners.map((one) => one.step())])
  for (let look = 0; look < 4; look += 1) {
    await t.all('update state.batches set next_look_at = state.now() where settled_at is null')
    await Promise.all(joiners.map((one) => one.step()))
  }
  expect(await receiptsOf(t, 'n-call')).toHaveLength(1)
  expect(await forkResult(t, parent.agentTurnId)).toMatchObject({ status: 'success' })
})

it('rejects invalid batches', async () => {
  const fork = (tasks: object[], more: object = {}) =>
    t.kernel.fork({ projectId: project, tasks: tasks as ReturnType<typeof reuse>[], ...more })
  await expect(fork([])).rejects.toMatchObject({ code: 'invalid_batch' })
  await expect(fork([{ ...reuse('a1'), targetStrategy: 'borrow' }])).rejects.toMatchObject({
    code: 'invalid_target_strategy',
  })
  await expect(fork([{ targetStrategy: 'reuse', targetRef: 'a1' }])).rejects.toMatchObject({ code: 'no_instruction' })
  await expect(fork([reuse('a1')], { deadlineSeconds: 0 })).rejects.toMatchObject({ code: 'invalid_deadline' })
  await expect(fork([reuse('a1')], { purseId: 'nowhere' })).rejects.toMatchObject({ code: 'unknown_card' })
  expect(
    await t.all(
      'select from state.batches where parent_agent_turn_id is null and batch_id not in (select batch_id from state.batch_tasks)',
    ),
  ).toEqual([])
})

it('retention removes settled batches with the agents that were created for them, and keeps open ones', async () => {
  await t.agents('q-boss', 'q1')
  await t.kernel.putProfile({ projectId: project, profileId: 'q-coder', name: 'coder', workerTarget: target })
  const { batchId } = await t.kernel.fork({
    projectId: project,
    tasks: [{ targetStrategy: 'new', targetRef: 'q-coder', instruction: 'x', budget: { tokens: 5 } }, reuse('q1')],
  })
  await deliverAll(
    t,
    (await t.claim()).filter((turn) => turn.payload['batch_id'] === batchId),
  )
  await join(t, 2)
  const month = { projectId: project, tasks: [reuse('q1')], deadlineSeconds: 2_000_000 }
  const { batchId: open } = await t.kernel.fork(month)
  await t.advance(10 * 86_400)
  while ((await prune(t.db, 5)) > 0);
  expect(await t.kernel.readBatch(project, batchId)).toBeUndefined()
  expect((await batchOf(t, open)).tasks).toHaveLength(1)
  for (const table of ['resource.project_agents', 'state.agent_state_head'])
    expect(await t.all(`select agent_id from ${table} where agent_id like 'q%' order by 1`)).toEqual([
      { agent_id: 'q-boss' },
      { agent_id: 'q1' },
    ])
  expect(
    await t.all("select from state.execution_edges where primitive = 'join' and correlation_id = $1", batchId),
  ).toEqual([])
  expect(
    await t.all(
      'select from state.budgets b join state.batch_tasks k using (budget_id) where k.batch_id = $1',
      batchId,
    ),
  ).toEqual([])
})

it('[T1.2] [T5.1] a child that names its parent, or its parent’s box, writes nothing there', async () => {
  await t.agents('p-boss', 'p1')
  const parent = await t.running('p-boss')
  await forkFrom(t, parent, 'p-call', [reuse('p1')])
  const [child] = (await t.claim()).filter((turn) => turn.agentId === 'p1')
  const { output_box_id: box } = await t.one<{ output_box_id: string }>(
    "select output_box_id from state.agent_state_head where agent_id = 'p-boss'",
  )
  const cardCount = async () => (await t.kernel.readBoxes([box])).length
  const before = await cardCount()
  const cards = [{ type: 'agent.thought', content: { text: 'mine now' } }] as const
  const asParent = { ...child!, agentId: 'p-boss', agentTurnId: parent.agentTurnId, turnEpoch: parent.turnEpoch }
  // The parent is suspended: the kernel accepts no write for it, not even with its own fence.
  expect(await t.kernel.record({ ...asParent, cards })).toBe('stale')
  expect(await t.kernel.record({ ...child!, agentId: 'p-boss', cards })).toBe('stale')
  const asked = { ...child!, outputBoxId: box, cards }
  expect(await t.kernel.record(asked)).toEqual({ left: null })
  expect(await cardCount()).toBe(before)
  expect((await t.kernel.readBoxes([child!.outputBoxId])).at(-1)?.content).toEqual({ text: 'mine now' })
  const fence = { agentTurnId: child!.agentTurnId, turnEpoch: child!.turnEpoch }
  const forged = { projectId: project, toolCallId: 'p-call', status: 'success', result: 'forged', fence } as const
  expect(await t.kernel.report([forged])).toEqual(['ignored'])
  await deliverAll(t, [child!])
  await join(t, 3)
  expect((await forkResult(t, parent.agentTurnId)).result.tasks.map((task) => task.content)).toEqual([
    { text: 'p1 is done' },
  ])
})
