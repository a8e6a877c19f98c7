/** Limits of accounts, as model providers and coding agents report them: turns wait without a worker and continue by themselves. */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { releaseParked } from '../../src/kernel/verbs/accounts/accounts.js'
import { onPath } from '../support/agents/coding-agents.js'
import { openFakeProvider, type FakeProvider } from '../support/agents/fake-openai.js'
import { headOf } from '../support/kernel-rows.js'
import type { TestKernel } from '../support/kernel.js'
import { turnsDone } from '../support/worker.js'
import { openCommandSetup, type CommandSetup } from './command-setup.js'
import { openModelSetup, type ModelSetup } from './model/model-setup.js'

const hourMs = 3_600_000

interface HoldRow {
  readonly account: string
  readonly reason: string
  readonly until: Date
  readonly window_no: number
}
const activeHolds = (t: TestKernel) =>
  t.all<HoldRow>('select * from state.account_holds where ended_at is null order by account')
const endWindows = (t: TestKernel) =>
  t.all("update state.account_holds set until = state.now() - interval '1 second' where ended_at is null")
const parkedTurns = async (t: TestKernel) =>
  (await t.all<{ agent_id: string }>('select agent_id from state.parked_turns order by parked_at')).map(
    (row) => row.agent_id,
  )

describe('coding agents', () => {
  let b: CommandSetup
  onPath()
  beforeAll(async () => {
    b = await openCommandSetup()
  })
  afterAll(() => b.close())

  it.each(['claude', 'codex', 'gemini', 'opencode', 'aider'] as const)(
    'a turn of %s at the limit of its account waits until the reset that the program names, and then succeeds',
    async (preset) => {
      const file = join(b.folder, `${preset}.limit`)
      const runs = async () => (await readFile(`${file}.runs`, 'utf8')).split('\n').length - 1
      const reset = Math.round((Date.now() + hourMs) / 1_000)
      await writeFile(file, String(reset))
      const spec = { preset, instructions: `stand-in: limit ${file}` }
      const [first, second] = [`${preset}-1`, `${preset}-2`] as const
      const turn = await b.begin(spec, { agentId: first })
      await turnsDone(b.worker)
      expect((await headOf(b.t, first)).status).toBe('suspended')
      const [hold] = await activeHolds(b.t)
      expect(hold).toMatchObject({ account: preset, window_no: 1, reason: expect.stringMatching(/limit|exhausted/i) })
      expect(Math.abs(hold!.until.getTime() / 1_000 - reset)).toBeLessThan(65)
      // Another turn of the account waits before its program starts.
      const other = await b.begin(spec, { agentId: second })
      await turnsDone(b.worker)
      expect((await headOf(b.t, second)).status).toBe('suspended')
      expect(await runs()).toBe(1)
      // The window is over: one turn probes the account and finds the limit again.
      await endWindows(b.t)
      await releaseParked(b.t.db, b.t.ids)
      await b.worker.step()
      await turnsDone(b.worker)
      expect(await runs()).toBe(2)
      expect(await activeHolds(b.t)).toMatchObject([{ account: preset, window_no: 2 }])
      expect((await parkedTurns(b.t)).toSorted()).toEqual([first, second])
      // The next probe succeeds, and the others follow.
      await rm(file)
      await endWindows(b.t)
      await releaseParked(b.t.db, b.t.ids)
      await b.worker.step()
      await turnsDone(b.worker)
      expect(await activeHolds(b.t)).toEqual([])
      await b.worker.step()
      for (const id of [turn, other]) expect(await b.ended(id)).toMatchObject({ outcome: 'success', deaths: 0 })
      expect(await runs()).toBe(4)
    },
  )

  it('a limit in the output of a run that succeeded, or of a plain command, holds nothing', async () => {
    const printed = 'echo "You\'ve hit your usage limit. Try again at 7:58 PM."'
    expect(await b.run({ command: printed, account: 'mine' })).toMatchObject({ outcome: 'success' })
    expect(await b.run({ command: `${printed}; exit 1` })).toMatchObject({ outcome: 'failed', error: 'command_exit_1' })
    expect(await activeHolds(b.t)).toEqual([])
    await b.begin({ command: `${printed}; exit 1`, account: 'mine' })
    await turnsDone(b.worker)
    expect(await activeHolds(b.t)).toMatchObject([{ account: 'mine' }])
    await b.t.kernel.endHold('mine', 'ann')
  })
})

describe('model providers', () => {
  let provider: FakeProvider
  let b: ModelSetup
  beforeAll(async () => {
    provider = await openFakeProvider()
    b = await openModelSetup({ env: { WORK_BASE_URL: provider.url, WORK_API_KEY: 'k1', WORK_ACCOUNT: 'work' } })
  })
  afterAll(async () => {
    await b.close()
    await provider.close()
  })

  it('a 429 with a reset parks the turn without cost, one probe follows, and all turns of the account continue', async () => {
    provider.behave(() => ({ status: 429, headers: { 'retry-after': '3600' } }))
    const turns = []
    for (let at = 0; at < 3; at += 1) turns.push(await b.begin({ model: 'work/m' }, { budget: { tokens: 100_000 } }))
    await b.worker.step()
    await turnsDone(b.worker)
    expect(await activeHolds(b.t)).toMatchObject([{ account: 'work', reason: expect.stringContaining('429') }])
    expect(await parkedTurns(b.t)).toHaveLength(3)
    const before = provider.requests.length
    const probe = async () => {
      await endWindows(b.t)
      await releaseParked(b.t.db, b.t.ids)
      await b.worker.step()
      await turnsDone(b.worker)
    }
    await probe()
    expect(provider.requests).toHaveLength(before + 1)
    // A probe without an answer uses its window too.
    provider.behave(() => ({ status: 500 }))
    await probe()
    expect(provider.requests).toHaveLength(before + 2)
    expect(await activeHolds(b.t)).toMatchObject([{ window_no: 3 }])
    provider.behave(() => ({ text: 'done' }))
    await probe()
    for (const turn of turns) expect(await b.ended(turn)).toMatchObject({ outcome: 'success', deaths: 0, text: 'done' })
    expect(provider.requests).toHaveLength(before + 5)
    const used = await b.t.all<{ tokens_used: number }>('select tokens_used::int from state.budgets')
    expect(used).toEqual(turns.map(() => ({ tokens_used: 15 })))
  })

  it('a short pause is waited for, and another account is not held', async () => {
    let refused = false
    provider.behave(() => {
      if (refused) return { text: 'done' }
      refused = true
      return { status: 429, headers: { 'retry-after-ms': '20' } }
    })
    expect(await b.run({ model: 'work/m', account: 'other' })).toMatchObject({ outcome: 'success' })
    expect(await activeHolds(b.t)).toEqual([])
  })
})
