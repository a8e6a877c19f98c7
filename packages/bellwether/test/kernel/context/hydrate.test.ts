import { expect, it } from 'vitest'
import { beginning, readEvents } from '../../../src/kernel/verbs/events.js'
import { openKernel } from '../../../src/kernel/kernel.js'
import { reclaim } from '../../../src/kernel/verbs/watchdog/watchdog.js'
import type { Database, Statement } from '../../../src/ports/database/database.js'
import type { AgentFunction } from '../../../src/worker/agent.js'
import { hydrate } from '../../../src/worker/hydrate.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'
import { eventsOf, fingerprint, headOf } from '../../support/kernel-rows.js'
import {
  deliverTurn,
  enqueueTurn,
  fullWatchWindow,
  grepCalls,
  reportSuccess,
  suspendedTurn,
} from '../../support/kernel-turns.js'
import { until } from '../../support/until.js'
import { runTurns, testWorker } from '../../support/worker.js'
import { silentBell } from '../../support/silent-bell.js'

const t = kernelPerFile()

/** A database that records the names of its statements and the rows they returned. */
function spy(): { db: Database; statements: string[]; rows: object[]; last: () => Statement | undefined } {
  const statements: string[] = []
  const rows: object[] = []
  let last: Statement | undefined
  const db: Database = {
    ...t.db,
    async query<Row extends object>(statement: Statement) {
      last = statement
      statements.push(statement.name ?? statement.text)
      const found = await t.db.query<Row>(statement)
      rows.push(...found)
      return found
    },
  }
  return { db, statements, rows, last: () => last }
}

interface Plan {
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly Plans?: readonly Plan[]
}

/** How many rows of a table a plan read. */
const rowsRead = (plan: Plan, table: string): number =>
  (plan['Relation Name'] === table ? plan['Actual Rows'] * plan['Actual Loops'] : 0) +
  (plan.Plans ?? []).reduce((sum, inner) => sum + rowsRead(inner, table), 0)

/** An agent with a profile, a roster entry and a tool, and one of the same name in another project. */
async function onRoster(agentId: string) {
  const worker = { agentId, workerTarget: target, profileId: 'writer' }
  for (const projectId of ['other', project]) {
    const profile = { projectId, profileId: 'writer', name: `Writer of ${projectId}`, workerTarget: target }
    await t.kernel.putProfile({ ...profile, spec: { tone: 'dry' } })
    await t.kernel.putAgents([{ ...worker, projectId, metadata: { team: projectId } }])
    await t.kernel.putTool({ projectId, toolName: `grep-${projectId}`, description: 'finds' })
  }
  return { ...worker, projectId: project }
}

it('[T6.1] [T6.2] hydration reads the head under its fence with the roster entry, profile and tools of the agent, then the boxes', async () => {
  await onRoster('a')
  const turn = await t.running('a')
  await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text: 'mine' } }] })
  const { db, statements } = spy()
  expect(await hydrate(db, turn)).toEqual({
    agent: {
      agent_id: 'a',
      profile_id: 'writer',
      worker_target: target,
      status: 'active',
      memory: 'none',
      metadata: { team: project },
    },
    profile: { profile_id: 'writer', name: `Writer of ${project}`, spec: { tone: 'dry' } },
    tools: [expect.objectContaining({ tool_name: `grep-${project}`, description: 'finds' })],
    context: [expect.objectContaining({ type: 'task.instruction' })],
    memory: [],
    output: [expect.objectContaining({ content: { text: 'mine' } })],
    truncated: { context: false, memory: false, output: false },
  })
  expect(statements).toEqual(['bw_turn_setup', 'bw_read_box_within', 'bw_read_box_within'])
})

it('[T6.2] a running turn reads its roster entry as it is now: a changed profile, metadata or status', async () => {
  const agent = await onRoster('j')
  const turn = await t.running('j')
  await t.kernel.putProfile({ projectId: project, profileId: 'editor', name: 'Editor', workerTarget: target })
  await t.kernel.putAgents([{ ...agent, profileId: 'editor', status: 'retired', metadata: { team: 'new' } }])
  expect(await hydrate(t.db, turn)).toMatchObject({
    agent: { profile_id: 'editor', status: 'retired', metadata: { team: 'new' } },
    profile: { name: 'Editor' },
  })
  await t.all("delete from resource.project_agents where project_id = $1 and agent_id = 'j'", project)
  expect(await hydrate(t.db, turn)).toMatchObject({ agent: undefined, profile: { name: 'Editor' } })
})

