/** Tests the filters of the list of turns: time, error, cost and words, alone and together with the status. */
import { defined, seededRandom } from '@bellwether/base'
import { beforeAll, expect, it } from 'vitest'
import { prune } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { indexWords } from '../../src/kernel/verbs/words/words.js'
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

it('reads the instruction of each turn of a list, queued ones too', async () => {
  const ids = [turns['old']!, turns['queued']!, 'no-such-turn']
  const read = await readInstructions(t.db, ids)
  expect(ids.map((id) => read.get(id))).toEqual(['Fix the price list of the shop', 'price', undefined])
})

/** The turns of all pages, and how many pages there were. */
async function pages(filter: TurnFilter, projectId = project, limit = 50): Promise<[ids: string[], count: number]> {
  const ids: string[] = []
  let [cursor, count]: [string | undefined, number] = [undefined, 0]
  do {
    const page = await listTurns(t.db, { projectId, limit, ...filter, ...(cursor && { cursor }) })
    expect((page.cursor ?? '') < (cursor ?? '~')).toBe(true)
    cursor = page.cursor ?? undefined
    ids.push(...page.turns.map((turn) => turn.agent_turn_id))
    count += 1
  } while (cursor !== undefined)
  return [ids, count]
}

const indexAll = async (rows?: number, least?: number) => {
  while (((await indexWords(t.db, rows, least)) ?? 0) > 0);
}

it('a search for words scans old turns page by page until the PMO has listed their words, and ends at its first time', async () => {
  // 2,500 ended turns, queued two days before the others.
  await t.all(
    `with turns as (
      insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, message_type, agent_turn_id, status,
        outcome, created_at, ended_at)
      select 'old-' || n, $1, 'coder', 'w', 'turn', '00000000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'consumed',
        'success', $2::timestamptz - interval '2 days', $2::timestamptz from generate_series(1, 2500) n
      returning agent_turn_id)
    insert into state.outbox (project_id, kind, agent_turn_id, created_at) select $1, 'task', agent_turn_id, $2::timestamptz
    from turns`,
    project,
    noon,
  )
  const old = [turns['old']!]
  expect(await pages({ text: 'shop' })).toEqual([old, 3])
  expect(await pages({ text: 'shop', since: noon })).toEqual([[], 1])
  await indexAll()
  expect(await pages({ text: 'shop' })).toEqual([old, 1])
  expect(await pages({ text: 'shop', since: noon })).toEqual([[], 1])
  // No word is required: no list of words says where to look.
  expect((await pages({ text: '-shop', agentId: 'writer' }))[1]).toBe(3)
})

/** Ended turns of a project of their own, which ended in another order than they were queued. */
async function past(projectId: string, contents: readonly string[]): Promise<string[]> {
  const rows = contents.map((text, at) => ({ id: `${projectId}-${String(at).padStart(6, '0')}`, text, at }))
  // 389 is a prime.
  const byEnd = rows.toSorted((a, b) => ((a.at * 389) % rows.length) - ((b.at * 389) % rows.length))
  await t.all(
    `with rows as materialized (select * from jsonb_to_recordset($2::jsonb) as x (id text, text text)),
      cards as (
        insert into cards.cards (card_id, project_id, type, role, content, created_at)
        select id, $1, 'task.deliverable', 'assistant', jsonb_build_object('text', text), state.now() from rows
      ), turns as (
        insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, message_type, agent_turn_id, status,
          outcome, created_at, ended_at, deliverable_card_id)
        select id, $1, 'a', 'w', 'turn', id, 'consumed', 'success', state.now(), state.now(), id from rows
      )
      insert into state.outbox (project_id, kind, agent_turn_id, created_at)
      select $1, 'task', id, state.now() from rows`,
    projectId,
    JSON.stringify(byEnd),
  )
  return rows.map(({ id }) => id)
}

