/** Tests that a program which changes an inbox row without the lock of its head costs a repeated call, and no turn. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openDatabase } from '../../src/ports/database/pool.js'
import type { Database } from '../../src/ports/database/database.js'
import { kernelPerFile } from '../support/kernel.js'
import { headOf, inboxRow, turnRow } from '../support/kernel-rows.js'
import { deliverTurn, enqueueTurn } from '../support/kernel-turns.js'
import { untilLockWait } from '../support/lock-wait.js'
import { until } from '../support/until.js'

const t = kernelPerFile()
let other: Database
beforeAll(async () => {
  other = await openDatabase({ url: t.url, poolSize: 1 })
})
afterAll(() => other.close())

/** Runs `call` while another transaction has changed the row; the transaction commits when the call waits for it. */
async function duringForeignWrite<T>(inboxId: string, call: () => Promise<T>): Promise<PromiseSettledResult<T>> {
  let running: Promise<PromiseSettledResult<T>> | undefined
  await other.transaction(async (tx) => {
    await tx.query({
      text: `update state.agent_inbox set payload = payload || '{"note": 1}' where inbox_id = $1`,
      values: [inboxId],
    })
    running = Promise.allSettled([call()]).then(([result]) => result)
    await untilLockWait(t.db, 'the call waits for the row')
  })
  return running!
}

it('[T3.2a] a claim whose row another program changes is repeated and takes the turn', async () => {
  await t.agents('f1')
  const { inboxId, agentTurnId } = await enqueueTurn(t, 'f1')
  const result = await duringForeignWrite(inboxId, () => t.claim())
  expect(result).toMatchObject({ status: 'rejected', reason: { code: 'database_conflict' } })
  expect(await headOf(t, 'f1')).toMatchObject({ status: 'dispatched' })
  // PostgreSQL reports the error before it releases the locks, and a claim skips a head that is still locked.
  const turns = await until('a claim takes the turn', async () => {
    const claimed = await t.claim()
    return claimed.length > 0 ? claimed : undefined
  })
  expect(turns.map((turn) => turn.agentTurnId)).toEqual([agentTurnId])
  expect(await inboxRow(t, inboxId)).toMatchObject({ status: 'processing', payload: { note: 1 } })
})

it('[T3.5] a delivery whose row another program changes is repeated and ends the turn', async () => {
  await t.agents('f2')
  const { inboxId, agentTurnId } = await enqueueTurn(t, 'f2')
  const [turn] = await t.claim()
  const result = await duringForeignWrite(inboxId, () => deliverTurn(t, turn!))
  expect(result).toMatchObject({ status: 'rejected', reason: { code: 'database_conflict' } })
  expect(await headOf(t, 'f2')).toMatchObject({ status: 'running' })
  await deliverTurn(t, turn!)
  expect(await turnRow(t, agentTurnId)).toMatchObject({ status: 'consumed', outcome: 'success' })
  expect(await headOf(t, 'f2')).toMatchObject({ status: 'idle' })
})
