import { expect, it } from 'vitest'
import { openDatabase } from '../../../src/ports/database/pool.js'
import { hydrate, type Hydrated } from '../../../src/worker/hydrate.js'
import { enqueue, turnRow } from '../../../src/kernel/verbs/turn/enqueue.js'
import { openKernel } from '../../../src/kernel/kernel.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'
import { cardsIn, fingerprint, headOf } from '../../support/kernel-rows.js'
import { deliverTurn, enqueueTurn, grepCalls, reportSuccess, suspendedTurn } from '../../support/kernel-turns.js'
import { untilLockWait } from '../../support/lock-wait.js'
import { silentBell } from '../../support/silent-bell.js'

const t = kernelPerFile()

const thought = (text: string) => ({ type: 'agent.thought' as const, content: { text } })
const texts = (cards: readonly { content: unknown }[]) => cards.map((card) => (card.content as { text?: string }).text)

it('[T5.1] a turn writes only to its output box; its context box never changes', async () => {
  await t.agents('a')
  const turn = await suspendedTurn(t, 'a', grepCalls('a-1'))
  const context = await cardsIn(t, turn.contextBoxId)
  await reportSuccess(t, 'a-1')
  await t.claim()
  await t.kernel.resume(turn, 'w')
  await t.kernel.record({ ...turn, cards: [thought('one'), thought('two')] })
  await deliverTurn(t, turn)
  expect(await cardsIn(t, turn.contextBoxId)).toEqual(context)
  expect((await cardsIn(t, turn.outputBoxId)).map((card) => card.type)).toEqual([
    'tool.call',
    'tool.result',
    'agent.thought',
    'agent.thought',
    'task.deliverable',
  ])
})

it('[T5.1] rejects a context box as output box, an output box as context box, and a box of another project', async () => {
  await t.agents('b')
  await t.kernel.putAgents([{ projectId: 'q', agentId: 'b', workerTarget: target }])
  const mine = await t.kernel.makeBox({ projectId: project, cards: [thought('mine')] })
  const theirs = await t.kernel.makeBox({ projectId: 'q', cards: [thought('theirs')] })
  const { output_box_id: output } = await headOf(t, 'b')
  const before = await fingerprint(t.db)
  for (const boxes of [
    { outputBoxId: mine },
    { contextBoxId: theirs },
    { contextBoxId: 'no-such-box' },
    { outputBoxId: 'no-such-box' },
    { contextBoxId: output! },
  ]) {
    await expect(enqueueTurn(t, 'b', boxes)).rejects.toMatchObject({ code: 'unknown_box' })
  }
  expect(await fingerprint(t.db)).toEqual(before)
  expect(await deliverTurn(t, await t.running('b'))).toEqual({ what: 'ended' })
})

it('[T5.2] a turn reads its output box on every step and, with memory box, across turns, and sees no other box', async () => {
  await t.agents('c', 'other')
  await t.kernel.putAgents([{ projectId: project, agentId: 'c', workerTarget: target, memory: 'box' }])
  await t.kernel.record({ ...(await t.running('other')), cards: [thought('private')] })
  const first = await t.running('c')
  await t.kernel.record({ ...first, cards: [thought('first')] })
  expect(texts(((await hydrate(t.db, first)) as Hydrated).output)).toEqual(['first'])
  await t.kernel.record({ ...first, cards: [thought('second')] })
  expect(texts(((await hydrate(t.db, first)) as Hydrated).output)).toEqual(['first', 'second'])
  await deliverTurn(t, first, 'third')
  const seen = (await hydrate(t.db, await t.running('c'))) as Hydrated
  expect(texts([...seen.memory, ...seen.output])).toEqual(['first', 'second', 'third'])
  expect(texts(seen.context)).toEqual(['do it'])
})

it('[T5.2] another box becomes visible only as a snapshot packed into a new context box', async () => {
  await t.agents('d', 'e')
  const source = await t.running('d')
  await t.kernel.record({ ...source, cards: [thought('shared')] })
  const packed = await t.kernel.makeBox({
    projectId: project,
    pack: [source.outputBoxId!],
    cards: [thought('and this')],
  })
  await t.kernel.record({ ...source, cards: [thought('too late')] })
  await enqueueTurn(t, 'e', { contextBoxId: packed })
  const [turn] = (await t.claim()).filter((one) => one.agentId === 'e')
  expect(texts(((await hydrate(t.db, turn!)) as Hydrated).context)).toEqual(['shared', 'and this'])
  await expect(t.kernel.makeBox({ projectId: 'q', pack: [packed] })).rejects.toMatchObject({ code: 'unknown_card' })
})

