/** A conversation that outgrows its model (T5.4): older steps become a summary in a new box, pairs stay together, nothing is lost silently. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ModelRequest } from '../../../src/ports/model/model.js'
import type { Script } from '../../../src/ports/model/scripted.js'
import { promptTokens } from '../../../src/ports/model/tokens.js'
import { budgetOf } from '../../support/forks.js'
import { cardsIn, headOf } from '../../support/kernel-rows.js'
import { flawsIn, openModelSetup, type ModelSetup } from './model-setup.js'

let b: ModelSetup
beforeAll(async () => {
  b = await openModelSetup({ tools: { read: ({ n }) => `page ${String(n)}: ${'lorem '.repeat(200)}` } })
})
afterAll(() => b.close())

const isSummary = ({ messages }: ModelRequest) =>
  (messages[0] as { text: string }).text.startsWith('You write the working memory')

/** Reads `pages` pages; continues after the last page number in the conversation or its summary. */
const reader =
  (pages: number, asked: ModelRequest[], summary: Script): Script =>
  (request, turn, signal) => {
    asked.push(request)
    if (isSummary(request)) return summary(request, turn, signal)
    const seen = [...JSON.stringify(request.messages).matchAll(/page (\d+):/g)].map((match) => Number(match[1]))
    const next = Math.max(0, ...seen) + 1
    return next > pages ? { text: `read ${pages} pages` } : { calls: [{ name: 'read', args: { n: next } }] }
  }

const summarise: Script = (request) => {
  const seen = [...JSON.stringify(request.messages).matchAll(/page (\d+):/g)].map((match) => Number(match[1]))
  return { text: `So far up to page ${Math.max(...seen)}: nothing but lorem.` }
}

it('[T5.4] compacts into a new box: recent steps stay complete, older ones become a summary, the old box does not change', async () => {
  const asked: ModelRequest[] = []
  const model = b.script(reader(14, asked, summarise))
  const turn = await b.begin(
    { model, context_tokens: 3_000, max_output_tokens: 400 },
    { budget: { tokens: 1_000_000 } },
  )
  await b.worker.step()
  const ended = await b.ended(turn)
  expect(ended).toMatchObject({ outcome: 'success', text: 'read 14 pages' })
  const summaries = asked.filter(isSummary)
  expect(summaries.length).toBeGreaterThanOrEqual(2)
  expect(Math.max(...asked.map(promptTokens))).toBeLessThanOrEqual(3_000)
  expect(asked.flatMap(flawsIn)).toEqual([])
  // Each page was read once: what was summarised is remembered.
  expect(b.ran['read']).toBe(14)
  const head = await headOf(b.t, ended.agent_id)
  const now = await cardsIn(b.t, head.output_box_id)
  expect(now.filter((card) => card.metadata['summary'] !== undefined)).toHaveLength(1)
  const boxes = await b.t.all<{ box_id: string; cards: number }>(
    `select x.box_id, count(*)::int as cards from cards.box_cards x join cards.cards c using (card_id)
      where c.metadata ->> 'agent_turn_id' = $1 group by 1`,
    turn,
  )
  expect(boxes).toHaveLength(1 + summaries.length)
  const steps = ended.steps.filter((step) => step.phase === 'compact')
  expect(steps).toHaveLength(summaries.length)
  expect(steps[0]).toMatchObject({
    status: 'success',
    metadata: { usage: { total_tokens: expect.any(Number) }, steps_summarised: expect.any(Number) },
  })
  // Every call is charged, also those that summarise.
  const total = ended.steps.reduce(
    (sum, step) => sum + (step.metadata['usage'] as { total_tokens: number }).total_tokens,
    0,
  )
  expect(await budgetOf(b.t, ended.agent_turn_id!)).toMatchObject({ tokens_used: total })
})

it('[T5.4] lists older steps with the reason if the summary fails, and continues the turn', async () => {
  const asked: ModelRequest[] = []
  const model = b.script(reader(9, asked, () => Promise.reject(Object.assign(new Error('no'), { statusCode: 400 }))))
  const ended = await b.run({ model, context_tokens: 3_000, max_output_tokens: 400, budget: { max_steps: 30 } })
  expect(ended.outcome).toBe('success')
  expect(ended.steps.find((step) => step.phase === 'compact')).toMatchObject({
    status: 'failed',
    error: 'model_request_refused',
  })
  const after = asked[asked.findIndex(isSummary) + 1]!
  expect((after.messages[1] as { text: string }).text).toMatch(
    /older steps .* because the summary failed: model_request_refused/,
  )
})

it('charges a summary like any call, and continues without it if the budget does not cover it', async () => {
  const asked: ModelRequest[] = []
  const model = b.script(reader(5, asked, summarise))
  const ended = await b.run({ model, context_tokens: 3_000, max_output_tokens: 400 }, { budget: { tokens: 11_000 } })
  const used = await b.t.one<{ tokens_used: number }>(
    'select tokens_used from state.budgets where agent_turn_id = $1',
    ended.agent_turn_id,
  )
  const told_ = ended.steps.reduce(
    (sum, step) => sum + ((step.metadata['usage'] as { total_tokens: number } | undefined)?.total_tokens ?? 0),
    0,
  )
  expect(used.tokens_used).toBe(told_)
})

it('counts consecutive faults across a compaction', async () => {
  const asked: ModelRequest[] = []
  const model = b.script((request, turn, signal) => {
    asked.push(request)
    return isSummary(request)
      ? summarise(request, turn, signal)
      : { text: 'z'.repeat(1_500), calls: [{ name: 'nope' }] }
  })
  const ended = await b.run({ model, context_tokens: 1_300, max_output_tokens: 200 })
  expect(ended).toMatchObject({ outcome: 'failed', error: 'tool_calls_refused' })
  expect(asked.some(isSummary)).toBe(true)
  expect(ended.steps.filter((step) => step.phase === 'model')).toHaveLength(3)
})

it('does not reset max_steps by a compaction', async () => {
  const asked: ModelRequest[] = []
  const model = b.script(reader(100, asked, summarise))
  const ended = await b.run({ model, context_tokens: 3_000, max_output_tokens: 400, budget: { max_steps: 9 } })
  expect(ended).toMatchObject({ outcome: 'failed', error: 'max_steps' })
  expect(ended.steps.filter((step) => step.phase === 'model')).toHaveLength(9)
})

it('cuts a context box that is larger than the context window, but not the task', async () => {
  const pages = Array.from({ length: 40 }, (_, n) => ({
    type: 'agent.thought' as const,
    content: { text: `leaf ${n} ${'z'.repeat(2_000)}` },
  }))
  const contextBoxId = await b.t.kernel.makeBox({
    projectId: 'p',
    cards: [{ type: 'task.instruction', role: 'user', content: { text: 'the task itself' } }, ...pages],
  })
  const asked: ModelRequest[] = []
  const model = b.script((request) => {
    asked.push(request)
    return { text: 'ok' }
  })
  expect(await b.run({ model, context_tokens: 4_000, max_output_tokens: 400 }, { contextBoxId })).toMatchObject({
    outcome: 'success',
  })
  expect(promptTokens(asked[0]!)).toBeLessThan(4_000)
  const text = (asked[0]!.messages[1] as { text: string }).text
  expect(text).toContain('the task itself')
  expect(text).toContain('leaf 39')
  expect(text).toMatch(/\[\d+ older cards are left out\]/)
})
