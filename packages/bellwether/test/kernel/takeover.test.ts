import { describe, expect, it } from 'vitest'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import { reap, reclaim } from '../../src/kernel/verbs/watchdog/watchdog.js'
import type { Fence } from '../../src/kernel/verdict.js'
import { hydrate } from '../../src/worker/hydrate.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
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

// No worker is alive here: a target without workers keeps its turns for this long.
const reapSettings = { ...guardSettings, maxQueueSeconds: 300 }

/** Every verb that a worker can call for a turn; with a lost fence each returns stale. */
const verbs: Readonly<Record<string, (fence: Fence) => Promise<unknown>>> = {
  beat: async (fence) => ((await t.kernel.beat([fence], 'old')).size === 0 ? 'stale' : 'alive'),
  activity: async (fence) =>
    (await t.kernel.beat([{ ...fence, activity: 'executing_tool', currentTool: 'x' }], 'old')).size === 0
      ? 'stale'
      : 'alive',
  record: (fence) =>
    t.kernel.record({
      ...fence,
      cards: [{ type: 'agent.thought', content: { text: 'zombie' } }],
      step: { stepId: t.ids.next(), phase: 'x', status: 'done' },
    }),
  appendTranscript: async (fence) =>
    (
      await t.kernel.appendTranscript(
        [{ ...fence, session: 1, entries: [{ kind: 'text', content: 'zombie', number: 1, ageMs: 0 }] }],
        65_536,
      )
    )[0],
  suspend: (fence) => t.kernel.suspend({ ...fence, stepId: t.ids.next(), calls: grepCalls(t.ids.next()) }, 30),
  resume: (fence) => t.kernel.resume(fence, 'old'),
  swapBox: (fence) => t.kernel.swapBox({ ...fence, cards: [{ type: 'agent.thought', content: {} }] }),
  deliver: async (fence) => (await deliverTurn(t, fence)).what,
  hydrate: (fence) => hydrate(t.db, fence),
}

async function nothingMoves(fence: Fence): Promise<void> {
  const before = await fingerprint(t.db)
  t.rings()
  for (const [name, say] of Object.entries(verbs)) expect([name, await say(fence)]).toEqual([name, 'stale'])
  expect(await fingerprint(t.db)).toEqual(before)
  expect(t.rings()).toEqual([])
}

describe('every write is a CAS on the turn and its epoch', () => {
  it('[T1.2] a fence with another epoch, turn, agent or project writes nothing with any verb', async () => {
    await t.agents('a', 'b')
    const turn = await t.running('a')
    await suspendedTurn(t, 'b', grepCalls('b-1'))
    const lies: Fence[] = [
      { ...turn, turnEpoch: turn.turnEpoch + 1 },
      { ...turn, turnEpoch: turn.turnEpoch - 1 },
      { ...turn, agentTurnId: t.ids.next() },
      { ...turn, agentId: 'b' },
      { ...turn, projectId: 'other' },
    ]
    for (const lie of lies) await nothingMoves(lie)
    expect(await deliverTurn(t, turn)).toEqual({ what: 'ended' })
  })

  it('[T1.2] the status is part of the fence: a suspended turn that still waits cannot record, suspend, resume or deliver', async () => {
    await t.agents('c')
    const turn = await suspendedTurn(t, 'c', grepCalls('c-1', 'c-2'))
    await reportSuccess(t, 'c-1')
    await t.claim()
    const before = await fingerprint(t.db)
    for (const name of ['beat', 'record', 'suspend', 'resume', 'swapBox', 'deliver'])
      expect([name, await verbs[name]!(turn)]).toEqual([name, 'stale'])
    expect(await fingerprint(t.db)).toEqual(before)
  })
})

describe('a worker that fell silent', () => {
  async function silent(agent: string): Promise<ClaimedTurn> {
    await t.agents(agent)
    const turn = await t.running(agent)
    await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text: 'half done' } }] })
    await t.advance(31)
    return turn
  }

  it('[T8.1] the turn of a silent worker is taken over from its cards with a new epoch, and its late writes change no row', async () => {
    const old = await silent('d')
    await reclaim(t.db, target, 30, 3, fullWatchWindow)
    expect(await headOf(t, 'd')).toMatchObject({ status: 'running', turn_epoch: old.turnEpoch + 1 })
    await nothingMoves(old)
    const [next] = (await t.claim(9, 'worker-2')).filter((turn) => turn.agentId === 'd')
    expect(next).toMatchObject({
      agentTurnId: old.agentTurnId,
      turnEpoch: old.turnEpoch + 1,
      takenOver: true,
      deaths: 1,
    })
    await nothingMoves(old)
    expect((await cardsIn(t, next!.outputBoxId)).map((card) => card.content)).toEqual([{ text: 'half done' }])
    expect(await deliverTurn(t, next!)).toEqual({ what: 'ended' })
    await nothingMoves(old)
    expect(await eventsOf(t, old.agentTurnId, 'task')).toHaveLength(1)
  })

  it('[T8.1] the turn of a silent worker is reaped with a new epoch, and its late writes change no row', async () => {
    const old = await silent('e')
    await t.advance(300)
    await reap(t.db, t.ids, reapSettings, fullWatchWindow)
    expect(await headOf(t, 'e')).toMatchObject({ status: 'idle', turn_epoch: old.turnEpoch + 1 })
    await nothingMoves(old)
    // It does not affect the next turn either.
    const next = await t.running('e')
    await nothingMoves(old)
    expect(next.turnEpoch).toBe(old.turnEpoch + 2)
    expect(await deliverTurn(t, next)).toEqual({ what: 'ended' })
  })

  it('[T8.1] a silent worker cannot deliver after a stop, and gets stale rather than already', async () => {
    await t.agents('f')
    const old = await t.running('f')
    await t.kernel.stop({ projectId: project, agentTurnId: old.agentTurnId })
    await nothingMoves(old)
    expect(await turnRow(t, old.agentTurnId)).toMatchObject({ outcome: 'canceled', turn_epoch: old.turnEpoch + 1 })
  })
})

it('[T1.2] a write that has passed its fence locks the head: a reap waits for it', async () => {
  await t.agents('g')
  const turn = await t.running('g')
  const writing = JSON.stringify([
    {
      project_id: project,
      agent_id: 'g',
      agent_turn_id: turn.agentTurnId,
      turn_epoch: turn.turnEpoch,
      cards: [{ card_id: t.ids.next(), type: 'agent.thought', content: {} }],
    },
  ])
  await t.advance(400)
  await t.db.transaction(async (tx) => {
    await tx.query({ text: 'select * from state.record($1::json)', values: [writing] })
    expect((await reap(t.db, t.ids, reapSettings, fullWatchWindow)).verdicts).toEqual([])
  })
  const { verdicts } = await reap(t.db, t.ids, reapSettings, fullWatchWindow)
  expect(verdicts.filter((one) => one.agent_turn_id === turn.agentTurnId)).toMatchObject([{ what: 'ended' }])
  expect(await enqueueTurn(t, 'g')).toMatchObject({ status: 'pending' })
})
