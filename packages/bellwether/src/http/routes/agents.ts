/** Agents, profiles, tools and workers. A PUT replaces the whole agent and changes no turn. */
import { defined, hasCode } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { NewAgent } from '@bellwether/protocol/http'
import { listAgents, listProjects, listWorkers, readAgent } from '../../kernel/reads/agents.js'
import { setTargets } from '../../kernel/verbs/roster.js'
import { notFound, type Api, type KernelParts } from '../api.js'
import { mustBeUnlimited } from '../roles.js'

export function agentRoutes(api: Api, { kernel }: KernelParts): void {
  const put = (projectId: string, agents: readonly NewAgent[]) =>
    kernel
      .putAgents(
        agents.map((agent) => ({
          projectId,
          agentId: agent.agent_id,
          workerTarget: agent.worker_target,
          ...defined({
            profileId: agent.profile_id,
            status: agent.status,
            memory: agent.memory,
            metadata: agent.metadata,
            turnDeadlineSeconds: agent.turn_deadline_seconds,
          }),
        })),
      )
      .catch(unknownProfile)

  async function agentOf(project: string, agentId: string) {
    const agent = await readAgent(kernel.db, project, agentId)
    if (agent === undefined) throw notFound(`Agent "${agentId}" in project "${project}"`)
    return agent
  }

  api('GET /projects', async ({ grant }) => ({
    projects: (await listProjects(kernel.db)).filter((one) => grant.reaches(one.project_id)),
  }))

  api('PUT /projects/:project/targets', async ({ params, body, grant }) => {
    // A key of the project must not extend its own reach.
    mustBeUnlimited(grant)
    const { worker_targets: targets } = body
    await setTargets(kernel.db, params.project, targets)
    return { project_id: params.project, worker_targets: targets }
  })

  api('GET /projects/:project/workers', async ({ params }) => ({
    workers: await listWorkers(kernel.db, params.project),
  }))

  api('GET /projects/:project/agents', ({ params, query }) =>
    listAgents(kernel.db, params.project, query.cursor, query.limit),
  )

  api('GET /projects/:project/agents/:agent', ({ params }) => agentOf(params.project, params.agent))

  api('PUT /projects/:project/agents/:agent', async ({ params, body }) => {
    await put(params.project, [{ ...body, agent_id: params.agent }])
    return agentOf(params.project, params.agent)
  })

  api('PUT /projects/:project/agents', async ({ params, body }) => {
    if (new Set(body.agents.map((agent) => agent.agent_id)).size !== body.agents.length)
      throw new InvalidInput('Invalid body: "agents" names an agent twice', { code: 'invalid_request' })
    await put(params.project, body.agents)
    return { count: body.agents.length }
  })

  api('PUT /projects/:project/profiles/:profile', async ({ params, body }) => {
    const { name = params.profile, worker_target: workerTarget } = body
    const profile = { projectId: params.project, profileId: params.profile, name, workerTarget }
    await kernel.putProfile({ ...profile, ...defined({ spec: body.spec }) })
    return { profile_id: params.profile }
  })

  api('PUT /projects/:project/tools/:tool', async ({ params, body }) => {
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

/** A violated foreign key: the profile or the project is missing. */
function unknownProfile(error: unknown): never {
  if (!hasCode(error, '23503')) throw error
  throw new InvalidInput('The profile or the project does not exist', {
    code: 'unknown_profile',
    cause: error,
    hint: 'PUT /projects/{project}/profiles/{profile} first, or omit profile_id; the first agent creates its project',
  })
}