it('[T6.1] [T6.2] a lost fence stops hydration at its first statement: it reads neither roster nor cards', async () => {
  await onRoster('b')
  const turn = await t.running('b')
  const { db, statements, rows } = spy()
  for (const lost of [
    { ...turn, turnEpoch: 9 },
    { ...turn, agentTurnId: 'x' },
  ]) {
    statements.length = 0
    expect(await hydrate(db, lost)).toBe('stale')
    expect([statements, rows]).toEqual([['bw_turn_setup'], []])
  }
})

it('hydration reads the newest cards within its bytes, however long the history is, and marks the rest as truncated', async () => {
  await t.agents('g')
  const turn = await t.running('g')
  const write = (first: number, cards: number) =>
    t.all(
      `with made as (
        insert into cards.cards (card_id, project_id, type, role, content, created_at)
        select 'g-' || n, $1, 'agent.thought', 'assistant', jsonb_build_object('text', n || repeat('x', 60000)), now()
        from generate_series($2::int, $3::int) n returning card_id)
      insert into cards.box_cards (box_id, card_id) select $4, card_id from made order by split_part(card_id, '-', 2)::int`,
      project,
      first,
      first + cards - 1,
      turn.outputBoxId,
    )
  const { db, rows, last } = spy()
  const read = async () => {
    rows.length = 0
    const known = await hydrate(db, turn, 300_000)
    if (known === 'stale') throw new Error('the fence is lost')
    const { text, values } = last()!
    const plan = await t.one<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
      `explain (analyze, format json) ${text}`,
      ...(values ?? []),
    )
    return {
      cards: known.output.map((card) => Number(card.card_id.slice(2))),
      truncated: known.truncated,
      bytes: JSON.stringify(rows).length,
      // The recursion reads each card once, and once more to return it; one card crosses the bound.
      scanned: rowsRead(plan['QUERY PLAN'][0].Plan, 'cards'),
    }
  }
  await write(101, 4)
  const whole = { context: false, memory: false, output: false }
  expect(await read()).toMatchObject({ cards: [101, 102, 103, 104], truncated: whole })
  await write(105, 96)
  const short = await read()
  expect(short).toMatchObject({ cards: [197, 198, 199, 200], truncated: { ...whole, output: true }, scanned: 9 })
  await write(201, 400)
  expect(await read()).toEqual({ ...short, cards: [597, 598, 599, 600] })
  expect(short.bytes).toBeLessThan(300_000)
})

it('hydration always reads the task, also if it is the oldest card of a large context', async () => {
  await t.agents('h')
  const text = 'x'.repeat(60_000)
  const boxId = await t.kernel.makeBox({
    projectId: project,
    cards: [
      { type: 'task.instruction', content: { text: 'the task' } },
      ...Array.from({ length: 10 }, () => ({ type: 'agent.thought' as const, content: { text } })),
    ],
  })
  await t.kernel.enqueue({ projectId: project, agentId: 'h', contextBoxId: boxId })
  const turn = (await t.claim()).find((one) => one.agentId === 'h')!
  const known = await hydrate(t.db, turn, 130_000)
  if (known === 'stale') throw new Error('the fence is lost')
  expect(known.context.map((card) => card.type)).toEqual(['task.instruction', 'agent.thought', 'agent.thought'])
  expect(known.truncated).toEqual({ context: true, memory: false, output: false })
})

it('[T6.1] a turn writes cards before state, and a reader of an event finds its card and state', async () => {
  await t.agents('c')
  const { db, statements } = spy()
  const kernel = openKernel({ db, bell: silentBell, ids: t.ids })
  const act: AgentFunction = async (context) => {
    await context.hydrate()
    await context.record({ cards: [{ type: 'agent.thought', content: { text: 'hm' } }] })
    return { deliver: { text: 'done' } }
  }
  const worker = testWorker(t, () => act, { kernel })
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'c', instruction: 'x' })
  await runTurns(worker)
  expect(statements).toEqual([
    'bw_claim',
    'bw_turn_setup',
    'bw_read_box_within',
    'bw_read_box_within',
    'bw_record',
    'bw_deliver',
  ])
  const task = await until('the task event is shown', async () =>
    (await readEvents(t.db, beginning, 100)).find(
      (event) => event.kind === 'task' && event.agent_turn_id === agentTurnId,
    ),
  )
  expect(await t.kernel.readCard(task.payload.deliverable_card_id as string)).toMatchObject({
    content: { text: 'done' },
  })
  expect(await headOf(t, 'c')).toMatchObject({ status: 'idle' })
})

