/** Writes the roster: agents, profiles, tools and workers. Agent files and their reloading build on this. */
import { InvalidInput, memories, Terminal, token, type AfterExecution, type Memory } from '@bellwether/protocol'
import type { Queryable } from '../../ports/database/database.js'
import type { Ids } from '../../ports/ids.js'
import { payloadMaxBytes, storable } from '../content.js'
import { isUnansweredSubject, pmoTools } from '../pmo-tools.js'
import { callWith, fenceRow, type Fence } from '../verdict.js'

export interface Agent {
  readonly projectId: string
  readonly agentId: string
  readonly workerTarget: string
  readonly profileId?: string
  readonly status?: 'active' | 'retired'
  readonly metadata?: Readonly<Record<string, unknown>>
  /** What its turns know of earlier turns; absent: the profile's `memory`, else `none`. */
  readonly memory?: Memory
  /** The absolute limit of each turn; absent: the profile's, else pmo.turn_deadline_seconds. */
  readonly turnDeadlineSeconds?: number
  /** false: the agent has no output box, and its task events report `no_output_box` (T1.3). */
  readonly outputBox?: boolean
}

// One year. A longer deadline is a mistake, and an interval that overflows would stop more than its own agent.
const deadlineMaxSeconds = 31_536_000

function deadline(seconds: number | undefined): number | undefined {
  if (seconds === undefined || (seconds > 0 && seconds <= deadlineMaxSeconds)) return seconds
  throw new InvalidInput(
    `The turn deadline must be more than 0 and at most ${deadlineMaxSeconds} seconds (got ${seconds})`,
    { code: 'invalid_turn_deadline' },
  )
}

export async function putAgents(db: Queryable, ids: Ids, agents: readonly Agent[]): Promise<void> {
  const rows = agents.map((agent) => {
    if (agent.metadata !== undefined)
      storable(agent.metadata, `the metadata of agent "${agent.agentId}"`, payloadMaxBytes)
    if (agent.memory !== undefined && !memories.includes(agent.memory)) {
      throw new InvalidInput(
        `Cannot add agent "${agent.agentId}": "memory" must be one of ${memories.join(', ')} (got ${JSON.stringify(agent.memory)})`,
        { code: 'invalid_memory' },
      )
    }
    return {
      project_id: token(agent.projectId, 'project'),
      agent_id: token(agent.agentId, 'agent'),
      memory: agent.memory,
      worker_target: token(agent.workerTarget, 'worker target'),
      profile_id: agent.profileId,
      status: agent.status,
      metadata: agent.metadata,
      turn_deadline_seconds: deadline(agent.turnDeadlineSeconds),
      box_id: agent.outputBox === false ? undefined : ids.next(),
    }
  })
  await db
    .query({ name: 'bw_put_agents', text: 'select state.put_agents($1::json)', values: [JSON.stringify(rows)] })
    .catch(forbiddenTarget)
}

async function putProject(db: Queryable, projectId: string): Promise<void> {
  await db.query({
    text: 'insert into resource.projects (project_id) values ($1) on conflict do nothing',
    values: [projectId],
  })
}

export interface Profile {
  readonly projectId: string
  readonly profileId: string
  readonly name: string
  readonly workerTarget: string
  /** Settings of the executor; `turn_deadline_seconds` limits the turns of its agents. */
  readonly spec?: Readonly<Record<string, unknown>>
}

/** Put profiles before agents: an agent takes over its profile's deadline when it is put. */
export async function putProfile(db: Queryable, profile: Profile): Promise<void> {
  const spec = profile.spec ?? {}
  storable(spec, `the spec of profile "${profile.profileId}"`, payloadMaxBytes)
  const project = token(profile.projectId, 'project')
  await putProject(db, project)
  await db
    .query({
      // The first part locks the project's row until the profile is written.
      text: `with checked as materialized (select state.check_targets(array[$1], array[$4]))
        insert into resource.profiles (project_id, profile_id, name, worker_target, spec)
        select $1, $2, $3, $4, $5::jsonb from checked
        on conflict (project_id, profile_id) do update set name = excluded.name, worker_target = excluded.worker_target,
          spec = excluded.spec`,
      values: [
        project,
        token(profile.profileId, 'profile'),
        profile.name,
        token(profile.workerTarget, 'worker target'),
        JSON.stringify(spec),
      ],
    })
    .catch(forbiddenTarget)
}

function forbiddenTarget(error: unknown): never {
  if (!(error instanceof Error && 'constraint' in error && error.constraint === 'project_may_use_target')) throw error
  throw new InvalidInput(`Cannot change the roster: ${error.message}`, {
    code: 'target_not_allowed',
    cause: error,
    hint: 'use a target of the project (`bellwether targets list`), or let an administrator add it (`bellwether targets set`)',
  })
}

interface TargetUser {
  readonly kind: 'agent' | 'profile'
  readonly name: string
  readonly worker_target: string
}

// More than one project has: the list is compared with every agent that is added.
const targetsMax = 100

