import {
  activities,
  cardTypes,
  inboxStatuses,
  messageTypes,
  outcomes,
  transcriptKinds,
  waitStatuses,
  afterExecutions,
} from '@bellwether/protocol'
import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { checksum, migrate, migrations } from '../../src/kernel/schema/migrate.js'
import { headStatuses, TURN, type HeadStatus, type Move } from '../../src/kernel/turn.js'
import { openKernel } from '../../src/kernel/kernel.js'
import { beginning, readEvents } from '../../src/kernel/verbs/events.js'
import { countTrends } from '../../src/kernel/verbs/trends/trends.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { freshDatabase } from '../support/postgres.js'
import { silentBell } from '../support/silent-bell.js'
import { sqlPage } from '../../../../scripts/pages/sql.js'

/** Whether any move leads from one status to the other. */
const isLegal = (from: HeadStatus, to: HeadStatus) =>
  Object.values<Move>(TURN).some((move) => move.to === to && move.from.includes(from))

const t = kernelPerFile()
beforeAll(async () => {
  await t.agents('ann')
})

/** Valid columns per status, so that only the move itself can be rejected. */
const columns: Readonly<Record<HeadStatus, string>> = {
  idle: 'active_agent_turn_id = null, turn_deadline = null, leased_at = null, turn_epoch = turn_epoch',
  dispatched: "active_agent_turn_id = 'x', turn_deadline = state.now(), leased_at = state.now(), turn_epoch = 7",
  running: "active_agent_turn_id = 'x', turn_deadline = state.now(), leased_at = state.now(), turn_epoch = 7",
  suspended: "active_agent_turn_id = 'x', turn_deadline = state.now(), leased_at = state.now(), turn_epoch = 7",
}

async function place(status: HeadStatus): Promise<void> {
  await t.all('delete from state.agent_state_head')
  await t.all(
    "insert into state.agent_state_head (project_id, agent_id, worker_target, updated_at) values ($1, 'ann', 'w', state.now())",
    project,
  )
  await t.all('alter table state.agent_state_head disable trigger user')
  await t.all(`update state.agent_state_head set status = '${status}', ${columns[status]}`)
  await t.all('alter table state.agent_state_head enable trigger user')
}

const to = (status: HeadStatus) => t.all(`update state.agent_state_head set status = '${status}', ${columns[status]}`)

