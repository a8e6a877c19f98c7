/**
 * The database role of workers. It can read and write what turns consist of. It cannot read API keys and the audit log, change the
 * roster, create objects, temporary tables and large objects included, read files of the server, or take all connections. A table
 * that is not listed here is closed to it.
 */
import { InvalidInput } from '@bellwether/protocol'
import type { Database } from '../../ports/database/database.js'

/** What a worker may do, by schema and table. */
export const workerGrants: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  bellwether: { migrations: 'select' },
  resource: { projects: 'select', profiles: 'select', project_agents: 'select', tools: 'select' },
  cards: { cards: 'all', boxes: 'all', box_cards: 'all' },
  state: {
    account_holds: 'all',
    agent_inbox: 'all',
    agent_state_head: 'all',
    agent_steps: 'all',
    // Workers ask through functions of the owner; they cannot decide.
    approvals: 'select',
    approval_grants: 'select',
    batch_tasks: 'all',
    batches: 'all',
    borrowed_boxes: 'all',
    budgets: 'all',
    edges: 'all',
    event_cursors: 'select',
    events: 'select',
    execution_edges: 'select',
    force_terminations: 'all',
    interventions: 'all',
    limits: 'select',
    moves: 'select',
    outbox: 'all',
    parked_turns: 'all',
    program_sessions: 'all',
    queue: 'all',
    reservations: 'all',
    spending_limits: 'select',
    spending_periods: 'all',
    transcript: 'all',
    turn_memories: 'all',
    turn_messages: 'all',
    turn_resume_ledger: 'all',
    turn_waiting_tools: 'all',
    turns: 'select',
    workers: 'all',
  },
}
/** Tables that a worker must not reach. Together with the grants these are all tables. */
export const closedToWorkers: readonly string[] = [
  'resource.api_keys',
  'resource.audit_log',
  'resource.http_responses',
  'state.eval_results',
  'state.eval_runs',
  'state.eval_suites',
  'state.notices',
  'state.schedule_fires',
  'state.schedules',
  'state.lease_tokens',
  'state.trend_gauges',
  'state.trend_progress',
  'state.trends',
  'state.word_blocks',
  'state.word_progress',
]

const rights: Readonly<Record<string, string>> = { select: 'select', all: 'select, insert, update, delete' }

// Sorts of the verbs stay in memory. Only a superuser can raise the limit.
const temporaryFilesMax = '256MB'

/** What every role may do by default, also in the databases of each cluster, and what fills the disk of the database. Superusers may still do it. */
const closeDefaults = `do $$
declare
  v_function regprocedure;
  v_database text;
begin
  execute format('revoke temporary on database %I from public', current_database());
  for v_function in select oid::regprocedure from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace and proname in ('lo_creat', 'lo_create', 'lo_from_bytea') loop
    execute format('revoke execute on function %s from public', v_function);
  end loop;
  for v_database in select datname from pg_database d where datname in ('postgres', 'template1')
    and (datacl is null or exists (select from aclexplode(datacl) where grantee = 0)) loop
    execute format('revoke all on database %I from public', v_database);
  end loop;
end $$`

export interface WorkerRole {
  readonly name: string
  /** Letters and digits. */
  readonly password: string
}

/** Creates the role or gives it a new password, and sets its rights. Needs a role that may create roles. */
export async function putWorkerRole(db: Database, { name, password }: WorkerRole): Promise<void> {
  if (!/^[a-z][a-z0-9_]{0,62}$/.test(name) || !/^[A-Za-z0-9]{16,}$/.test(password))
    throw new InvalidInput(`Invalid database role ${JSON.stringify(name)}`, { code: 'invalid_role' })
  await db.transaction(async (tx) => {
    const [known] = await tx.query<{ one: number }>({
      text: 'select 1 as one from pg_roles where rolname = $1',
      values: [name],
    })
    const flags = 'login nosuperuser nocreatedb nocreaterole noreplication nobypassrls'
    const grants = Object.entries(workerGrants).flatMap(([schema, tables]) => [
      `revoke all on all tables in schema ${schema} from ${name}`,
      `grant usage on schema ${schema} to ${name}`,
      ...Object.entries(tables).map(([table, right]) => `grant ${rights[right]} on ${schema}.${table} to ${name}`),
      `grant usage on all sequences in schema ${schema} to ${name}`,
    ])
    const statements = [
      // A password cannot be a parameter; both values were checked above.
      `${known === undefined ? 'create' : 'alter'} role ${name} with ${flags} password '${password}'`,
      // A role may change its own settings for good: those that an earlier worker left would stop all later ones.
      `alter role ${name} reset all`,
      `do $$ begin execute format('alter role ${name} in database %I reset all', current_database()); end $$`,
      closeDefaults,
      `alter role ${name} set temp_file_limit = '${temporaryFilesMax}'`,
      // The server, its PMO and people's commands keep the rest.
      `do $$ begin execute format('alter role ${name} connection limit %s',
        current_setting('max_connections')::int * 3 / 4); end $$`,
      ...grants,
    ]
    // One round trip: `up` waits for it.
    await tx.query({ text: statements.join(';\n') })
  })
}
