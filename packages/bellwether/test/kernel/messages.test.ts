/** Messages to turns: stored once, delivered once and in order, under the fence of the turn. */
import { expect, it } from 'vitest'
import { readMessages } from '../../src/kernel/reads/messages.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { cardsIn, headOf } from '../support/kernel-rows.js'
import { deliverTurn, enqueueTurn } from '../support/kernel-turns.js'

const t = kernelPerFile()

const say = (agentTurnId: string, text: string, messageId = text) =>
  t.kernel.say({ projectId: project, agentTurnId, messageId, sender: 'rita', text })

it('stores a message once per id and delivers messages once, in order, as cards and in the transcript', async () => {
  await t.agents('a')
  const turn = await t.running('a')
  expect(await t.kernel.takeMessages(turn)).toEqual([])
  expect(await say(turn.agentTurnId, 'one')).toEqual({ seq: 1, delivered: false })
  expect(await say(turn.agentTurnId, 'two')).toEqual({ seq: 2, delivered: false })
  expect(await say(turn.agentTurnId, 'one')).toEqual({ seq: 1, delivered: false })
  await expect(say(turn.agentTurnId, 'other', 'one')).rejects.toMatchObject({ code: 'duplicate_message' })
  const both = await Promise.all([t.kernel.takeMessages(turn), t.kernel.takeMessages(turn)])
  expect(both.flat()).toMatchObject([
    { seq: 1, sender: 'rita', text: 'one' },
    { seq: 2, sender: 'rita', text: 'two' },
  ])
  expect(await say(turn.agentTurnId, 'one')).toEqual({ seq: 1, delivered: true })
  const { output_box_id: box } = await headOf(t, 'a')
  const cards = (await cardsIn(t, box)).filter(({ type }) => type === 'task.instruction')
  expect(cards.map(({ content }) => content)).toEqual([{ text: 'one' }, { text: 'two' }])
  const entries = await t.all('select name, content from state.transcript where agent_turn_id = $1', turn.agentTurnId)
  expect(entries).toEqual([
    { name: 'message from rita', content: 'one' },
    { name: 'message from rita', content: 'two' },
  ])
})

it('delivers messages in their order, however the database reads their rows', async () => {
  await t.agents('order')
  const turn = await t.running('order')
  for (const text of ['one', 'two', 'three']) await say(turn.agentTurnId, text)
  // An updated row is stored behind the others.
  await t.all('update state.turn_messages set sender = $2 where agent_turn_id = $1 and seq = 1', turn.agentTurnId, 'r')
  const scans = ['enable_indexscan', 'enable_bitmapscan']
  for (const scan of scans) await t.all(`alter function state.take_messages set ${scan} = off`)
  const taken = await t.kernel.takeMessages(turn)
  for (const scan of scans) await t.all(`alter function state.take_messages reset ${scan}`)
  expect(taken).toMatchObject([{ text: 'one' }, { text: 'two' }, { text: 'three' }])
  const cards = await cardsIn(t, (await headOf(t, 'order')).output_box_id)
  const texts = cards.filter(({ type }) => type === 'task.instruction').map(({ content }) => content)
  expect(texts).toEqual([{ text: 'one' }, { text: 'two' }, { text: 'three' }])
  await deliverTurn(t, turn)
})

it('gives a message to the owner of the turn only, and keeps what waits for the next owner', async () => {
  await t.agents('b')
  const turn = await t.running('b')
  await say(turn.agentTurnId, 'wait')
  expect(await t.kernel.takeMessages({ ...turn, turnEpoch: turn.turnEpoch - 1 })).toBe('stale')
  expect((await readMessages(t.db, turn.agentTurnId))[0]).toMatchObject({ seq: 1, delivered_at: null })
  expect(await t.kernel.takeMessages(turn)).toHaveLength(1)
})

it('refuses a message to a turn that has ended, does not exist or has too many, and accepts one to a queued turn', async () => {
  await t.agents('c')
  const turn = await t.running('c')
  const { agentTurnId: queued } = await enqueueTurn(t, 'c')
  expect(await say(queued, 'before the start')).toEqual({ seq: 1, delivered: false })
  for (let at = 1; at <= 100; at += 1) await say(turn.agentTurnId, `m${at}`)
  await expect(say(turn.agentTurnId, 'm101')).rejects.toMatchObject({ code: 'too_many_messages' })
  await expect(say(turn.agentTurnId, 'x'.repeat(8_001))).rejects.toMatchObject({ code: 'invalid_text' })
  await deliverTurn(t, turn)
  await expect(say(turn.agentTurnId, 'late')).rejects.toMatchObject({ code: 'turn_ended' })
  await expect(say('none', 'hello')).rejects.toMatchObject({ code: 'unknown_turn' })
  await expect(
    t.kernel.say({ projectId: 'other', agentTurnId: queued, messageId: 'x', sender: 'eve', text: 'x' }),
  ).rejects.toMatchObject({ code: 'unknown_turn' })
})

it('messages that arrive during beats and takes are each delivered once, in order', async () => {
  await t.agents('d')
  const turn = await t.running('d')
  const taken: { seq: number }[] = []
  const read = async () => {
    const messages = await t.kernel.takeMessages(turn)
    if (messages === 'stale') throw new Error('The fence is lost')
    taken.push(...messages)
  }
  for (let round = 1; round <= 10; round += 1)
    await Promise.all([
      t.kernel.beat([turn], 'w'),
      say(turn.agentTurnId, `a${round}`),
      read(),
      say(turn.agentTurnId, `b${round}`),
    ])
  await read()
  expect(taken.map(({ seq }) => seq)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1))
})

it('a message that came too late stays listed as not delivered', async () => {
  await t.agents('e')
  const turn = await t.running('e')
  await say(turn.agentTurnId, 'in time')
  await t.kernel.takeMessages(turn)
  await say(turn.agentTurnId, 'too late')
  await deliverTurn(t, turn)
  expect(await readMessages(t.db, turn.agentTurnId)).toMatchObject([
    { text: 'in time', delivered_at: expect.any(Date) },
    { text: 'too late', delivered_at: null },
  ])
  expect(await t.kernel.takeMessages(turn)).toBe('stale')
})