describe('the state machine', () => {
  it('[T2.1] state.moves equals the TURN table', async () => {
    const moves = await t.all('select move, from_statuses, to_status, bumps_epoch from state.moves order by move')
    const table = Object.entries<Move>(TURN).map(([move, { from, to: to_status, bumpsEpoch }]) => ({
      move,
      from_statuses: from,
      to_status,
      bumps_epoch: bumpsEpoch,
    }))
    expect(moves).toEqual(table.toSorted((a, b) => (a.move < b.move ? -1 : 1)))
  })

  it('[T2.1] every verb of the TURN table is a function of the database', async () => {
    const functions = await t.all<{ name: string }>(
      "select proname as name from pg_proc where pronamespace = 'state'::regnamespace",
    )
    const names = new Set(functions.map((one) => one.name))
    for (const move of Object.values<Move>(TURN)) expect(names).toContain(move.verb)
  })

  describe.each(headStatuses)('from %s', (from) => {
    it.each(headStatuses)(`[T2.1] the database allows a move to %s exactly if the TURN table does`, async (status) => {
      await place(from)
      const answer = await to(status).then(
        () => 'taken',
        (error: { code: string }) => error.code,
      )
      // An update without a change of status is always allowed.
      expect(answer).toBe(from === status || isLegal(from, status) ? 'taken' : 'BW001')
    })
  })

  it('[T2.1] [T1.5] the database rejects a lower epoch and a replaced turn', async () => {
    await place('running')
    await expect(t.all('update state.agent_state_head set turn_epoch = 6')).rejects.toMatchObject({ code: 'BW001' })
    await expect(t.all("update state.agent_state_head set active_agent_turn_id = 'y'")).rejects.toMatchObject({
      code: 'BW001',
    })
    await t.all('update state.agent_state_head set turn_epoch = 8')
  })

  it.each([
    ['idle', "active_agent_turn_id = 'x'", 'idle_holds_nothing'],
    ['idle', "active_channel_id = 'public'", 'idle_holds_nothing'],
    ['idle', "expecting_correlation_id = 'a'", 'idle_holds_nothing'],
    ['idle', 'turn_deadline = state.now()', 'idle_holds_nothing'],
    ['dispatched', 'active_agent_turn_id = null', 'active_names_its_turn'],
    ['running', 'turn_deadline = null', 'active_names_its_turn'],
    ['running', 'leased_at = null', 'active_names_its_turn'],
    ['running', 'waiting_tool_count = 1', 'only_suspended_waits'],
    ['running', 'resume_deadline = state.now()', 'only_suspended_waits'],
    ['suspended', 'waiting_tool_count = -1', 'waits_are_counted'],
    ['running', "activity = 'napping'", 'activity_is_known'],
    ['running', "status = 'crashed'", 'status_is_known'],
  ] as const)('[T2.1] [T2.2] a head that is %s cannot have %s', async (status, change, constraint) => {
    await place(status)
    await t.all('alter table state.agent_state_head disable trigger user')
    await expect(t.all(`update state.agent_state_head set ${change}`)).rejects.toMatchObject({ constraint })
    await t.all('alter table state.agent_state_head enable trigger user')
  })
})

