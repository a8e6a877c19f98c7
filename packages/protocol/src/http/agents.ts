/** Projects, agents, profiles, tools and workers. */
import { z } from '../deferred.js'
import { activities, afterExecutions, agentStatuses, memories, outcomes } from '../vocabulary.js'
import {
  bodyBytes,
  inProject,
  limit,
  list,
  longText,
  page,
  record,
  targetsMax,
  text,
  time,
  token,
  type Route,
} from './shapes.js'

const agentFields = z.strictObject({
  worker_target: token,
  profile_id: token.optional(),
  status: z.enum(agentStatuses).optional(),
  metadata: record.optional(),
  turn_deadline_seconds: z.number().positive().max(31_536_000).optional(),
  memory: z
    .enum(memories)
    .optional()
    .describe(
      'what its turns know of earlier turns: `none`, those of their `session_id`, or its `box`; default: the `memory` of the profile’s spec, else `none`',
    ),
})
const newAgent = agentFields.extend({ agent_id: token })
export type NewAgent = z.output<typeof newAgent>

const agent = z.object({
  agent_id: z.string(),
  profile_id: z.string().nullable(),
  worker_target: z.string(),
  status: z.enum(agentStatuses),
  memory: z.enum(memories).describe('what its turns know of earlier turns'),
  metadata: record,
  state: z
    .object({
      status: z.string(),
      active_agent_turn_id: z.string().nullable(),
      turn_epoch: z.number(),
      activity: z.enum(activities).nullable(),
      current_tool: z.string().nullable(),
      waiting_tool_count: z.number(),
      resume_deadline: time.nullable(),
      turn_deadline: time.nullable(),
      leased_at: time.nullable(),
      updated_at: time,
      output_box_id: z.string().nullable(),
    })
    .nullable()
    .describe('its head; null before its first turn'),
  queued: z.number().describe('queued turns, counted up to 1,000'),
  last_turn: z
    .object({ agent_turn_id: z.string(), outcome: z.enum(outcomes), ended_at: time })
    .nullable()
    .describe('its newest ended turn'),
})

export type Agent = z.output<typeof agent>
export type AgentRow = z.input<typeof agent>

const worker = z.object({
  worker_id: z.string(),
  worker_target: z.string(),
  started_at: time,
  seen_at: time,
  last_claim_at: time.nullable(),
  concurrency: z.number().nullable(),
  free: z.number().nullable().describe('how many more turns the worker can take'),
})

export type Worker = z.output<typeof worker>
export type WorkerRow = z.input<typeof worker>

const projectLine = z.object({
  project_id: z.string(),
  created_at: time,
  worker_targets: list(z.string()).nullable().describe('the worker targets that its agents may have; null: all'),
})
export type ProjectRow = z.input<typeof projectLine>

const oneAgent = inProject.extend({ agent: token })

export const agentRoutes = {
  'GET /projects': {
    summary: 'List the projects that the key can reach',
    responses: { 200: z.object({ projects: list(projectLine) }) },
  },
  'PUT /projects/:project/targets': {
    summary: 'Set the worker targets that agents and profiles of the project may have',
    description: 'Responds with 409 `targets_in_use` if an agent or profile of the project has another target.',
    params: inProject,
    body: z.strictObject({
      worker_targets: z.array(token).max(targetsMax).nullable().describe('null: all targets; []: none'),
    }),
    responses: { 200: z.object({ project_id: z.string(), worker_targets: list(z.string()).nullable() }) },
  },
  'GET /projects/:project/workers': {
    summary: 'List workers of the project’s targets that were seen within the last hour',
    params: inProject,
    responses: { 200: z.object({ workers: list(worker) }) },
  },
  'GET /projects/:project/agents': {
    summary: 'List agents by name',
    params: inProject,
    query: z.object({ cursor: z.string().max(120).default(''), limit: limit(1_000, 100) }),
    responses: { 200: page('agents', agent, z.string()) },
  },
  'PUT /projects/:project/agents': {
    summary: 'Add or change several agents',
    params: inProject,
    // 1,000 agents are one statement of about one second.
    bodyBytesMax: bodyBytes.large,
    body: z.strictObject({ agents: z.array(newAgent).min(1).max(1_000) }),
    responses: { 200: z.object({ count: z.number() }) },
  },
  'GET /projects/:project/agents/:agent': {
    summary: 'Read an agent and its current state',
    params: oneAgent,
    responses: { 200: agent },
  },
  'PUT /projects/:project/agents/:agent': {
    summary: 'Add or change an agent',
    params: oneAgent,
    bodyBytesMax: bodyBytes.text,
    body: agentFields,
    responses: { 200: agent },
  },
  'PUT /projects/:project/profiles/:profile': {
    summary: 'Add or change a profile that several agents share',
    params: inProject.extend({ profile: token }),
    bodyBytesMax: bodyBytes.text,
    body: z.strictObject({ name: text(200).optional(), worker_target: token, spec: record.optional() }),
    responses: { 200: z.object({ profile_id: z.string() }) },
  },
  'PUT /projects/:project/tools/:tool': {
    summary: 'Declare a tool that agents of the project can call',
    params: inProject.extend({ tool: token }),
    bodyBytesMax: bodyBytes.text,
    body: z.strictObject({
      description: longText.optional(),
      parameters: record.optional(),
      target_subject: text(1_000).optional(),
      after_execution: z.enum(afterExecutions).optional(),
      options: record.optional(),
    }),
    responses: { 200: z.object({ tool_name: z.string() }) },
  },
} as const satisfies Record<string, Route>
