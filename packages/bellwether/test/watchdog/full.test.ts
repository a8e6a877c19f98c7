/** Watchdogs with a full worker, with a head that cannot be ended, and with a clock that was set back. */
import { expect, it } from 'vitest'
import { resetFutureTimes, sweepQueued } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { kernelPerTest, project } from '../support/kernel.js'
import { guardAlone, guardOn, workerOn } from '../support/watchdog.js'
import { turnsDone } from '../support/worker.js'

const t = kernelPerTest()

const status = async (agentId: string) =>
  (await t.one<{ status: string }>('select status from state.turns where agent_id = $1', agentId)).status

it('[W2.5] keeps turns that are leased behind a full live worker, and when it is gone, up to max_queue_seconds', async () => {
  await t.agents('ann', 'bob')
  const guard = guardAlone(t, { maxQueueSeconds: 200 })
  const ends: (() => void)[] = []
  const agent = async () => {
    await new Promise<void>((resolve) => ends.push(resolve))
    return { deliver: { text: 'done' } }
  }
  const watching = workerOn(t, { agent, concurrency: 1 })
  const { worker } = watching
  await t.kernel.enqueue({ projectId: project, agentId: 'ann' })
  await worker.step()
  await t.kernel.enqueue({ projectId: project, agentId: 'bob' })
  for (let second = 0; second < 120; second += 5) {
    await t.advance(5)
    await worker.beat()
    await watching.step()
    await guard.step()
  }
  expect(await status('bob')).toBe('dispatched')
  for (let second = 0; second < 60; second += 5) {
    await t.advance(5)
    await guard.step()
  }
  expect(await status('bob')).toBe('dispatched')
  for (let second = 0; second < 30; second += 5) {
    await t.advance(5)
    await guard.step()
  }
  expect(await status('bob')).toBe('timeout')
  for (const end of ends) end()
  await turnsDone(worker)
})

it('[W2.6] ends the others if one head cannot be ended, and records why', async () => {
  await t.agents('ann', 'bob', 'cid')
  for (const agentId of ['ann', 'bob', 'cid']) await t.running(agentId)
  // The trigger rejects every deliverable of bob.
  await t.db.query({
    text: `create function state.poison() returns trigger language plpgsql as $$
        begin if new.metadata ->> 'agent_id' = 'bob' then raise exception 'poisoned'; end if; return new; end $$;
      create trigger poison before insert on cards.cards for each row execute function state.poison()`,
  })
  const guard = guardOn(t)
  await guard.step()
  for (let second = 0; second < 320; second += 10) {
    await t.advance(10)
    await guard.step()
  }
  expect([await status('ann'), await status('bob'), await status('cid')]).toEqual(['failed', 'running', 'failed'])
  const notes = await t.all("select agent_id, reason from state.interventions where kind = 'reap_failed'")
  expect(notes[0]).toEqual({ agent_id: 'bob', reason: 'poisoned' })
})

it('[W2.8] leases a queued turn whose time is in the future because the clock was set back', async () => {
  await t.agents('ann', 'bob')
  const box = await t.one<{ output_box_id: string }>(
    "select output_box_id from state.agent_state_head where agent_id = 'ann'",
  )
  const holder = await t.running('ann')
  await t.kernel.enqueue({ projectId: project, agentId: 'bob', outputBoxId: box.output_box_id })
  await t.advance(-3_600)
  await resetFutureTimes(t.db)
  await t.kernel.deliver({ ...holder, status: 'success', content: { text: 'free' } })
  expect(await status('bob')).toBe('queued')
  await sweepQueued(t.db, 5)
  expect(await status('bob')).toBe('dispatched')
})

it('[W2.3b] reads the results of the latest step after any clock change', async () => {
  await t.agents('ann')
  const turn = await t.running('ann')
  for (const [step, advance] of [
    ['s1', -3_600],
    ['s2', 0],
  ] as const) {
    await t.kernel.suspend(
      { ...turn, stepId: step, calls: [{ toolCallId: `${step}-c`, toolName: 'grep', args: {} }] },
      30,
    )
    await t.kernel.report([{ projectId: project, toolCallId: `${step}-c`, status: 'success', result: step }])
    await t.claim()
    await t.kernel.resume(turn, 'w1', step)
    await t.advance(advance)
  }
  expect((await t.kernel.readResults(turn.agentTurnId)).map(({ result }) => result)).toEqual(['s2'])
})