describe('the words', () => {
  it.each([
    ['inbox_status_is_known', inboxStatuses],
    ['message_type_is_known', messageTypes],
    ['outcome_is_known', outcomes],
    ['card_type_is_known', cardTypes],
    ['transcript_kind_is_known', transcriptKinds],
    ['wait_status_is_known', waitStatuses],
    ['wait_after_execution_is_known', afterExecutions],
    ['after_execution_is_known', afterExecutions],
    ['activity_is_known', activities],
    ['status_is_known', headStatuses],
  ] as const)('%s lists the words of the protocol', async (name, words) => {
    const { text } = await t.one<{ text: string }>(
      'select pg_get_constraintdef(oid) as text from pg_constraint where conname = $1',
      name,
    )
    expect([...text.matchAll(/'([^']+)'::text/g)].map((found) => found[1])).toEqual([...words])
  })
})

describe('what is written stays', () => {
  it('cards, box entries and edges cannot be rewritten', async () => {
    await t.all('delete from state.agent_state_head')
    await t.agents('ann')
    await t.running('ann')
    for (const change of [
      "cards.cards set content = '{}'",
      "cards.box_cards set card_id = 'x'",
      "state.execution_edges set primitive = 'join'",
    ]) {
      await expect(t.all(`update ${change}`)).rejects.toMatchObject({ code: 'BW002' })
    }
  })

  it('[T1.6] the database rejects a second task event of a turn', async () => {
    const insert =
      "insert into state.outbox (project_id, subject, kind, payload, agent_turn_id, created_at) values ('p', 's', 'task', '{}', 'one', state.now())"
    await t.all(insert)
    await expect(t.all(insert)).rejects.toMatchObject({ constraint: 'one_task_event_per_turn' })
  })
})

/** The rows of bellwether.migrations as version 0.1 wrote them. */
const recordedByFirstVersion = [
  ['0001_tables', '7281c215a42de628c125c6d54bc8726a800f07ee2e867be49fd343441f1c4725'],
  ['0002_tool_hosts', '2e4e480a987631917c11cb04cfada4addfe88173bad441afb4488ce59598f95b'],
  ['0004_keys', '87f718ee62dadaeb4a48eb562826787c57c9e50e4f498067e9c8ee9599a0aba1'],
] as const

/**
 * Rows of version 0.1 with turns in every state: an idle agent, one with a leased and a queued turn, one whose turn writes to the box of the idle
 * one, a running and a suspended turn, and an ended turn that another one requested.
 */
const olderRows = `
  insert into resource.projects (project_id) values ('p');
  insert into resource.project_agents (project_id, agent_id, worker_target)
    select 'p', a, 'w' from unnest('{idle, busy, borrower}'::text[]) a;
  insert into cards.boxes (box_id, project_id, kind, created_at)
    select 'box-' || a, 'p', 'output', state.now() from unnest('{idle, busy, borrower}'::text[]) a;
  insert into state.agent_state_head (project_id, agent_id, worker_target, output_box_id, home_box_id, updated_at)
    values ('p', 'idle', 'w', 'box-idle', 'box-idle', state.now());
  insert into state.agent_state_head (project_id, agent_id, worker_target, output_box_id, home_box_id, updated_at,
      status, turn_epoch, active_agent_turn_id, active_channel_id, leased_at, turn_deadline)
    select 'p', a, 'w', b, 'box-' || a, state.now(), 'dispatched', 1, 'turn-' || a, 'public', state.now(),
      state.now() + interval '1 hour'
    from (values ('busy', 'box-busy'), ('borrower', 'box-idle')) v (a, b);
  insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
      agent_turn_id, turn_epoch)
    select 'row-' || a, 'p', a, 'w', 'public', 'turn', 'pending', 'turn-' || a, 1 from unnest('{busy, borrower}'::text[]) a;
  insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
      agent_turn_id) values ('row-next', 'p', 'busy', 'w', 'public', 'turn', 'queued', 'turn-next');
  insert into resource.project_agents (project_id, agent_id, worker_target)
    select 'p', a, 'w' from unnest('{runner, waiter}'::text[]) a;
  insert into state.agent_state_head (project_id, agent_id, worker_target, output_box_id, home_box_id, updated_at,
      status, turn_epoch, active_agent_turn_id, active_channel_id, leased_at, turn_deadline, waiting_tool_count)
    select 'p', a, 'w', 'box-' || a, 'box-' || a, state.now(), s, 1, 'turn-' || a, 'public', state.now(),
      state.now() + interval '1 hour', n
    from (values ('runner', 'running', 0), ('waiter', 'suspended', 1)) v (a, s, n);
  insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
      agent_turn_id, turn_epoch, claimed_by, processed_at, started_at)
    select 'row-' || a, 'p', a, 'w', 'public', 'turn', 'processing', 'turn-' || a, 1, 'old', state.now(), state.now()
    from unnest('{runner, waiter}'::text[]) a;
  insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
      agent_turn_id, turn_epoch, correlation_id)
    values ('row-receipt', 'p', 'waiter', 'w', 'public', 'tool_result', 'pending', 'turn-waiter', 1, 'call');
  insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
      agent_turn_id, turn_epoch, source_agent_id, outcome, ended_at)
    values ('row-ended', 'p', 'idle', 'w', 'public', 'turn', 'consumed', 'turn-ended', 1, 'busy', 'success', state.now());
  insert into state.execution_edges (edge_id, project_id, primitive, edge_phase, source_agent_id, source_agent_turn_id,
      target_agent_id, target_agent_turn_id, created_at)
    values ('row-ended', 'p', 'enqueue', 'request', 'busy', 'turn-busy', 'idle', 'turn-ended', state.now()),
      ('row-receipt', 'p', 'report', 'response', null, null, 'waiter', 'turn-waiter', state.now());
  insert into state.events (project_id, subject, kind, payload, agent_turn_id, created_at)
    values ('p', 'bw.v1.p.public.evt.agent.idle.task', 'task', '{"status": "success"}', 'turn-ended', state.now()),
      ('p', 'bw.v1.p.public.evt.agent.idle.state', 'state', '{"status": "idle"}', 'turn-ended', state.now());
`

const committedSqlPage = readFileSync(new URL('../../../../docs/reference/sql.md', import.meta.url), 'utf8')

describe('migrations', () => {
  it('migrations run once when four processes start at the same time', async () => {
    const fresh = await freshDatabase({ empty: true })
    const { db } = fresh
    const answers = await Promise.all([migrate(db), migrate(db), migrate(db), migrate(db)])
    const { applied } = answers.find((one) => one.applied.length > 0)!
    expect(answers.filter((one) => one.applied.length > 0)).toHaveLength(1)
    expect(answers.filter((one) => one.verbsReplaced)).toHaveLength(1)
    expect(await db.query({ text: 'select name from bellwether.migrations order by name' })).toHaveLength(
      applied.length + 1,
    )
    await fresh.drop()
  })

  it('migrations are rejected by name if they changed after they ran, or if the database is newer', async () => {
    const fresh = await freshDatabase({ empty: true })
    const { db } = fresh
    await migrate(db)
    await db.query({ text: "insert into bellwether.migrations (name, checksum) values ('9999_future', 'x')" })
    await expect(migrate(db)).rejects.toMatchObject({ code: 'database_is_newer' })
    await db.query({ text: "delete from bellwether.migrations where name = '9999_future'" })
    await db.query({ text: "update bellwether.migrations set checksum = 'x' where name like '0001%'" })
    await expect(migrate(db)).rejects.toMatchObject({ code: 'migration_changed' })
    await fresh.drop()
  })

  it('a database that version 0.1 migrated is accepted and migrated further, and a changed one is rejected', async () => {
    const fresh = await freshDatabase({ empty: true })
    const { db } = fresh
    await migrate(db)
    const texts = new Map(migrations().map(({ name, text }) => [name, text]))
    const record = (name: string, checksum: string) =>
      db.query({
        text: `insert into bellwether.migrations (name, checksum) values ($1, $2)
          on conflict (name) do update set checksum = excluded.checksum`,
        values: [name, checksum],
      })
    for (const count of [1, recordedByFirstVersion.length]) {
      const recorded = recordedByFirstVersion.slice(0, count)
      await db.query({ text: 'drop schema resource, cards, state cascade; delete from bellwether.migrations' })
      for (const [name, checksum] of recorded) {
        await db.query({ text: texts.get(name)! })
        await record(name, checksum)
      }
      await record('verbs', 'of version 0.1')
      const missing = [...texts.keys()].filter((name) => recorded.every(([one]) => one !== name))
      expect(await migrate(db)).toEqual({ applied: missing, verbsReplaced: true })
      expect(await migrate(db)).toEqual({ applied: [], verbsReplaced: false })
    }
    expect(await sqlPage(db)).toBe(committedSqlPage)
    for (const [name, checksum] of recordedByFirstVersion) {
      await record(
        name,
        checksum.replace(/^./, (digit) => (digit === '0' ? '1' : '0')),
      )
      await expect(migrate(db)).rejects.toMatchObject({
        code: 'migration_changed',
        message: `Cannot migrate the database: migration "${name}" was changed after it ran`,
        hint: 'restore its text and write a new migration instead',
      })
      await record(name, checksum)
    }
    await fresh.drop()
  })

  it('[T5.3] a database of version 0.1 with turns in every state is migrated, and its turns continue', async () => {
    const fresh = await freshDatabase({ empty: true })
    const { db } = fresh
    const older = migrations().filter(({ name }) => name < '0010')
    for (const { text } of older) await db.query({ text })
    await db.query({ text: olderRows })
    await db.query({ text: 'create schema bellwether' })
    await db.query({
      text: 'create table bellwether.migrations (name text primary key, checksum text not null, applied_at timestamptz)',
    })
    await db.query({
      text: 'insert into bellwether.migrations (name, checksum) select * from unnest($1::text[], $2::text[])',
      values: [older.map(({ name }) => name), older.map((file) => checksum([file]))],
    })
    await migrate(db)
    const all = (text: string) => db.query({ text })
    expect(await all('select agent_id, awake from state.agent_state_head order by 1')).toEqual([
      { agent_id: 'borrower', awake: true },
      { agent_id: 'busy', awake: true },
      { agent_id: 'idle', awake: false },
      { agent_id: 'runner', awake: true },
      { agent_id: 'waiter', awake: true },
    ])
    // The queue lists what waits; requests are their own edges; events are readable as before.
    expect(await all('select inbox_id, status, pending_xid::text as xid from state.queue order by 1')).toEqual([
      { inbox_id: 'row-borrower', status: 'pending', xid: '0' },
      { inbox_id: 'row-busy', status: 'pending', xid: '0' },
      { inbox_id: 'row-next', status: 'queued', xid: null },
      { inbox_id: 'row-receipt', status: 'pending', xid: '0' },
    ])
    expect(
      await all(`select edge_id, primitive, source_agent_turn_id as source from state.execution_edges
        where edge_id in ('row-ended', 'row-receipt', 'row-runner') order by 1`),
    ).toEqual([
      { edge_id: 'row-ended', primitive: 'enqueue', source: 'turn-busy' },
      { edge_id: 'row-receipt', primitive: 'report', source: null },
      { edge_id: 'row-runner', primitive: 'enqueue', source: null },
    ])
    const history = await readEvents(db, beginning, 100)
    expect(history.map(({ kind, payload }) => [kind, payload])).toEqual([
      ['task', { status: 'success' }],
      ['state', { status: 'idle' }],
    ])
    expect(await all('select box_id, agent_id from state.borrowed_boxes')).toEqual([
      { box_id: 'box-idle', agent_id: 'borrower' },
    ])
    expect(await all('select box_id, agent_id from cards.boxes order by 1')).toEqual([
      { box_id: 'box-borrower', agent_id: 'borrower' },
      { box_id: 'box-busy', agent_id: 'busy' },
      { box_id: 'box-idle', agent_id: 'idle' },
    ])
    const kernel = openKernel({ db, bell: silentBell, ids: t.ids })
    // Its own box is borrowed.
    expect(await kernel.enqueue({ projectId: 'p', agentId: 'idle' })).toMatchObject({ status: 'queued' })
    const claimant = { workerTarget: 'w', workerId: 'new', max: 10, resumeLeaseSeconds: 30 }
    const { turns } = await kernel.claim(claimant)
    expect(turns.map(({ agentId }) => agentId).toSorted()).toEqual(['borrower', 'busy'])
    const running = { projectId: 'p', agentId: 'runner', agentTurnId: 'turn-runner', turnEpoch: 1 }
    for (const turn of [...turns, running])
      expect(await kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })).toEqual({ what: 'ended' })
    expect((await readEvents(db, history.at(-1)!.cursor, 100)).filter(({ kind }) => kind === 'task')).toHaveLength(3)
    expect(await all('select box_id from state.borrowed_boxes')).toEqual([])
    // The turn that the earlier version ended counts too.
    await countTrends(db)
    const counts = `select sum(amount)::int as turns from state.trends
      where measure = 'turns' and agent_id = '' and grain = 3600`
    expect(await all(counts)).toEqual([{ turns: 4 }])
    // The queued turn behind the busy one was leased by its ending, the other by the sweep.
    await all('select * from state.sweep_queued(-1, 100)')
    const next = (await kernel.claim(claimant)).turns
    expect(next.map(({ agentId }) => agentId).toSorted()).toEqual(['busy', 'idle'])
    await fresh.drop()
  })

  it('migrations produce the schema in docs/reference/sql.md (npm run docs writes it)', async () => {
    const fresh = await freshDatabase({ empty: true })
    const { db } = fresh
    await migrate(db)
    expect(await sqlPage(db)).toBe(committedSqlPage)
    await fresh.drop()
  })
})
