/** Reads the roster: agents with their current state, projects and workers. Reads only, page by page. */
import type { AgentRow, ProjectRow, WorkerRow } from '@bellwether/protocol/http'
import type { MergeMode, WorkspaceKind } from '@bellwether/protocol'
import type { Queryable } from '../../ports/database/database.js'

const queuedMax = 1_000
// A turn writes its deliverable last: it is out of range only if a running turn has written more cards than this since.
const recentMax = 32

const select = (which: string) => `select a.agent_id, a.profile_id, a.worker_target, a.status, a.memory, a.metadata,
    case when h.agent_id is not null then jsonb_build_object('status', h.status,
      'active_agent_turn_id', h.active_agent_turn_id, 'turn_epoch', h.turn_epoch, 'activity', h.activity,
      'current_tool', h.current_tool, 'waiting_tool_count', h.waiting_tool_count, 'resume_deadline', h.resume_deadline,
      'turn_deadline', h.turn_deadline, 'leased_at', h.leased_at, 'updated_at', h.updated_at,
      'output_box_id', h.output_box_id) end as state,
    (select count(*)::int from (select from state.queue q
      where q.project_id = a.project_id and q.agent_id = a.agent_id and q.status = 'queued'
      limit ${queuedMax}) q) as queued,
    (select jsonb_build_object('agent_turn_id', c.metadata ->> 'agent_turn_id', 'outcome', c.metadata ->> 'status',
      'ended_at', c.created_at)
      from (select x.card_id, x.position from cards.box_cards x
        where x.box_id = coalesce(h.home_box_id, h.output_box_id)
        order by x.position desc limit ${recentMax}) x
      cross join lateral (select * from cards.cards c where c.card_id = x.card_id offset 0) c
      where c.type = 'task.deliverable' and c.metadata ->> 'agent_id' = a.agent_id
      order by x.position desc limit 1) as last_turn
  from resource.project_agents a left join lateral state.head(a.project_id, a.agent_id) h on true
  where a.project_id = $1 and ${which}`

/** In the order of names, after `after`. */
export async function listAgents(
  db: Queryable,
  projectId: string,
  after: string,
  limit: number,
): Promise<{ agents: AgentRow[]; cursor: string | null }> {
  const agents = await db.query<AgentRow>({
    name: 'bw_list_agents',
    text: select('a.agent_id > $2 order by a.agent_id limit $3'),
    values: [projectId, after, limit],
  })
  return { agents, cursor: agents.length === limit ? agents.at(-1)!.agent_id : null }
}

export async function readAgent(db: Queryable, projectId: string, agentId: string): Promise<AgentRow | undefined> {
  const [agent] = await db.query<AgentRow>({
    name: 'bw_read_agent',
    text: select('a.agent_id = $2'),
    values: [projectId, agentId],
  })
  return agent
}

/** Which of these names are not agents of the project. Empty while the project has no agents, because its workers have not started yet. */
export async function findMissingAgents(
  db: Queryable,
  projectId: string,
  names: readonly string[],
): Promise<readonly string[]> {
  const rows = await db.query<{ name: string }>({
    name: 'bw_find_missing_agents',
    text: `select n.name from unnest($2::text[]) as n (name)
      where exists (select from resource.project_agents a where a.project_id = $1)
        and not exists (select from resource.project_agents a
          where a.project_id = $1 and a.agent_id = n.name and a.status <> 'retired')`,
    values: [projectId, names],
  })
  return rows.map(({ name }) => name)
}

export interface AgentWorkspaceRow {
  readonly workspace?: WorkspaceKind
  readonly base?: string
  readonly merge?: MergeMode
}

