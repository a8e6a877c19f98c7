/** The kernel spawner on a real database: one key gives one turn, and waiters learn how it ended. */
import { beforeAll, expect, it } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { createDispatcher } from '../../../src/board/dispatch/dispatcher.js'
import { openTail, type Tail } from '../../../src/http/tail.js'
import { kernelSpawner } from '../../../src/runtime/parts/board/spawner.js'
import type { Spawner } from '../../../src/board/ports.js'
import { gated, gatedCaches, makeGate } from '../../support/board/crash.js'
import {
  boardOf,
  created,
  dispatcherOf,
  makeWorld,
  noCaches,
  put,
  type World,
  never,
} from '../../support/board/dispatcher.js'
import { handClock, settle } from '../../support/hand-clock.js'
import { kernelPerFile, project, testKernel } from '../../support/kernel.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'

const t = kernelPerFile({ time: 'real' })
let spawner: Spawner
const purse = {
  id: 'task:task-1',
  limits: { tokens: 1_000, costMicros: null, wallTimeMs: null },
  used: { tokens: 0, costMicros: 0, wallTimeMs: 0 },
}

const noDegrade = { degrade: [], degradePolicy: [] }

beforeAll(async () => {
  await t.agents('coder', 'tester')
  spawner = kernelSpawner({ kernel: t.kernel, projectId: project, clock: t.clock, log: quietLog })
})

it('[H7.6] repeated spawns with one key start one turn, which draws on the purse of its task', async () => {
  const request = { key: t.ids.next(), taskId: 'task-1', agent: 'coder', prompt: 'Do it.', purse, ...noDegrade }
  expect(await spawner.status(request.key)).toEqual({ status: 'unknown' })
  const [first, ...others] = await Promise.all(Array.from({ length: 5 }, () => spawner.spawn(request, never)))
  for (const other of others) expect(other).toEqual(first)
  // Another process after a crash: the same key, even with another agent, starts nothing.
  const again = kernelSpawner({ kernel: t.kernel, projectId: project, clock: t.clock, log: quietLog })
  expect(await again.spawn({ ...request, agent: 'tester' }, never)).toEqual(first)
  expect(await t.one('select count(*)::int as turns from state.agent_inbox')).toEqual({ turns: 1 })
  expect(await spawner.status(request.key)).toEqual({ status: 'active', agentTurnId: first!.agentTurnId })

  const waiting = spawner.ended(request.key, never)
  const [turn] = await t.claim()
  expect(turn!.payload).toMatchObject({ task_id: 'task-1' })
  expect(await t.kernel.limitTurn(turn!, {})).toMatchObject({ tokens: 1_000, wallMs: null })
  const step = {
    stepId: t.ids.next(),
    phase: 'think',
    status: 'done',
    metadata: { usage: { input_tokens: 30, output_tokens: 12, cache_read_tokens: 900, cost_usd: 0.25 } },
  }
  await t.kernel.record({ ...turn!, step })
  await t.kernel.deliver({ ...turn!, status: 'success', content: { text: 'done' } })
  expect(await waiting).toMatchObject({
    status: 'ended',
    agentTurnId: first!.agentTurnId,
    outcome: 'success',
    deliverable: { text: 'done' },
    tokenUsage: 42,
    inputTokens: 30,
    cacheReadTokens: 900,
    costMicros: 250_000,
    elapsedMs: expect.any(Number),
    exceededKeys: [],
  })
  expect(await spawner.spawn(request, never)).toEqual(first)
  // The next run of the task draws on what is left, and is stopped when that is exceeded.
  const next = { ...request, key: t.ids.next() }
  await spawner.spawn(next, never)
  const [second] = await t.claim()
  await t.kernel.record({
    ...second!,
    step: { ...step, stepId: t.ids.next(), metadata: { usage: { total_tokens: 959 } } },
  })
  await t.kernel.deliver({ ...second!, status: 'success', content: { text: 'done' } })
  expect(await spawner.status(next.key)).toMatchObject({
    error: 'budget_exceeded',
    exceededKeys: ['tokens'],
    tokenUsage: 959,
  })
  expect(await t.kernel.readBudget(purse.id)).toMatchObject({ tokens_used: 1_001, cost_micros_used: 250_000 })
})