it('[T2.3] [T2.5] a worker’s turn announces each transition and activity: dispatched, running, thinking, a tool, waits, idle', async () => {
  await t.agents('d')
  const act: AgentFunction = async (turn) => {
    if (turn.results.length > 0) return { deliver: { text: 'done' } }
    await turn.activity('thinking')
    await turn.activity('thinking')
    await turn.activity('executing_tool', 'grep')
    return { suspend: { calls: grepCalls('d-1', 'd-2') } }
  }
  const worker = testWorker(t, () => act)
  const { agentTurnId } = await enqueueTurn(t, 'd')
  await runTurns(worker)
  await worker.beat()
  await reportSuccess(t, 'd-1')
  await runTurns(worker)
  await reportSuccess(t, 'd-2')
  await runTurns(worker)
  const states = await eventsOf(t, agentTurnId, 'state')
  const waiting = { waiting_tool_count: 0 }
  expect(states.map(({ payload }) => [payload.status, payload.metadata])).toEqual([
    ['dispatched', waiting],
    ['running', waiting],
    ['running', { ...waiting, activity: 'thinking' }],
    ['running', { ...waiting, activity: 'executing_tool', current_tool: 'grep' }],
    ['suspended', { activity: 'awaiting_tool_result', current_tool: 'grep', waiting_tool_count: 2 }],
    ['running', { ...waiting, activity: 'thinking' }],
    ['idle', waiting],
  ])
  for (const { subject, payload } of states) {
    expect(subject).toBe(`bw.v1.${project}.public.evt.agent.d.state`)
    expect(payload).toMatchObject({
      agent_id: 'd',
      agent_turn_id: agentTurnId,
      turn_epoch: 1,
      traceparent: expect.any(String),
    })
  }
})

it('[T2.5] every transition of a head is announced in order: a turn that is reclaimed, handed back and stopped, then the next', async () => {
  await t.agents('k')
  const { agentTurnId } = await enqueueTurn(t, 'k', { channelId: 'team' })
  const next = await enqueueTurn(t, 'k')
  await t.claim(99, 'dies')
  await t.advance(31)
  await reclaim(t.db, target, 30, 3, fullWatchWindow)
  const again = (await t.claim(99, 'leaves')).find((one) => one.agentId === 'k')
  await t.kernel.handBack([again!], 'leaves')
  await t.claim(99, 'stays')
  await t.kernel.stop({ projectId: project, agentTurnId })
  const events = await t.all<{ what: string; epoch: number; reclaimed: boolean | null; turn: string; subject: string }>(
    `select payload ->> 'status' as what, (payload ->> 'turn_epoch')::int as epoch, agent_turn_id as turn, subject,
       (payload -> 'metadata' -> 'reclaimed')::boolean as reclaimed
     from state.events where kind = 'state' and payload ->> 'agent_id' = 'k' order by event_id`,
  )
  expect(
    events.map(({ what, epoch, reclaimed, turn }) => [turn === agentTurnId ? 1 : 2, what, epoch, reclaimed]),
  ).toEqual([
    [1, 'dispatched', 1, null],
    [1, 'running', 1, null],
    [1, 'running', 2, true],
    [1, 'running', 2, null],
    [1, 'running', 3, true],
    [1, 'running', 3, null],
    [1, 'idle', 4, null],
    [2, 'dispatched', 5, null],
  ])
  expect(events.filter(({ turn }) => turn === agentTurnId).every(({ subject }) => subject.includes('.team.'))).toBe(
    true,
  )
  await t.kernel.stop({ projectId: project, agentTurnId: next.agentTurnId })
})

it('[T2.3] the activity has no effect on any verb', async () => {
  for (const activity of ['thinking', 'executing_tool', 'awaiting_tool_result', null]) {
    const agent = `e${t.ids.next()}`
    await t.agents(agent)
    const lie = () =>
      t.all(
        "update state.agent_state_head set activity = $1, current_tool = 'lies' where agent_id = $2",
        activity,
        agent,
      )
    const turn = await suspendedTurn(t, agent, grepCalls(agent))
    await lie()
    await reportSuccess(t, agent)
    await t.claim()
    await lie()
    expect(await t.kernel.resume(turn, 'w')).toBe('resumed')
    await lie()
    expect(await deliverTurn(t, turn)).toEqual({ what: 'ended' })
  }
})

it('[T2.3] an activity with a lost fence is rejected and not announced', async () => {
  await t.agents('f')
  const turn = await t.running('f')
  await deliverTurn(t, turn)
  const before = await fingerprint(t.db)
  expect(await t.kernel.beat([{ ...turn, activity: 'thinking' }], 'w')).toEqual(new Set())
  expect(await fingerprint(t.db)).toEqual(before)
})
