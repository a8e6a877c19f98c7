import { expect, it } from 'vitest'
import { openDatabase } from '../../src/ports/database/pool.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { cardsIn, eventsOf, fingerprint, headOf, turnRow, waitsOf } from '../support/kernel-rows.js'
import { deliverTurn, enqueueTurn, grepCalls, suspendedTurn } from '../support/kernel-turns.js'
import { untilLockWait } from '../support/lock-wait.js'

const t = kernelPerFile()

const stop = (agentTurnId: string) => t.kernel.stop({ projectId: project, agentTurnId, reason: 'changed my mind' })

it('[T3.6] a cancel of a queued turn writes a deliverable and a task event, and the head keeps its running turn', async () => {
  await t.agents('a')
  const running = await t.running('a')
  const { agentTurnId } = await enqueueTurn(t, 'a')
  const head = await headOf(t, 'a')
  expect(await stop(agentTurnId)).toBe('ended')
  expect(await headOf(t, 'a')).toEqual(head)
  const row = await turnRow(t, agentTurnId)
  expect(row).toMatchObject({ status: 'cancelled', outcome: 'canceled', turn_epoch: null })
  expect(await eventsOf(t, agentTurnId)).toMatchObject([
    { kind: 'task', payload: { status: 'canceled', deliverable_card_id: row.deliverable_card_id } },
  ])
  expect((await cardsIn(t, head.output_box_id)).map((card) => card.card_id)).toContain(row.deliverable_card_id)
  expect(await deliverTurn(t, running)).toEqual({ what: 'ended' })
  expect(await headOf(t, 'a')).toMatchObject({ status: 'idle' })
})

it('[T3.6] a cancel that races with the lease ends the turn once, whichever comes first', async () => {
  const agents = Array.from({ length: 30 }, (_, n) => `race-${n}`)
  await t.agents(...agents)
  const other = await openDatabase({ url: t.url, poolSize: 8 })
  await Promise.all(
    agents.map(async (agent) => {
      const running = await enqueueTurn(t, agent)
      const queued = await enqueueTurn(t, agent)
      const [turn] = await t.all<{ epoch: number }>(
        'select turn_epoch as epoch from state.agent_state_head where agent_id = $1',
        agent,
      )
      await t.claim()
      const [ended] = await Promise.all([
        stop(queued.agentTurnId),
        deliverTurn(t, {
          projectId: project,
          agentId: agent,
          agentTurnId: running.agentTurnId,
          turnEpoch: turn!.epoch,
        }),
        other.query({ text: 'select * from state.sweep_queued(0, 100)' }),
      ])
      expect(ended).toBe('ended')
      expect(await eventsOf(t, queued.agentTurnId, 'task')).toMatchObject([{ payload: { status: 'canceled' } }])
      expect(await headOf(t, agent)).toMatchObject({ status: 'idle' })
    }),
  )
  await other.close()
})

it('[T3.6] a cancel that waits for a lease finds the turn leased and stops it', async () => {
  await t.agents('b')
  const first = await t.running('b')
  const second = await enqueueTurn(t, 'b')
  const other = await openDatabase({ url: t.url, poolSize: 2 })
  const stopped = await other.transaction(async (tx) => {
    await tx.query({
      text: `select * from state.deliver('{p}', '{b}', array[$1], array[$2::bigint], '{success}', null, array[$3], array['{"text": "x"}'::jsonb])`,
      values: [first.agentTurnId, first.turnEpoch, t.ids.next()],
    })
    const pending = stop(second.agentTurnId)
    // The stop waits for the head that this transaction has locked.
    await untilLockWait(t.db, 'the stop waits for the head')
    return { pending }
  })
  expect(await stopped.pending).toBe('ended')
  await other.close()
  expect(await turnRow(t, second.agentTurnId)).toMatchObject({ status: 'consumed', outcome: 'canceled', turn_epoch: 3 })
  expect(await headOf(t, 'b')).toMatchObject({ status: 'idle', turn_epoch: 3 })
})

it('[T3.6] [T1.6] a repeated stop and a stop of an unknown turn change nothing', async () => {
  await t.agents('c')
  const turn = await suspendedTurn(t, 'c', grepCalls('c-1', 'c-2'))
  expect(await stop(turn.agentTurnId)).toBe('ended')
  expect((await waitsOf(t, turn.agentTurnId)).map((wait) => wait.wait_status)).toEqual(['dropped', 'dropped'])
  expect(await headOf(t, 'c')).toMatchObject({ status: 'idle', turn_epoch: turn.turnEpoch + 1 })
  const before = await fingerprint(t.db)
  expect(await stop(turn.agentTurnId)).toBe('already')
  expect(await stop('no-such-turn')).toBe('unknown_turn')
  expect(await t.kernel.stop({ projectId: 'other', agentTurnId: turn.agentTurnId })).toBe('unknown_turn')
  expect(await fingerprint(t.db)).toEqual(before)
})

it('[T3.6] a stop of a row that was never its agent’s turn returns already', async () => {
  await t.agents('d')
  const forged = t.ids.next()
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, channel_id, message_type, status, agent_turn_id, turn_epoch)
     values ($1, $2, 'd', 'public', 'turn', 'pending', $1, 5)`,
    forged,
    project,
  )
  await t.claim()
  const before = await fingerprint(t.db)
  expect(await stop(forged)).toBe('already')
  expect(await fingerprint(t.db)).toEqual(before)
})
