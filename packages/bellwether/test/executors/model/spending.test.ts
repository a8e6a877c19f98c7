/** Spending limits in a model's turn: the configured action, or a wait for the next period. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { SpendingAction } from '@bellwether/protocol'
import { setSpendingLimits } from '../../../src/kernel/verbs/budgets/spending.js'
import type { SpendingLimit } from '../../../src/settings/spending.js'
import { releaseParked } from '../../../src/kernel/verbs/accounts/accounts.js'
import { moveToNoon } from '../../support/kernel.js'
import { headOf, turnRow } from '../../support/kernel-rows.js'
import { turnsDone } from '../../support/worker.js'
import { openModelSetup, type ModelSetup } from './model-setup.js'

let b: ModelSetup
let large: string
let small: string
beforeAll(async () => {
  b = await openModelSetup()
  await moveToNoon(b.t)
  const answer = (text: string) => () => ({
    text,
    usage: { inputTokens: 400, outputTokens: 100, cacheReadTokens: 0, cacheWriteTokens: 0 },
  })
  large = b.script(answer('large'))
  small = b.script(answer('small'))
})
afterAll(() => b.close())

const limit = (action: SpendingAction, ...limits: SpendingLimit[]) =>
  setSpendingLimits(b.t.db, limits, { action, timeZone: 'UTC' })

async function start(agentId: string, spec: object): Promise<string> {
  const turn = await b.begin({ model: large, max_output_tokens: 256, ...spec }, { agentId })
  await b.worker.step()
  await turnsDone(b.worker)
  return turn
}

it('waits for the next period with "hold", and continues when it begins', async () => {
  await limit('hold', { scope: 'agent', name: 'ann', period: 'day', tokens: 1_000 })
  const first = await start('ann', {})
  expect(await turnRow(b.t, first)).toMatchObject({ outcome: 'success' })
  await b.t.all("update state.spending_periods set tokens_used = 999 where limit_id = 'agent ann day'")
  const second = await start('ann', {})
  expect((await headOf(b.t, 'ann')).status).toBe('suspended')
  expect(await b.t.all('select account, reason from state.account_holds where ended_at is null')).toEqual([
    { account: 'spending: p, agent ann day', reason: 'spending limit "agent ann day" reached' },
  ])
  // The day is over.
  await b.t.all(
    "update state.spending_periods set starts_at = starts_at - interval '1 day', ends_at = ends_at - interval '1 day'",
  )
  await b.t.all("update state.account_holds set until = state.now() - interval '1 second'")
  await releaseParked(b.t.db, b.t.ids)
  await releaseParked(b.t.db, b.t.ids)
  expect(await b.ended(second)).toMatchObject({ outcome: 'success', deaths: 0 })
})

it('uses the cheaper model with "cheaper_model" if the limit is that of the model', async () => {
  await limit('cheaper_model', { scope: 'model', name: large, period: 'month', tokens: 1 })
  const turn = await start('bob', { cheaper_model: small })
  expect(await b.ended(turn)).toMatchObject({ outcome: 'success', text: 'small' })
})

it('ends the turn with "stop_run", and names the limit to no other agent', async () => {
  await limit('stop_run', { scope: 'agent', name: 'cid', period: 'day', tokens: 1 })
  const turn = await start('cid', {})
  expect(await b.ended(turn)).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
  expect(await b.ended(await start('dan', {}))).toMatchObject({ outcome: 'success' })
})