it('the events of the outbox announce the end of a turn, and a poll finds it if they are silent', async () => {
  const stop = new AbortController()
  const tail = openTail({ db: t.db, clock: t.clock, log: quietLog })
  const tailing = tail.run(stop.signal)
  const start = async (events: Tail) => {
    const clock = handClock()
    const waiter = kernelSpawner({ kernel: t.kernel, projectId: project, clock, log: quietLog, tail: events })
    const request = { key: t.ids.next(), taskId: 'task-7', agent: 'coder', prompt: 'Do it.', purse, ...noDegrade }
    await waiter.spawn(request, never)
    const ended = waiter.ended(request.key, never)
    await until('the wait to pause', async () => (clock.sleepers > 0 ? true : undefined))
    const [turn] = await t.claim()
    await t.kernel.deliver({ ...turn!, status: 'success', content: { text: 'done' } })
    return { clock, ended }
  }
  // The clock of the poll stands still.
  const { ended } = await start(tail)
  tail.wake()
  expect(await ended).toMatchObject({ status: 'ended', outcome: 'success' })

  const silent = openTail({ db: t.db, clock: t.clock, log: quietLog })
  const missed = await start(silent)
  await missed.clock.advance(1_000)
  expect(await missed.ended).toMatchObject({ status: 'ended', outcome: 'success' })
  stop.abort()
  await tailing
})

it('[H6.6] the spawner names those that are not agents of the project, and none while the project has no agents', async () => {
  expect(await spawner.missingAgents(['coder', 'debugger', 'Coder', 'tester'])).toEqual(['debugger', 'Coder'])
  const empty = kernelSpawner({ kernel: t.kernel, projectId: 'empty', clock: t.clock, log: quietLog })
  expect(await empty.missingAgents(['coder'])).toEqual([])
  expect([await spawner.hasAgents(), await empty.hasAgents()]).toEqual([true, false])
})

it('a turn is stopped by its key, waiters are informed, and an unknown key is rejected', async () => {
  const request = {
    key: t.ids.next(),
    taskId: 'task-2',
    agent: 'coder',
    prompt: 'Do it.',
    purse: { ...purse, id: 'task:task-2' },
    ...noDegrade,
  }
  await spawner.spawn(request, never)
  const waiting = [spawner.ended(request.key, never), spawner.ended(request.key, never)]
  await spawner.stop(request.key, 'not wanted any more')
  for (const status of waiting) expect(await status).toMatchObject({ status: 'ended', outcome: 'canceled' })
  await spawner.stop(request.key, 'again')
  await expect(spawner.stop(t.ids.next(), 'x')).rejects.toMatchObject({ code: 'unknown_turn' })
})

it('[H6.3] the end of a stopped turn is a fallback with its reason, whatever its partial work claims', async () => {
  const request = { key: t.ids.next(), taskId: 'task-5', agent: 'coder', prompt: 'Do it.', purse, ...noDegrade }
  await spawner.spawn(request, never)
  const [turn] = await t.claim()
  const claim = '{"status": "done", "files": ["a.txt"], "tokenUsage": 9}'
  await t.kernel.record({ ...turn!, cards: [{ type: 'agent.thought', content: { text: claim } }] })
  await spawner.stop(request.key, 'not wanted any more')
  const ended = await spawner.status(request.key)
  expect(ended).toMatchObject({
    outcome: 'canceled',
    deliverable: {
      text: expect.stringContaining('Stopped by the board: not wanted any more') as string,
      fallback: { code: 'stopped', endedBy: 'the board', reason: 'not wanted any more', started: true },
    },
  })
  expect(ended).not.toHaveProperty('deliverable.files')
  expect(ended).not.toHaveProperty('deliverable.status')
})

it('[W2.5] an active turn whose target has no worker says so, also if it is queued behind another', async () => {
  await t.kernel.putAgents([{ projectId: project, agentId: 'stranded', workerTarget: 'gpu' }])
  const keys = [t.ids.next(), t.ids.next()]
  for (const key of keys)
    await spawner.spawn({ key, taskId: 'task-6', agent: 'stranded', prompt: 'Do it.', purse, ...noDegrade }, never)
  for (const key of keys) expect(await spawner.status(key)).not.toHaveProperty('waitsFor')
  await t.all(
    `update state.agent_state_head set updated_at = state.now() - interval '70 seconds' where agent_id = 'stranded'`,
  )
  for (const key of keys)
    expect(await spawner.status(key)).toMatchObject({ status: 'active', waitsFor: 'no worker for target "gpu"' })
  await t.all(`select state.sign_in('worker-gpu', 'gpu', 4, 4)`)
  for (const key of keys) expect(await spawner.status(key)).not.toHaveProperty('waitsFor')
})

