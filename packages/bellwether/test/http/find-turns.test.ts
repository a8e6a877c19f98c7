/** Tests the filters of the list of turns: time, error, cost and words, alone and together with the status. */
import { defined } from '@bellwether/base'
import { beforeAll, expect, it } from 'vitest'
import { listTurns, readInstructions, type TurnFilter } from '../../src/kernel/reads/turns.js'
import { kernelPerFile, project } from '../support/kernel.js'

const t = kernelPerFile()
const turns: Record<string, string> = {}
const names = new Map<string, string>()
let noon: Date

/** Queues and ends a turn. */
async function ended(name: string, agentId: string, instruction: string, end: { text: string; error?: string }) {
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId, instruction })
  const turn = (await t.claim()).find((one) => one.agentTurnId === agentTurnId)!
  turns[name] = agentTurnId
  names.set(agentTurnId, name)
  return {
    turn,
    deliver: () =>
      t.kernel.deliver({
        ...turn,
        status: end.error === undefined ? 'success' : 'failed',
        ...defined({ error: end.error }),
        content: { text: end.text },
      }),
  }
}

beforeAll(async () => {
  await t.agents('coder', 'writer', 'waiter')
  const old = await ended('old', 'coder', 'Fix the price list of the shop', { text: 'The totals add up now' })
  const usage = { input_tokens: 10, output_tokens: 5, cost_usd: 0.75 }
  await t.kernel.record({
    ...old.turn,
    step: { stepId: t.ids.next(), phase: 'model', status: 'success', metadata: { usage } },
  })
  await old.deliver()
  await t.advance(3_600)
  noon = (await t.one<{ now: Date }>('select state.now() as now')).now
  await t.advance(60)
  const poor = await ended('poor', 'coder', 'Rewrite everything', { text: 'stopped', error: 'budget_exceeded: tokens' })
  await poor.deliver()
  await (await ended('broken', 'writer', 'Write a poem about prices', { text: 'no', error: 'tool_failed' })).deliver()
  turns['queued'] = (
    await t.kernel.enqueue({ projectId: project, agentId: 'waiter', instruction: 'price' })
  ).agentTurnId
  names.set(turns['queued'], 'dispatched')
  const last = await t.kernel.enqueue({ projectId: project, agentId: 'waiter', instruction: 'price tag' })
  names.set(last.agentTurnId, 'queued')
})

const found = async (filter: TurnFilter) =>
  (await listTurns(t.db, { projectId: project, limit: 50, ...filter })).turns.map((turn) =>
    names.get(turn.agent_turn_id),
  )

it.each<[string, () => TurnFilter, string[]]>([
  ['no filter', () => ({}), ['queued', 'dispatched', 'broken', 'poor', 'old']],
  ['since a time', () => ({ since: noon }), ['queued', 'dispatched', 'broken', 'poor']],
  ['before a time', () => ({ until: noon }), ['old']],
  ['between two times', () => ({ since: noon, until: noon }), []],
  ['an end since a time', () => ({ endedSince: noon }), ['broken', 'poor']],
  ['an end before a time', () => ({ endedUntil: noon }), ['old']],
  ['the beginning of an error', () => ({ error: 'budget' }), ['poor']],
  ['an error and an agent', () => ({ error: 'budget', agentId: 'writer' }), []],
  ['a cost', () => ({ minCostMicros: 750_000 }), ['old']],
  ['a higher cost', () => ({ minCostMicros: 750_001 }), []],
  ['a word of the instruction', () => ({ text: 'rewrite' }), ['poor']],
  ['a word of the deliverable', () => ({ text: 'TOTALS' }), ['old']],
  ['the beginning of a word', () => ({ text: 'pri' }), ['queued', 'dispatched', 'broken', 'old']],
  ['two words in any order', () => ({ text: 'shop price' }), ['old']],
  ['words of which one is missing', () => ({ text: 'shop poem' }), []],
  ['a phrase', () => ({ text: '"price list"' }), ['old']],
  ['an excluded word', () => ({ text: 'price -list' }), ['queued', 'dispatched']],
  ['an excluded phrase', () => ({ text: 'poem -"the price"' }), ['broken']],
  ['either word', () => ({ text: 'poem or shop' }), ['broken', 'old']],
  ['only punctuation', () => ({ text: '?!' }), []],
  ["a quote and operators of PostgreSQL's queries", () => ({ text: "it's & | ! <-> (:* \\" }), []],
  ['a status and a word', () => ({ status: 'success', text: 'price' }), ['old']],
  ['queued turns with a word', () => ({ status: 'queued', text: 'tag' }), ['queued']],
  ['queued turns without the word', () => ({ status: 'queued', text: 'poem' }), []],
  ['active turns with a word', () => ({ status: 'dispatched', text: 'price' }), ['dispatched']],
  ['active turns before a time', () => ({ status: 'dispatched', until: noon }), []],
])('the list of turns finds turns by %s', async (_what, filter, expected) => {
  expect(await found(filter())).toEqual(expected)
})

it('a search for words goes through old turns page by page, and ends at the time from which it searches', async () => {
  // 2,500 ended turns, queued two days before the others.
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, message_type, agent_turn_id, status,
      outcome, created_at, ended_at)
    select 'old-' || n, $1, 'coder', 'w', 'turn', '00000000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'consumed',
      'success', $2::timestamptz - interval '2 days', $2::timestamptz from generate_series(1, 2500) n`,
    project,
    noon,
  )
  const pages = async (filter: TurnFilter) => {
    let [cursor, count, read]: [string | undefined, number, number] = [undefined, 0, 0]
    do {
      const page = await listTurns(t.db, { projectId: project, limit: 50, ...filter, ...(cursor && { cursor }) })
      cursor = page.cursor ?? undefined
      count += page.turns.length
      read += 1
    } while (cursor !== undefined)
    return [count, read]
  }
  expect(await pages({ text: 'shop' })).toEqual([1, 3])
  expect(await pages({ text: 'shop', since: noon })).toEqual([0, 1])
})

it('reads the instruction of each turn of a list, queued ones too', async () => {
  const ids = [turns['old']!, turns['queued']!, 'no-such-turn']
  const read = await readInstructions(t.db, ids)
  expect(ids.map((id) => read.get(id))).toEqual(['Fix the price list of the shop', 'price', undefined])
})
