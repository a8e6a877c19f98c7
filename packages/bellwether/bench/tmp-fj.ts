/** Scratch: phases of a fork. */
import { ownCluster } from '../sim/cluster.js'
import { openDatabase } from '../src/ports/database/pool.js'
import { forkJoin } from './fork-join.js'

const rounds = Number(process.argv[2] ?? 5)
const cluster = await ownCluster({ fsync: 'on', synchronous_commit: 'on', shared_buffers: '256MB', max_wal_size: '4GB', track_functions: 'pl', log_min_duration_statement: '150' })
const url = await cluster.database()
const figures = await forkJoin(url, rounds)
console.log(JSON.stringify(figures))
const db = await openDatabase({ url, poolSize: 1 })
const rows = await db.query<Record<string, unknown>>({
  text: `with f as (select b.*, i.created_at as c0, i.started_at as s0, i.ended_at as e0 from state.batches b join state.agent_inbox i on i.agent_turn_id = b.parent_agent_turn_id and i.message_type='turn')
  select (i.payload->>'fork') as kind, round(extract(epoch from f.s0 - f.c0)*1000) as claim, round(extract(epoch from f.created_at - f.s0)*1000) as to_fork,
   round(extract(epoch from min(c.created_at) - f.created_at)*1000) as first_put, round(extract(epoch from max(c.created_at) - f.created_at)*1000) as last_put,
   round(extract(epoch from min(c.started_at) - f.created_at)*1000) as first_start, round(extract(epoch from max(c.started_at) - f.created_at)*1000) as last_start,
   round(extract(epoch from min(c.ended_at) - f.created_at)*1000) as first_end, round(extract(epoch from max(c.ended_at) - f.created_at)*1000) as last_end,
   round(extract(epoch from f.ended_at - f.created_at)*1000) as closed,
   round(extract(epoch from (select r.created_at from state.agent_inbox r where r.agent_turn_id = f.parent_agent_turn_id and r.message_type='tool_result') - f.created_at)*1000) as receipt,
   round(extract(epoch from f.e0 - f.created_at)*1000) as done
  from f join state.agent_inbox i on i.agent_turn_id = f.parent_agent_turn_id and i.message_type='turn' join state.batch_tasks t on t.batch_id = f.batch_id join state.agent_inbox c on c.agent_turn_id = t.agent_turn_id and c.message_type='turn'
  group by f.batch_id, f.parent_agent_turn_id, i.payload, f.c0, f.s0, f.e0, f.created_at, f.ended_at order by kind, f.created_at`,
})
console.table(rows)
for (const row of await db.query<Record<string, unknown>>({ text: 'select funcname, calls, round(self_time::numeric,1) as self, round(total_time::numeric,1) as total from pg_stat_user_functions order by self_time desc limit 14' })) console.log(Object.values(row).join('  '))
await db.close()
await cluster.remove()
