/** What people look at is found by an index, however long the house has been at work: no look reads the past from one end to the other. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { listAgents, listWorkers } from '../../src/kernel/reads/agents.js'
import {
  readCosts,
  readChildTurns,
  readTurnStatuses,
  readTurnDetail,
  readTurnCards,
} from '../../src/kernel/reads/turn-detail.js'
import { readTurn } from '../../src/kernel/reads/turns.js'
import type { Queryable, Statement } from '../../src/ports/database/database.js'
import { project, testKernel, type TestKernel } from '../support/kernel.js'

let t: TestKernel
let turnId: string
beforeAll(async () => {
  t = await testKernel()
  await t.agents('ann')
  const turn = await t.running('ann')
  turnId = turn.agentTurnId
  await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: {} }] })
  await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })
})
afterAll(() => t.drop())

/** Everything that grows with history. */
const past =
  /Seq Scan on (agent_inbox|agent_steps|turn_waiting_tools|interventions|execution_edges|events|cards|box_cards|boxes|budgets|reservations|batch\w*)\b/

it.each<[string, (db: Queryable) => Promise<unknown>]>([
  ['agents', (db) => listAgents(db, project, '', 1_000)],
  ['workers', (db) => listWorkers(db, project)],
  ['a turn’s trail', (db) => readTurnDetail(db, turnId)],
  ['its kin', (db) => readChildTurns(db, turnId)],
  [
    'its cards',
    async (db) => readTurnCards(db, (await readTurn(db, project, turnId))!, await readTurnDetail(db, turnId)),
  ],
  ['costs', (db) => readCosts(db, [turnId])],
  ['standings', (db) => readTurnStatuses(db, project, [turnId])],
])('%s', async (_what, look) => {
  const asked: Statement[] = []
  const listening: Queryable = {
    query: (query) => {
      asked.push(query)
      return t.db.query(query)
    },
  }
  await look(listening)
  expect(asked.length).toBeGreaterThan(0)
  const plans = await t.db.transaction(async (tx) => {
    // With three rows in a table reading all of them is right; where an index fits, it is now taken all the same.
    await tx.query({ text: 'set local enable_seqscan = off' })
    const found: string[] = []
    for (const { text, values = [] } of asked) {
      const rows = await tx.query<{ 'QUERY PLAN': string }>({ text: `explain ${text}`, values })
      found.push(rows.map((row) => row['QUERY PLAN']).join('\n'))
    }
    return found
  })
  for (const plan of plans) expect(plan).not.toMatch(past)
})
