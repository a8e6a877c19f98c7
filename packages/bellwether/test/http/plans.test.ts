/** Reads of the HTTP API use indexes: none scans a table that grows with history. */
import { beforeAll, expect, it } from 'vitest'
import { listAgents, listWorkers } from '../../src/kernel/reads/agents.js'
import {
  readCosts,
  readChildTurns,
  readTurnStatuses,
  readTurnDetail,
  readTurnCards,
} from '../../src/kernel/reads/turn-detail.js'
import { readSpans } from '../../src/kernel/reads/spans.js'
import { listTurns, readInstructions, readTurn } from '../../src/kernel/reads/turns.js'
import type { Queryable, Statement } from '../../src/ports/database/database.js'
import { kernelPerFile, project } from '../support/kernel.js'

const t = kernelPerFile()
let turnId: string
beforeAll(async () => {
  await t.agents('ann')
  const turn = await t.running('ann')
  turnId = turn.agentTurnId
  await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: {} }] })
  await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })
})

/** Sequential scans of tables that grow with history. */
const past =
  /Seq Scan on (agent_inbox|agent_steps|turn_waiting_tools|interventions|edges|outbox|cards|box_cards|boxes|budgets|reservations|batch\w*)\b/

it.each<[string, (db: Queryable) => Promise<unknown>]>([
  ['agents', (db) => listAgents(db, project, '', 1_000)],
  ['workers', (db) => listWorkers(db, project)],
  ['the detail of a turn', (db) => readTurnDetail(db, turnId)],
  ['the spans of a turn', (db) => readSpans(db, turnId)],
  ['child turns', (db) => readChildTurns(db, turnId)],
  [
    'the cards of a turn',
    async (db) => readTurnCards(db, (await readTurn(db, project, turnId))!, await readTurnDetail(db, turnId)),
  ],
  ['turns with words', (db) => listTurns(db, { projectId: project, text: 'x', minCostMicros: 1, limit: 50 })],
  ['costs', (db) => readCosts(db, [turnId])],
  ['instructions', (db) => readInstructions(db, [turnId])],
  ['turn statuses', (db) => readTurnStatuses(db, project, [turnId])],
])('reading %s scans no table that grows with history', async (_what, read) => {
  const statements: Statement[] = []
  const recording: Queryable = {
    query: (query) => {
      statements.push(query)
      return t.db.query(query)
    },
  }
  await read(recording)
  expect(statements.length).toBeGreaterThan(0)
  const plans = await t.db.transaction(async (tx) => {
    // For three rows the planner prefers a sequential scan; without it, it takes an index wherever one fits.
    await tx.query({ text: 'set local enable_seqscan = off' })
    const found: string[] = []
    for (const { text, values = [] } of statements) {
      const rows = await tx.query<{ 'QUERY PLAN': string }>({ text: `explain ${text}`, values })
      found.push(rows.map((row) => row['QUERY PLAN']).join('\n'))
    }
    return found
  })
  for (const plan of plans) expect(plan).not.toMatch(past)
})
