import type { FieldSpec } from '../../src/kernel/verbs/cards.js'
import { endOverBudget, reap } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { expect, it } from 'vitest'
import { kernelPerFile, project } from '../support/kernel.js'
import { cardsIn, eventsOf, fingerprint, headOf, turnRow } from '../support/kernel-rows.js'
import {
  deliverTurn,
  enqueueTurn,
  fullWatchWindow,
  grepCalls,
  reportSuccess,
  suspendedTurn,
} from '../support/kernel-turns.js'
import { guardSettings } from '../support/watchdog.js'

const t = kernelPerFile()

/** Checks that the turn ended with one task event, which names a deliverable in the turn's own output box. */
async function ending(agentTurnId: string, outputBoxId: string | null, status: string) {
  const [task, ...more] = await eventsOf(t, agentTurnId, 'task')
  expect(more).toEqual([])
  expect(task!.payload).toMatchObject({ agent_turn_id: agentTurnId, status, output_box_id: outputBoxId })
  const box = await cardsIn(t, outputBoxId)
  const card = box.find((one) => one.card_id === task!.payload.deliverable_card_id)
  expect(card).toMatchObject({ type: 'task.deliverable', metadata: { agent_turn_id: agentTurnId } })
  expect(await turnRow(t, agentTurnId)).toMatchObject({ outcome: status, deliverable_card_id: card!.card_id })
  return { task: task!, card: card! }
}

it('[T3.5] deliver writes deliverable, task event, cleared head and idle together, then leases the next', async () => {
  await t.agents('a')
  const turn = await t.running('a')
  const next = await enqueueTurn(t, 'a')
  expect(await deliverTurn(t, turn, 'the answer')).toEqual({ what: 'ended' })
  const { card } = await ending(turn.agentTurnId, turn.outputBoxId, 'success')
  expect(card.content).toEqual({ text: 'the answer' })
  const events = await eventsOf(t, turn.agentTurnId)
  expect(events.slice(-2).map((event) => [event.kind, event.payload.status])).toEqual([
    ['task', 'success'],
    ['state', 'idle'],
  ])
  expect(await headOf(t, 'a')).toMatchObject({ status: 'dispatched', active_agent_turn_id: next.agentTurnId })
})

it.each(['cards.cards', 'cards.box_cards', 'state.outbox', 'state.agent_inbox', 'state.agent_state_head'])(
  '[T3.5] if %s cannot be written, nothing of the delivery is written, and the turn can still be delivered',
  async (table) => {
    const agent = `b${t.ids.next()}`
    await t.agents(agent)
    const turn = await t.running(agent)
    const event = table === 'state.agent_inbox' || table === 'state.agent_state_head' ? 'update' : 'insert'
    await t.all(`create function state.out_of_order() returns trigger language plpgsql as $$ begin raise exception 'out of order'; end $$;
      create trigger out_of_order before ${event} on ${table} for each row execute function state.out_of_order()`)
    const before = await fingerprint(t.db)
    await expect(deliverTurn(t, turn)).rejects.toThrow('out of order')
    expect(await fingerprint(t.db)).toEqual(before)
    await t.all('drop function state.out_of_order cascade')
    expect(await deliverTurn(t, turn)).toEqual({ what: 'ended' })
  },
)

it('[T4.1] [T1.3] success, failure, stop, budget and watchdog endings all deliver into the output box', async () => {
  await t.agents('c1', 'c2', 'c3', 'c4', 'c5', 'c6')
  const won = await t.running('c1')
  await deliverTurn(t, won)
  await ending(won.agentTurnId, won.outputBoxId, 'success')
  const lost = await t.running('c2')
  await t.kernel.deliver({ ...lost, status: 'failed', error: 'agent_failed', content: { text: 'no' } })
  expect((await ending(lost.agentTurnId, lost.outputBoxId, 'failed')).task.payload.error).toBe('agent_failed')
  const stopped = await suspendedTurn(t, 'c3', grepCalls('c3-1'))
  await t.kernel.stop({ projectId: project, agentTurnId: stopped.agentTurnId })
  expect((await ending(stopped.agentTurnId, stopped.outputBoxId, 'canceled')).task.payload.error).toBe('stopped')
  await enqueueTurn(t, 'c4', { budget: { wallMs: 1_000 } })
  const spent = (await t.claim()).find((one) => one.agentId === 'c4')!
  await t.advance(60)
  await endOverBudget(t.db, t.ids, fullWatchWindow)
  const { task: ended, card } = await ending(spent.agentTurnId, spent.outputBoxId, 'failed')
  expect([ended.payload.error, card.metadata['kind']]).toEqual(['budget_exceeded', 'fallback'])
  const silent = await t.running('c5')
  const { agentTurnId: unstarted } = await enqueueTurn(t, 'c6')
  const { output_box_id: box } = await headOf(t, 'c6')
  await t.advance(301)
  await reap(t.db, t.ids, { ...guardSettings, maxQueueSeconds: 300 }, fullWatchWindow)
  expect((await ending(silent.agentTurnId, silent.outputBoxId, 'failed')).task.payload.error).toBe(
    'timeout_reaped_by_watchdog',
  )
  expect((await ending(unstarted, box, 'timeout')).task.payload.error).toBe('dispatch_timeout')
})

it('[T1.3] a turn without an output box ends too: the id is null and the payload contains the reason', async () => {
  await t.kernel.putAgents([{ projectId: project, agentId: 'boxless', workerTarget: 'w', outputBox: false }])
  for (const end of ['deliver', 'stop'] as const) {
    const turn = await t.running('boxless')
    if (end === 'deliver') await deliverTurn(t, turn)
    else await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
    const [task] = await eventsOf(t, turn.agentTurnId, 'task')
    expect(task!.payload).toMatchObject({
      deliverable_card_id: null,
      output_box_id: null,
      deliverable_error: 'no_output_box',
    })
    expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ deliverable_card_id: null, status: 'consumed' })
  }
})