it('an aborted wait returns the current status of the turn', async () => {
  const request = { key: t.ids.next(), taskId: 'task-3', agent: 'tester', prompt: 'Do it.', purse, ...noDegrade }
  await spawner.spawn(request, never)
  const patience = new AbortController()
  const waiting = spawner.ended(request.key, patience.signal)
  patience.abort()
  expect(await waiting).toMatchObject({ status: 'active' })
  expect(await spawner.ended(t.ids.next(), AbortSignal.abort())).toEqual({ status: 'unknown' })
})

it('the spawner does not know the turns of another project', async () => {
  const request = { key: t.ids.next(), taskId: 'task-4', agent: 'tester', prompt: 'Do it.', purse, ...noDegrade }
  await spawner.spawn(request, never)
  const elsewhere = kernelSpawner({ kernel: t.kernel, projectId: 'elsewhere', clock: t.clock, log: quietLog })
  expect(await elsewhere.status(request.key)).toEqual({ status: 'unknown' })
})

it('the kernel id is the same for every connection and after a restart, and differs per database and project', async () => {
  const name = async (of: Spawner) => (await of.kernel())?.id
  const mine = await name(spawner)
  expect(mine).toMatch(/^pg:\d{10,}:[0-9A-F]{8}:\d+:/)
  const again = kernelSpawner({ kernel: t.kernel, projectId: project, clock: t.clock, log: quietLog })
  expect(await name(again)).toBe(mine)
  const elsewhere = kernelSpawner({ kernel: t.kernel, projectId: 'elsewhere', clock: t.clock, log: quietLog })
  expect(await name(elsewhere)).not.toBe(mine)
  const other = await testKernel({ time: 'real' })
  try {
    const otherSpawner = kernelSpawner({ kernel: other.kernel, projectId: project, clock: t.clock, log: quietLog })
    expect(await name(otherSpawner)).not.toBe(mine)
  } finally {
    await other.drop()
  }
})

it.each(['before spawner.kernel', 'after spawner.kernel', 'before spawner.spawn', 'after spawner.spawn'])(
  'hazard 20: a dispatcher that dies %s leaves one turn for its line, also when two others race for it',
  async (where) => {
    const world: World = { ...makeWorld(), ids: t.ids }
    const own = () => kernelSpawner({ kernel: t.kernel, projectId: project, clock: t.clock, log: quietLog })
    await put(world, created('T-1', { agent: 'coder' }))
    const gate = makeGate(where)
    const dispatcher = createDispatcher(gated(gate, dispatcherOf(world, { spawner: own() })))
    await Promise.race([autopilotStep(dispatcher, gatedCaches(gate, noCaches)), gate.died])
    await settle()
    expect(gate.where).toBe(where)
    // Longer than the lease of a claim and the grace period of an intent, by every clock.
    await t.advance(130)
    await world.clock.advance(130_000)
    const others = [dispatcherOf(world, { spawner: own() }), dispatcherOf(world, { spawner: own() })]
    await Promise.all(others.map((other) => autopilotStep(other, noCaches)))
    await Promise.all(others.map((other) => autopilotStep(other, noCaches)))
    const runs = world.root.events.filter(({ type }) => type === 'task_started').map(({ eventId }) => eventId)
    expect(runs).toHaveLength(1)
    const turns = await t.all<{ agent_turn_id: string }>(
      'select agent_turn_id from state.agent_inbox where inbox_id = any($1)',
      runs,
    )
    expect(turns).toHaveLength(1)
    expect((await boardOf(world).sync()).tasks.get('T-1')).toMatchObject({
      status: 'in_progress',
      // A dispatcher that died after the spawn could not record it; the key finds the turn.
      runs: [
        where === 'after spawner.spawn' ? { runId: runs[0] } : { runId: runs[0], agentTurnId: turns[0]!.agent_turn_id },
      ],
    })
  },
)
