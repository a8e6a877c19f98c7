/** The roster over HTTP: who may work, and what each is doing now. One PUT says everything about an agent; it changes no turn. */
import { InvalidInput } from '@bellwether/protocol'
import { z } from 'zod'
import { listAgents, listProjects, listWorkers, readAgent } from '../../kernel/reads/agents.js'
import { inProject, limitOf, notFound, text, token, words, type Api, type KernelParts } from '../api.js'
import { defined } from '@bellwether/base'

const agentBody = z.strictObject({
  worker_target: token,
  profile_id: token.optional(),
  status: z.enum(['active', 'retired']).optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  turn_deadline_seconds: z.number().positive().max(31_536_000).optional(),
})
// A roster of this size is one statement of a second.
const agentsMax = 1_000
const agentsBody = z.strictObject({
  agents: z
    .array(agentBody.extend({ agent_id: token }))
    .min(1)
    .max(agentsMax),
})
const oneAgent = inProject.extend({ agent: token })
const profileBody = z.strictObject({
  name: text(200).optional(),
  worker_target: token,
  spec: z.record(z.string(), z.unknown()).optional(),
})
const toolBody = z.strictObject({
  description: words.optional(),
  parameters: z.record(z.string(), z.unknown()).optional(),
  target_subject: text(1_000).optional(),
  after_execution: z.enum(['suspend', 'terminate']).optional(),
  options: z.record(z.string(), z.unknown()).optional(),
})

type AgentBody = z.output<typeof agentBody>

export function agentRoutes(app: Api, { kernel }: KernelParts): void {
  const put = (projectId: string, agents: readonly (AgentBody & { readonly agent_id: string })[]) =>
    kernel
      .putAgents(
        agents.map((agent) => ({
          projectId,
          agentId: agent.agent_id,
          workerTarget: agent.worker_target,
          ...defined({
            profileId: agent.profile_id,
            status: agent.status,
            metadata: agent.metadata,
            turnDeadlineSeconds: agent.turn_deadline_seconds,
          }),
        })),
      )
      .catch(unknownProfile)

  const projects = { summary: 'The projects that this key reaches' }
  app.get('/projects', { schema: projects }, async ({ grant }) => ({
    projects: (await listProjects(kernel.db)).filter((one) => grant.reaches(one.project_id)),
  }))

  const workers = { params: inProject, summary: 'Workers that this project’s agents may run on, seen within the hour' }
  app.get('/projects/:project/workers', { schema: workers }, async ({ params }) => ({
    workers: await listWorkers(kernel.db, params.project),
  }))

  const list = {
    params: inProject,
    querystring: z.object({ cursor: z.string().max(120).default(''), limit: limitOf(1_000, 100) }),
    summary: 'The agents of a project, by name',
  }
  app.get('/projects/:project/agents', { schema: list }, ({ params, query }) =>
    listAgents(kernel.db, params.project, query.cursor, query.limit),
  )

  const one = { params: oneAgent, summary: 'One agent and what it is doing' }
  app.get('/projects/:project/agents/:agent', { schema: one }, async ({ params }) => {
    const agent = await readAgent(kernel.db, params.project, params.agent)
    if (agent === undefined) throw notFound(`agent ${params.agent} in project ${params.project}`)
    return agent
  })

  const putOne = { params: oneAgent, body: agentBody, summary: 'Add an agent to the roster, or change it' }
  app.put('/projects/:project/agents/:agent', { schema: putOne }, async ({ params, body }) => {
    await put(params.project, [{ ...body, agent_id: params.agent }])
    return readAgent(kernel.db, params.project, params.agent)
  })

  const putMany = { params: inProject, body: agentsBody, summary: 'Add or change many agents' }
  app.put('/projects/:project/agents', { schema: putMany }, async ({ params, body }) => {
    if (new Set(body.agents.map((agent) => agent.agent_id)).size !== body.agents.length)
      throw new InvalidInput('an agent is named twice', { code: 'invalid_request' })
    await put(params.project, body.agents)
    return { count: body.agents.length }
  })

  const putProfile = {
    params: inProject.extend({ profile: token }),
    body: profileBody,
    summary: 'A profile: what several agents have in common',
  }
  app.put('/projects/:project/profiles/:profile', { schema: putProfile }, async ({ params, body }) => {
    const { name = params.profile, worker_target: workerTarget } = body
    const profile = { projectId: params.project, profileId: params.profile, name, workerTarget }
    await kernel.putProfile({ ...profile, ...defined({ spec: body.spec }) })
    return { profile_id: params.profile }
  })

  const putTool = {
    params: inProject.extend({ tool: token }),
    body: toolBody,
    summary: 'Declare a tool that agents of this project may call',
  }
  app.put('/projects/:project/tools/:tool', { schema: putTool }, async ({ params, body }) => {
    await kernel
      .putTool({
        projectId: params.project,
        toolName: params.tool,
        ...defined({
          description: body.description,
          parameters: body.parameters,
          targetSubject: body.target_subject,
          afterExecution: body.after_execution,
          options: body.options,
        }),
      })
      .catch(unknownProfile)
    return { tool_name: params.tool }
  })
}

/** What is referred to must be there first: a foreign key says so. */
function unknownProfile(error: unknown): never {
  if (!(error instanceof Error && 'code' in error && error.code === '23503')) throw error
  throw new InvalidInput('the profile or the project that is named is not there', {
    code: 'unknown_profile',
    cause: error,
    hint: 'PUT /projects/{project}/profiles/{profile} first, or leave profile_id out; a project begins with its first agent',
  })
}