/** What the file of an agent says about its workspace; nothing if the agent has no file. */
export async function readAgentWorkspace(
  db: Queryable,
  projectId: string,
  agentId: string,
): Promise<AgentWorkspaceRow> {
  const [row] = await db.query<{ found: AgentWorkspaceRow }>({
    name: 'bw_read_agent_workspace',
    text: `select jsonb_strip_nulls(jsonb_build_object('workspace', p.spec -> 'workspace', 'base', p.spec -> 'base',
        'merge', p.spec -> 'merge')) as found
      from resource.project_agents a join resource.profiles p
        on p.project_id = a.project_id and p.profile_id = a.profile_id
      where a.project_id = $1 and a.agent_id = $2`,
    values: [projectId, agentId],
  })
  return row?.found ?? {}
}

/** Whether the project has an agent that can take work. */
export async function hasAgents(db: Queryable, projectId: string): Promise<boolean> {
  const rows = await db.query({
    name: 'bw_has_agents',
    text: "select from resource.project_agents a where a.project_id = $1 and a.status <> 'retired' limit 1",
    values: [projectId],
  })
  return rows.length > 0
}

/** An agent that an agent file declared. */
export interface StoredAgent {
  readonly agent_id: string
  readonly profile_id: string | null
  readonly worker_target: string
  /** The hash of the file. */
  readonly hash: string | null
}

/** The agents whose metadata names this source and origin. */
export async function listAgentsFrom(
  db: Queryable,
  projectId: string,
  source: string,
  origin: string,
): Promise<StoredAgent[]> {
  return db.query<StoredAgent>({
    text: `select agent_id, profile_id, worker_target, metadata ->> 'hash' as hash from resource.project_agents
      where project_id = $1 and metadata ->> 'source' = $2 and metadata ->> 'origin' = $3 limit 10000`,
    values: [projectId, source, origin],
  })
}

// More than a selection list can show.
const projectsMax = 1_000

export async function listProjects(db: Queryable): Promise<ProjectRow[]> {
  return db.query<ProjectRow>({
    name: 'bw_list_projects',
    text: `select project_id, created_at, worker_targets from resource.projects order by project_id limit ${projectsMax}`,
  })
}

const workersMax = 500

/** Workers of the targets of this project's agents, seen within the last hour, most recent first. */
export async function listWorkers(db: Queryable, projectId: string): Promise<WorkerRow[]> {
  return db.query<WorkerRow>({
    name: 'bw_list_workers',
    text: `select worker_id, worker_target, started_at, seen_at, last_claim_at, concurrency, free from state.workers w
      where w.seen_at > state.now() - interval '1 hour'
        and exists (select from resource.project_agents a where a.project_id = $1 and a.worker_target = w.worker_target)
      order by w.seen_at desc limit ${workersMax}`,
    values: [projectId],
  })
}

// The same limit as for the tools that a turn reads.
const toolNamesMax = 1_000

/** The tools that the project declares. */
export async function listToolNames(db: Queryable, projectId: string): Promise<string[]> {
  const rows = await db.query<{ tool_name: string }>({
    text: `select tool_name from resource.tools where project_id = $1 order by tool_name limit ${toolNamesMax}`,
    values: [projectId],
  })
  return rows.map((row) => row.tool_name)
}

// More than a model can choose from.
const rosterMax = 500

/** The profiles of a project, which new agents can have. */
export async function listProfileIds(db: Queryable, projectId: string): Promise<string[]> {
  const rows = await db.query<{ profile_id: string }>({
    text: `select profile_id from resource.profiles where project_id = $1 order by profile_id limit ${rosterMax}`,
    values: [projectId],
  })
  return rows.map((row) => row.profile_id)
}

export interface ActiveAgent {
  readonly agent_id: string
  readonly profile_id: string | null
  readonly description: string | null
}

/** The agents of a project that can take work, without those that batches created. */
export async function listActiveAgents(db: Queryable, projectId: string): Promise<ActiveAgent[]> {
  return db.query<ActiveAgent>({
    text: `select a.agent_id, a.profile_id, left(p.spec ->> 'description', 160) as description
      from resource.project_agents a
      left join resource.profiles p on p.project_id = a.project_id and p.profile_id = a.profile_id
      where a.project_id = $1 and a.status = 'active' and not a.metadata ? 'batch_id'
      order by a.agent_id limit ${rosterMax}`,
    values: [projectId],
  })
}