it('[T1.6] a repeated delivery after an in-doubt commit returns already and writes nothing', async () => {
  await t.agents('d')
  const turn = await t.running('d')
  const answers = await Promise.all([deliverTurn(t, turn), deliverTurn(t, turn), deliverTurn(t, turn)])
  expect(answers.filter((one) => one.what === 'stale')).toEqual([])
  const before = await fingerprint(t.db)
  expect(await deliverTurn(t, turn)).toEqual({ what: 'already' })
  expect(await fingerprint(t.db)).toEqual(before)
  expect(await eventsOf(t, turn.agentTurnId, 'task')).toHaveLength(1)
})

const fields: FieldSpec[] = [
  { name: 'title', required: true, type: 'string' },
  { name: 'pages', required: true, type: 'number' },
  { name: 'note', description: 'if any' },
]

it.each([
  ['text alone', { text: 'x' }, ['title', 'pages']],
  ['a field short', { fields: [{ name: 'title', value: 'x' }] }, ['pages']],
  [
    'a required field that is null',
    {
      fields: [
        { name: 'title', value: null },
        { name: 'pages', value: 1 },
      ],
    },
    ['title'],
  ],
  [
    'a required field of another type',
    {
      fields: [
        { name: 'title', value: 'x' },
        { name: 'pages', value: 'many' },
      ],
    },
    ['pages'],
  ],
])(
  '[T4.2a] %s is refused with the missing names, writes nothing, and the turn continues',
  async (_title, content, missing) => {
    const agent = `e${t.ids.next()}`
    await t.agents(agent)
    await enqueueTurn(t, agent, { resultFields: fields })
    const [turn] = (await t.claim()).filter((one) => one.agentId === agent)
    const before = await fingerprint(t.db)
    expect(await t.kernel.deliver({ ...turn!, status: 'success', content })).toEqual({ what: 'refused', missing })
    expect(await fingerprint(t.db)).toEqual(before)
    const whole = [
      { name: 'title', value: 'x' },
      { name: 'pages', value: 7 },
    ]
    expect(await t.kernel.deliver({ ...turn!, status: 'success', content: { fields: whole } })).toEqual({
      what: 'ended',
    })
    const row = await turnRow(t, turn!.agentTurnId)
    expect(await t.kernel.readCard(row.deliverable_card_id!)).toMatchObject({ content: { fields: whole } })
  },
)

it('[T4.2a] null does not satisfy a required field of any type', async () => {
  await t.agents('null')
  await enqueueTurn(t, 'null', { resultFields: [{ name: 'anything', required: true }] })
  const [turn] = (await t.claim()).filter((one) => one.agentId === 'null')
  const submit = (value: unknown) =>
    t.kernel.deliver({ ...turn!, status: 'success', content: { fields: [{ name: 'anything', value }] } })
  expect(await submit(null)).toEqual({ what: 'refused', missing: ['anything'] })
  expect(await submit(false)).toEqual({ what: 'ended' })
})

it('[T4.2a] a failure needs no fields, and required fields packed from another box count', async () => {
  await t.agents('f')
  const asked = await t.kernel.makeBox({
    projectId: project,
    cards: [{ type: 'task.result_fields', content: { fields } }],
  })
  const packed = await t.kernel.makeBox({
    projectId: project,
    pack: [asked],
    cards: [{ type: 'task.instruction', content: { text: 'x' } }],
  })
  await enqueueTurn(t, 'f', { contextBoxId: packed })
  const [turn] = (await t.claim()).filter((one) => one.agentId === 'f')
  expect(await deliverTurn(t, turn!)).toMatchObject({ what: 'refused' })
  expect(await t.kernel.deliver({ ...turn!, status: 'failed', content: { text: 'cannot' } })).toEqual({ what: 'ended' })
})

it('[T4.2b] [T7.1] the task event contains pointers and the status, and no content of the agent', async () => {
  await t.agents('g')
  const turn = await suspendedTurn(t, 'g', grepCalls('g-1'))
  await reportSuccess(t, 'g-1', { secret: 'from the tool' })
  await t.claim()
  await t.kernel.resume(turn, 'w')
  await t.kernel.deliver({
    ...turn,
    status: 'failed',
    error: 'why',
    content: { fields: [{ name: 'summary', value: 'secret words' }] },
  })
  const [task] = await eventsOf(t, turn.agentTurnId, 'task')
  expect(task!.subject).toBe(`bw.v1.${project}.public.evt.agent.g.task`)
  expect(Object.keys(task!.payload).toSorted()).toEqual([
    'agent_id',
    'agent_turn_id',
    'deliverable_card_id',
    'error',
    'output_box_id',
    'status',
    'traceparent',
  ])
  expect(JSON.stringify(task)).not.toMatch(/secret|summary/)
})

it('[T7.1] a step event names its turn, step and phase; a wakeup its agent and inbox row', async () => {
  await t.agents('h')
  t.rings()
  const turn = await t.running('h')
  expect(Object.keys(t.rings()[0]!.payload)).toEqual(['agent_id', 'inbox_id'])
  await t.kernel.record({ ...turn, step: { stepId: 'h-s', phase: 'think', status: 'done' } })
  const [step] = await eventsOf(t, turn.agentTurnId, 'step')
  expect(step).toMatchObject({
    subject: `bw.v1.${project}.public.evt.agent.h.step`,
    payload: { agent_turn_id: turn.agentTurnId, step_id: 'h-s', phase: 'think' },
  })
})
