/** Verbs that take several items return one verdict per (turn, epoch): a stale item does not get the verdict of a live item of the same turn. */
import { expect, it } from 'vitest'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { cardsIn } from '../support/kernel-rows.js'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import { fenceRow, type Verdict } from '../../src/kernel/verdict.js'

const t = kernelPerFile()

/** The same turn twice: claimed by a worker that fell silent, and by the worker that took it over. */
async function takenOver(): Promise<{ stale: ClaimedTurn; live: ClaimedTurn }> {
  const agent = `a${t.ids.next()}`
  await t.agents(agent)
  const stale = await t.running(agent)
  await t.all(`select * from state.reclaim($1, 0, 3, 'epoch', 'infinity', 10)`, target)
  const live = (await t.claim()).find((turn) => turn.agentTurnId === stale.agentTurnId)!
  expect(live.turnEpoch).toBe(stale.turnEpoch + 1)
  return { stale, live }
}

it.each(['stale first', 'live first'])(
  '[T1.2] tells a stale worker that it is stale when its delivery shares a batch with the live one (%s)',
  async (order) => {
    const { stale, live } = await takenOver()
    const deliver = (turn: ClaimedTurn) =>
      t.kernel.deliver({ ...turn, status: 'success', content: { text: `epoch ${turn.turnEpoch}` } })
    const results =
      order === 'stale first'
        ? await Promise.all([deliver(stale), deliver(live)])
        : (await Promise.all([deliver(live), deliver(stale)])).toReversed()
    expect(results).toEqual([{ what: 'stale' }, { what: 'ended' }])
    expect((await cardsIn(t, live.outputBoxId)).at(-1)?.content).toEqual({ text: `epoch ${live.turnEpoch}` })
  },
)

it('[T1.2] says "already" to the same fence only, and "stale" to other epochs and to other agents', async () => {
  const { stale, live } = await takenOver()
  const content = { status: 'success', content: { text: 'x' } } as const
  await t.kernel.deliver({ ...live, ...content })
  const [again, old, foreign] = await Promise.all([
    t.kernel.deliver({ ...live, ...content }),
    t.kernel.deliver({ ...stale, ...content }),
    t.kernel.deliver({ ...live, ...content, agentId: 'someone-else' }),
  ])
  expect([again.what, old.what, foreign.what]).toEqual(['already', 'stale', 'stale'])
})

it('[T1.2] confirms a beat of the live epoch only', async () => {
  const { stale, live } = await takenOver()
  expect(await t.kernel.beat([stale, live], null)).toEqual(new Set([live]))
  expect(await t.kernel.beat([live, stale], null)).toEqual(new Set([live]))
})

const call = (id: string) => ({ tool_call_id: id, tool_name: 'x', card_id: id, arguments: {} })
const card = (id: string) => ({ card_id: id, type: 'agent.thought', role: 'assistant', content: { text: id } })
const verbs: readonly [verb: string, done: string, more: (id: string) => object, rest: readonly unknown[]][] = [
  ['record', 'recorded', (id) => ({ cards: [card(id)], step: { step_id: id, phase: 'x', status: 'done' } }), []],
  ['suspend', 'suspended', (id) => ({ step_id: id, calls: [call(id)] }), [60]],
  ['swap_box', 'swapped', (id) => ({ box_id: id, card_ids: [], cards: [card(id)] }), []],
  ['resume', 'resumed', () => ({}), ['worker-1']],
]
it.each(verbs)('[T1.2] state.%s gives each epoch of a turn its own verdict', async (verb, done, more, rest) => {
  const { stale, live } = await takenOver()
  if (verb === 'resume') {
    const id = t.ids.next()
    await t.kernel.suspend({ ...live, stepId: id, calls: [{ toolCallId: id, toolName: 'x', args: {} }] }, 60)
    await t.kernel.report([{ projectId: project, toolCallId: id, status: 'success', result: 1 }])
    await t.claim()
  }
  const [lost, written] = [t.ids.next(), t.ids.next()]
  const items = [
    { ...fenceRow(stale), ...more(lost) },
    { ...fenceRow(live), ...more(written) },
  ]
  const places = rest.map((_, at) => `, $${at + 2}`).join('')
  const verdicts = await t.all<Verdict<string>>(
    `select * from state.${verb}($1::json${places}) order by turn_epoch`,
    JSON.stringify(items),
    ...rest,
  )
  expect(verdicts.map(({ what, turn_epoch }) => [what, turn_epoch])).toEqual([
    ['stale', stale.turnEpoch],
    [done, live.turnEpoch],
  ])
  expect(await t.all('select card_id from cards.cards where card_id = $1', lost)).toEqual([])
})