/** Sets the worker targets that a project may use; null: all. Fails if agents or profiles of the project have another target. */
export async function setTargets(db: Queryable, projectId: string, targets: readonly string[] | null): Promise<void> {
  if (targets !== null && targets.length > targetsMax)
    throw new InvalidInput(`A project may have at most ${targetsMax} targets (got ${targets.length})`, {
      code: 'invalid_targets',
    })
  const users = await callWith<TargetUser>(
    db,
    'set_targets',
    token(projectId, 'project'),
    targets?.map((target) => token(target, 'worker target')) ?? null,
  )
  if (users.length === 0) return
  const named = users.map(({ kind, name, worker_target }) => `${kind} "${name}" (${worker_target})`)
  throw new Terminal(
    `Cannot restrict the targets of project "${projectId}": other targets are in use by ${named.join(', ')}`,
    {
      code: 'targets_in_use',
      hint: 'give these agents and profiles another target first, or add their targets to the list',
    },
  )
}

export interface Tool {
  readonly projectId: string
  readonly toolName: string
  readonly description?: string
  readonly parameters?: unknown
  readonly targetSubject?: string
  readonly afterExecution?: AfterExecution
  readonly options?: Readonly<Record<string, unknown>>
}

// `cmd.tool.NAME.call`, `cmd.sys.pmo.internal.NAME`: the part of the subject after project and channel.
const targetPattern = /^cmd(\.[a-z0-9_-]{1,120}){1,8}$/

export async function putTool(db: Queryable, tool: Tool): Promise<void> {
  if (tool.targetSubject !== undefined && !targetPattern.test(tool.targetSubject)) {
    throw new InvalidInput(
      `Invalid command subject ${JSON.stringify(tool.targetSubject.slice(0, 80))} for tool "${tool.toolName}"`,
      {
        code: 'invalid_subject',
        hint: 'use "cmd." and one to eight names of the characters a-z, 0-9, _ and -, separated by dots',
      },
    )
  }
  if (tool.targetSubject !== undefined && isUnansweredSubject(tool.targetSubject)) {
    throw new InvalidInput(`Cannot declare tool "${tool.toolName}": nothing answers calls to "${tool.targetSubject}"`, {
      code: 'unknown_pmo_tool',
      hint: `the PMO hosts cmd.sys.pmo.internal.NAME, where NAME is ${pmoTools.join(', ')}; your own hosts listen to cmd.tool.NAME.call`,
    })
  }
  const project = token(tool.projectId, 'project')
  await putProject(db, project)
  await db.query({
    name: 'bw_put_tool',
    text: `insert into resource.tools (project_id, tool_name, description, parameters, target_subject, after_execution,
        options)
      values ($1, $2, $3, $4, $5, $6, $7)
      on conflict (project_id, tool_name) do update set description = excluded.description,
        parameters = excluded.parameters, target_subject = excluded.target_subject,
        after_execution = excluded.after_execution, options = excluded.options`,
    values: [
      project,
      token(tool.toolName, 'tool'),
      tool.description ?? '',
      JSON.stringify(tool.parameters ?? {}),
      tool.targetSubject ?? null,
      tool.afterExecution ?? 'suspend',
      JSON.stringify(tool.options ?? {}),
    ],
  })
}

export interface KernelLimits {
  readonly turnDeadlineSeconds: number
  readonly maxRecursionDepth: number
}

/** Stores the limits that the verbs read. The process that owns the settings writes them, so that all processes agree. */
export async function setLimits(db: Queryable, limits: KernelLimits): Promise<void> {
  await db.query({
    text: 'update state.limits set turn_deadline_seconds = $1, max_recursion_depth = $2',
    values: [limits.turnDeadlineSeconds, limits.maxRecursionDepth],
  })
}

/**
 * Signs a worker in, or records that it is still there. `free` is how many more turns it could take now: a full worker that beats is not
 * dead (W2.5). If a worker was not seen for `gapSeconds`, it counts as new: the PMO gives it a full timeout to take the waiting turns.
 */
export async function signIn(
  db: Queryable,
  workerId: string,
  target: string,
  concurrency: number,
  free: number,
  gapSeconds = 15,
): Promise<void> {
  await db.query({
    name: 'bw_sign_in',
    text: 'select state.sign_in($1, $2, $3, $4, $5)',
    values: [workerId, target, concurrency, free, gapSeconds],
  })
}

/**
 * Records that agent code blocks the event loop of a worker, with one intervention per turn that it runs. The worker has no free slots until it
 * signs in again.
 */
export async function noteBlocked(db: Queryable, workerId: string, turns: readonly Fence[]): Promise<void> {
  await db.query({
    text: `with blocked as (update state.workers w set free = 0, seen_at = state.now() where w.worker_id = $1)
      insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, after, created_at)
      select 'worker_blocked', x.project_id, x.agent_id, x.agent_turn_id, x.turn_epoch,
        'the event loop of its worker is blocked', jsonb_build_object('worker_id', $1::text), state.now()
      from json_to_recordset($2::json) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint)`,
    values: [workerId, JSON.stringify(turns.map(fenceRow))],
  })
}

/** Records that a worker begins to shut down: no death is charged to the turns that it leaves behind. */
export async function signOut(db: Queryable, workerId: string): Promise<void> {
  await db.query({ name: 'bw_sign_out', text: 'select state.sign_out($1)', values: [workerId] })
}