it('the search by listed words finds the same turns as a comparison of every card, in order, whatever ended first', async () => {
  await indexAll(undefined, 1)
  const words = ['alpha', 'beta', 'gamma', 'delta', 'epsilon', 'alphabet', 'rare-word', '42.5']
  const random = seededRandom(18)
  // The first words are frequent, the last ones rare.
  const pick = () => words[Math.floor(random.next() ** 3 * words.length)]!
  const contents = Array.from({ length: 900 }, () => Array.from({ length: 4 }, pick).join(' '))
  const ids = await past('words', contents)
  const matching = async (text: string) => {
    const prefixed = `(select case when right(w::text, 1) = '''' then (w::text || ':*')::tsquery else w end
      from websearch_to_tsquery('simple', $3) w)`
    const rows = await t.all<{ id: string }>(
      `select id from unnest($1::text[], $2::text[]) as x (id, content)
        where to_tsvector('simple', content) @@ ${prefixed} order by id desc`,
      ids,
      contents,
      text,
    )
    return rows.map(({ id }) => id)
  }
  // Blocks of up to 40 turns, with a rest that no block contains.
  await indexWords(t.db, 40)
  for (let left = 20; left > 0; left -= 1) await indexWords(t.db, 40)
  const blocks = await t.one<{ blocks: number; turns: number; ids: number }>(
    `select count(*)::int as blocks, sum(cardinality(turns))::int as turns,
      (select count(distinct u)::int from state.word_blocks w cross join lateral unnest(w.turns) u
        where w.project_id = 'words') as ids
      from state.word_blocks where project_id = 'words'`,
  )
  expect(blocks).toEqual({ blocks: 20, turns: 800, ids: 800 })
  for (const text of [
    'alpha',
    'gam',
    '"beta alpha"',
    'beta -alpha',
    'rare-word',
    'delta or 42.5',
    'epsilon delta',
    'no',
  ])
    for (const limit of [7, 1_000])
      expect([text, (await pages({ text }, 'words', limit))[0]]).toEqual([text, await matching(text)])
})

it('a search reads a few blocks of many, and a page that cannot reach all of them says where the next one begins', async () => {
  await indexAll(undefined, 1)
  const ids = await past(
    'blocks',
    Array.from({ length: 600 }, (_, at) => (at % 100 === 7 ? 'needle hay' : 'hay')),
  )
  await indexAll(40, 1)
  const needles = ids.filter((_, at) => at % 100 === 7).toReversed()
  expect(await pages({ text: 'needle' }, 'blocks')).toEqual([needles, 1])
  expect((await pages({ text: 'hay', since: new Date(172_800_000) }, 'blocks', 1_000))[0]).toEqual(ids.toReversed())
  expect((await pages({ text: 'hay' }, 'blocks', 1_000))[1]).toBeGreaterThan(1)
})

it('a search reads cards with more words than a vector of PostgreSQL holds, and blocks with too many words to list', async () => {
  const vocabulary = (from: number) => Array.from({ length: 110_000 }, (_, at) => (from + at).toString(36)).join(' ')
  const many = Array.from({ length: 9 }, (_, at) => `large${at} ${vocabulary((at + 9) * 1_100_000)}`)
  const ids = await past('large', [...many, 'small'])
  expect((await pages({ text: 'large3' }, 'large'))[0]).toEqual([ids[3]])
  await indexAll(undefined, 1)
  const [block] = await t.all("select words from state.word_blocks where project_id = 'large'")
  expect(block).toEqual({ words: null })
  expect((await pages({ text: 'large3' }, 'large'))[0]).toEqual([ids[3]])
  expect((await pages({ text: 'small' }, 'large'))[0]).toEqual([ids[9]])
})

it('retention removes the words with the turns', async () => {
  const count = () => t.one<{ count: number }>('select count(*)::int as count from state.word_blocks')
  expect((await count()).count).toBeGreaterThan(0)
  await t.advance(31 * 86_400)
  while ((await prune(t.db, 30)) > 0);
  expect((await count()).count).toBe(0)
})
