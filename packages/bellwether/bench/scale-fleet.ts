/**
 * A fleet with a past, for the scale test of the dashboard: fills the database of a running `up` with finished turns of the last 90 days,
 * and then makes a number of events per second until its stdin ends. The rows of the past are written directly, because only what the
 * pages do with them is measured; the events come from real turns.
 */
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { systemClock, systemRandom } from '@bellwether/base'
import { openKernel } from '../src/kernel/kernel.js'
import { inProcessBell } from '../src/ports/bell/in-process.js'
import { notifyBell } from '../src/ports/bell/notify.js'
import type { Database } from '../src/ports/database/database.js'
import { openDatabase } from '../src/ports/database/pool.js'
import { uuidv7 } from '../src/ports/ids.js'
import { quiet } from './ours.js'

const { values } = parseArgs({
  options: {
    database: { type: 'string' },
    project: { type: 'string', default: 'default' },
    turns: { type: 'string', default: '100000' },
    agents: { type: 'string', default: '200' },
    events: { type: 'string', default: '200' },
  },
})
const projectId = values.project
const workerTarget = 'scale'
const agents = Number(values.agents)
const chunk = 20_000
/** Leased, started, a step, and the two messages of the end. */
const eventsPerTurn = 5
const roundMs = 250
const say = (facts: object) => void process.stdout.write(`${JSON.stringify(facts)}\n`)

const url = values.database ?? ''
const db = await openDatabase({ url, poolSize: 8, statementTimeoutMs: 600_000 })
const bell = inProcessBell(notifyBell({ url, log: quiet }), systemRandom)
const ids = uuidv7(systemClock, systemRandom)
const kernel = openKernel({ db, bell, ids })
const agentOf = (at: number) => `scale-${at % agents}`

await kernel.putAgents(Array.from({ length: agents }, (_, at) => ({ projectId, agentId: agentOf(at), workerTarget })))
const startMs = systemClock.monotonicMs()
await fill(db, Number(values.turns))
say({ filled: Number(values.turns), ms: Math.round(systemClock.monotonicMs() - startMs) })
await makeEvents(Number(values.events))
await bell.close()
await db.close()

async function fill(database: Database, turns: number): Promise<void> {
  for (let from = 0; from < turns; from += chunk) {
    await database.transaction(async (tx) => {
      for (const text of past(from, Math.min(turns, from + chunk) - 1, turns)) await tx.query({ text })
    })
  }
}

/** The ids of the past contain its times, as those of real turns do. */
function past(from: number, upTo: number, turns: number): string[] {
  const outcome = `case n % 20 when 3 then 'failed' when 7 then 'timeout' when 11 then 'canceled' else 'success' end`
  return [
    'set local synchronous_commit = off',
    `create temporary table past on commit drop as
      select n, substr(x, 1, 8) || '-' || substr(x, 9, 4) || '-7000-8000-' || lpad(n::text, 12, '0') as id,
        'scale-' || n % ${agents} as agent_id, (${outcome})::state.outcome as outcome, t as created_at,
        t + make_interval(secs => 0.05 * (n % 97)) as started_at,
        t + make_interval(secs => 0.05 * (n % 97) + n % 613) as ended_at
      from generate_series(${from}::bigint, ${upTo}) n
      cross join lateral (select state.now() - interval '1 hour' - make_interval(secs => 7776000.0 * (${turns} - n) / ${turns}) as t) a
      cross join lateral (select lpad(to_hex((extract(epoch from t) * 1000)::bigint), 12, '0') as x) b order by n`,
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
        agent_turn_id, turn_epoch, payload, created_at, claimed_by, processed_at, archived_at, started_at, ended_at,
        outcome, error, deliverable_card_id)
      select id, '${projectId}', agent_id, '${workerTarget}', 'public', 'turn', 'consumed', id, 1, '{}', created_at,
        'past', ended_at, ended_at, started_at, ended_at, outcome,
        case when outcome <> 'success' then 'the tests do not pass' end, id from past order by n`,
    `insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
      select id, '${projectId}', 'task.deliverable', 'assistant', jsonb_build_object('text', 'Fixed part ' || n || ' of the shop.'),
        jsonb_build_object('agent_id', agent_id, 'agent_turn_id', id, 'status', outcome), ended_at from past order by n`,
    `insert into state.agent_steps (project_id, agent_id, step_id, agent_turn_id, phase, status, metadata, started_at, ended_at)
      select '${projectId}', agent_id, 'step-' || id, id, 'think', 'success', jsonb_build_object(
        'model', (array['large', 'small', 'local'])[1 + n % 3], 'usage', jsonb_build_object('input_tokens', 500 + n % 997,
        'output_tokens', n % 251, 'cache_read_tokens', 10 * (n % 331)), 'cost_micros', 1000 + n % 5003), started_at, ended_at
      from past order by n`,
    `insert into state.outbox (project_id, channel_id, agent_id, kind, status, agent_turn_id, turn_epoch,
        deliverable_card_id, created_at)
      select '${projectId}', 'public', agent_id, 'task', outcome::text, id, 1, id, ended_at from past order by n`,
    `insert into state.interventions (kind, project_id, agent_id, agent_turn_id, reason, created_at)
      select (array['reclaim', 'tool_timeout', 'reap'])[1 + n % 3], '${projectId}', agent_id, id, 'no beat for 30 s', ended_at
      from past where n % 50 = 0 order by n`,
  ]
}

async function makeEvents(perSecond: number): Promise<void> {
  let isOver = false
  void once(process.stdin, 'end').then(() => (isOver = true))
  process.stdin.resume()
  const perRound = Math.max(1, Math.round((perSecond * roundMs) / 1_000 / eventsPerTurn))
  const [began] = await db.query<{ last: string }>({
    text: "select pg_sequence_last_value('state.events_event_id_seq')::text as last",
  })
  const beganMs = systemClock.monotonicMs()
  let turns = 0
  for (let round = 1; !isOver; round += 1) {
    await kernel.enqueueMany(
      Array.from({ length: perRound }, () => ({
        projectId,
        agentId: agentOf((turns += 1)),
        instruction: `Do part ${turns}.`,
      })),
    )
    const claimed = await kernel.claim({ workerTarget, workerId: 'scale-1', max: perRound * 2, resumeLeaseSeconds: 30 })
    await Promise.all(
      claimed.turns.map(async (turn) => {
        const metadata = { model: 'large', usage: { input_tokens: 700, output_tokens: 90 }, cost_micros: 2_100 }
        await kernel.record({ ...turn, step: { stepId: ids.next(), phase: 'think', status: 'success', metadata } })
        await kernel.deliver({ ...turn, status: 'success', content: { text: 'Done.' } })
      }),
    )
    const lateMs = beganMs + round * roundMs - systemClock.monotonicMs()
    if (lateMs > 0) await systemClock.sleep(lateMs)
  }
  const seconds = (systemClock.monotonicMs() - beganMs) / 1_000
  const [made] = await db.query<{ events: number }>({
    text: `select count(*)::int as events from state.events where event_id > $1`,
    values: [began?.last ?? '0'],
  })
  say({
    turns,
    events: made?.events ?? 0,
    seconds: Math.round(seconds),
    eventsPerSecond: Math.round((made?.events ?? 0) / seconds),
  })
}