it('[T5.3] the database rejects a second active turn on one output box', async () => {
  await t.agents('f', 'g')
  const turn = await t.running('f')
  await t.running('g')
  await expect(
    t.all("update state.agent_state_head set output_box_id = $1 where agent_id = 'g'", turn.outputBoxId),
  ).rejects.toMatchObject({ constraint: 'one_turn_per_borrowed_box' })
})

it('[T5.3] a turn whose output box is in use stays queued until the box is free', async () => {
  await t.agents('h', 'i')
  const turn = await t.running('h')
  const queued = await enqueueTurn(t, 'i', { outputBoxId: turn.outputBoxId! })
  expect(queued.status).toBe('queued')
  await t.all('select * from state.sweep_queued(-1, 100)')
  expect(await headOf(t, 'i')).toMatchObject({ status: 'idle' })
  await deliverTurn(t, turn)
  await t.all('select * from state.sweep_queued(-1, 100)')
  expect(await headOf(t, 'i')).toMatchObject({ status: 'dispatched', output_box_id: turn.outputBoxId })
})

it('[T5.3] of many concurrent turns that share one box none fails, one runs, and the others wait', async () => {
  const agents = Array.from({ length: 12 }, (_, n) => `share-${n}`)
  await t.agents('owner', ...agents)
  const { output_box_id: box } = await headOf(t, 'owner')
  const db = await openDatabase({ url: t.url, poolSize: 12 })
  // One kernel per caller, because calls of one kernel would share a batch.
  await Promise.all(
    agents.map((agentId) =>
      openKernel({ db, bell: silentBell, ids: t.ids }).enqueue({
        projectId: project,
        agentId,
        instruction: 'x',
        outputBoxId: box!,
      }),
    ),
  )
  const done = []
  while (done.length < agents.length) {
    const [holder, ...others] = await t.all(
      'select from state.agent_state_head where output_box_id = $1 and active_agent_turn_id is not null',
      box,
    )
    expect(others).toEqual([])
    if (holder === undefined) await t.all('select * from state.sweep_queued(-1, 100)')
    for (const turn of await t.claim()) {
      if (turn.agentId.startsWith('share-')) done.push(await deliverTurn(t, turn))
    }
  }
  await db.close()
})

it('[T5.3] of two concurrent leases of one box the later turn stays queued, and its caller sees no error', async () => {
  await t.agents('m', 'n')
  const { output_box_id: outputBoxId } = await headOf(t, 'm')
  const wish = (agentId: string) => ({ projectId: project, agentId, instruction: 'x', outputBoxId: outputBoxId! })
  await t.db.transaction(async (tx) => {
    await enqueue(tx, [turnRow(t.ids, wish('m'))])
    expect(await t.kernel.enqueue(wish('n'))).toMatchObject({ status: 'queued' })
  })
  expect(await headOf(t, 'm')).toMatchObject({ status: 'dispatched' })
  expect(await headOf(t, 'n')).toMatchObject({ status: 'idle' })
})

it('[T5.3] an agent whose box another turn has borrowed stays idle until that turn ends, also if both are leased at the same time', async () => {
  await t.agents('lender', 'borrower')
  const { output_box_id: outputBoxId } = await headOf(t, 'lender')
  const { own } = await t.db.transaction(async (tx) => {
    await enqueue(tx, [
      turnRow(t.ids, { projectId: project, agentId: 'borrower', instruction: 'x', outputBoxId: outputBoxId! }),
    ])
    const pending = enqueueTurn(t, 'lender')
    await untilLockWait(t.db, 'the lease of the lender waits')
    return { own: pending }
  })
  expect((await own).status).toBe('queued')
  const borrowed = () => t.all('select agent_id from state.borrowed_boxes where box_id = $1', outputBoxId)
  expect(await borrowed()).toEqual([{ agent_id: 'borrower' }])
  const turn = (await t.claim()).find((one) => one.agentId === 'borrower')!
  // A new box of the same turn is borrowed in place of the old one.
  const swapped = await t.kernel.swapBox({ ...turn, cards: [thought('summary')] })
  expect(await borrowed()).toEqual([])
  expect(await t.all("select box_id from state.borrowed_boxes where agent_id = 'borrower'")).toEqual([
    { box_id: (swapped as { boxId: string }).boxId },
  ])
  await deliverTurn(t, turn)
  expect(await t.all("select from state.borrowed_boxes where agent_id = 'borrower'")).toEqual([])
  await t.all('select * from state.sweep_queued(-1, 100)')
  expect(await headOf(t, 'lender')).toMatchObject({ status: 'dispatched', output_box_id: outputBoxId })
})

it('[T5.3] of two concurrent leases of a box without owner the later turn stays queued, and its caller sees no error', async () => {
  await t.agents('first', 'second')
  const outputBoxId = 'box-without-owner'
  await t.all(
    "insert into cards.boxes (box_id, project_id, kind, created_at) values ($1, $2, 'output', state.now())",
    outputBoxId,
    project,
  )
  const wish = (agentId: string) => ({ projectId: project, agentId, instruction: 'x', outputBoxId })
  const { later } = await t.db.transaction(async (tx) => {
    await enqueue(tx, [turnRow(t.ids, wish('first'))])
    const pending = t.kernel.enqueue(wish('second'))
    await untilLockWait(t.db, 'the second lease waits for the first')
    return { later: pending }
  })
  expect(await later).toMatchObject({ status: 'queued' })
  expect(await headOf(t, 'first')).toMatchObject({ status: 'dispatched' })
})

it('[T5.4] compaction creates a new output box and swaps the pointer; the old box stays unchanged', async () => {
  await t.kernel.putAgents([{ projectId: project, agentId: 'j', workerTarget: target, memory: 'box' }])
  const turn = await t.running('j')
  await t.kernel.record({ ...turn, cards: [thought('long'), thought('longer'), thought('keep me')] })
  const old = await cardsIn(t, turn.outputBoxId)
  const swapped = await t.kernel.swapBox({ ...turn, cardIds: [old[2]!.card_id], cards: [thought('summary')] })
  expect(swapped).not.toBe('stale')
  const { output_box_id: box } = await headOf(t, 'j')
  expect(swapped).toEqual({ boxId: box })
  expect(texts(await cardsIn(t, box))).toEqual(['keep me', 'summary'])
  expect(await cardsIn(t, turn.outputBoxId)).toEqual(old)
  await t.kernel.record({ ...turn, cards: [thought('after')] })
  await deliverTurn(t, turn, 'end')
  expect(texts(await cardsIn(t, box))).toEqual(['keep me', 'summary', 'after', 'end'])
  const next = (await hydrate(t.db, await t.running('j'))) as Hydrated
  expect(texts(next.memory)).toEqual(['keep me', 'summary', 'after', 'end'])
})

it('[T5.4] a swap accepts only cards of its own turn, and is atomic', async () => {
  await t.agents('k', 'l')
  const stranger = await t.running('l')
  await t.kernel.record({ ...stranger, cards: [thought('private')] })
  const [hidden] = await cardsIn(t, stranger.outputBoxId)
  const turn = await t.running('k')
  const before = await fingerprint(t.db)
  await expect(t.kernel.swapBox({ ...turn, cardIds: [hidden!.card_id] })).rejects.toMatchObject({
    code: 'unknown_card',
  })
  await expect(t.kernel.swapBox({ ...turn, cards: [thought('x')], cardIds: ['nope'] })).rejects.toMatchObject({
    code: 'unknown_card',
  })
  expect(await t.kernel.swapBox({ ...turn, turnEpoch: 99, cards: [thought('x')] })).toBe('stale')
  expect(await fingerprint(t.db)).toEqual(before)
  expect(await deliverTurn(t, turn)).toEqual({ what: 'ended' })
})

it('[T5.1] a turn repeats its own cards without effect, and refuses an id that another turn, a person or another project has used', async () => {
  await t.agents('card-a', 'card-b')
  await t.kernel.putAgents([{ projectId: 'q', agentId: 'card-q', workerTarget: target }])
  const [one, other] = [await t.running('card-a'), await t.running('card-b')]
  const card = (cardId: string, text = 'mine') => ({ cardId, ...thought(text) })
  await t.kernel.record({ ...one, cards: [card('card-1')] })
  await t.kernel.record({ ...one, cards: [card('card-1', 'again'), card('card-2')] })
  expect(texts(await cardsIn(t, one.outputBoxId))).toEqual(['mine', 'mine'])
  await t.kernel.makeBox({ projectId: project, cards: [card('card-3')] })
  await t.kernel.makeBox({
    projectId: 'q',
    cards: [{ ...card('card-4'), metadata: { agent_turn_id: other.agentTurnId } }],
  })
  const before = await fingerprint(t.db)
  for (const cardId of ['card-1', 'card-3', 'card-4'])
    await expect(t.kernel.record({ ...other, cards: [card('card-5'), card(cardId)] })).rejects.toMatchObject({
      code: 'duplicate_card',
      message: expect.stringContaining(`card ${cardId} belongs to another turn`),
    })
  await expect(t.kernel.makeBox({ projectId: project, cards: [card('card-1')] })).rejects.toMatchObject({
    code: 'duplicate_card',
  })
  expect(await fingerprint(t.db)).toEqual(before)
})
