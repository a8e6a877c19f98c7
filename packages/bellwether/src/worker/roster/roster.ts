/**
 * Keeps the roster in the database in step with the agent files. A step scans the folder, writes changed agents, and retires agents
 * whose file is gone. Only agents from this folder are ever retired; the next step completes one that failed. The files of this
 * worker, never the database, decide how a turn is run.
 */
import { defined, type Log } from '@bellwether/base'
import { isToken } from '@bellwether/protocol'
import type { ClaimedTurn } from '../../kernel/verbs/turn/claim.js'
import type { Kernel } from '../../kernel/kernel.js'
import { listAgentsFrom, type StoredAgent } from '../../kernel/reads/agents.js'
import type { AgentFunction } from '../agent.js'
import { cloneOriginsOf } from '../clone-origin.js'
import { defaultTarget } from './agent-file.js'
import type { LoadedAgent, AgentFolder } from './folder.js'

export interface RosterOptions {
  readonly kernel: Pick<Kernel, 'db' | 'putAgents' | 'putProfile'>
  readonly projectId: string
  readonly folder: AgentFolder
  /** The permanent name of the folder: `host:path`. */
  readonly origin: string
  readonly log: Log
  /** False: another process writes the roster; a step only scans the folder. Default: true. */
  readonly writes?: boolean
  /** Undefined if this worker does not have the agent's executor. */
  readonly executor: (agent: LoadedAgent) => AgentFunction | undefined
}

export interface Roster {
  step(): Promise<void>
  /** Undefined if no file defines this agent, the agent it was cloned from, or its profile. */
  agent(
    turn: Pick<ClaimedTurn, 'projectId' | 'agentId' | 'agentTurnId' | 'profileId' | 'payload'>,
  ): AgentFunction | undefined
}

const source = 'file'
const retiredMark = 'retired'
const invalidMark = 'invalid'

export function openRoster(options: RosterOptions): Roster {
  const { kernel, projectId, folder, origin, log, executor, writes = true } = options
  /** The stored rows of this folder, by agent. Undefined until the first step has read them. */
  let stored: Map<string, StoredAgent> | undefined

  async function read(): Promise<Map<string, StoredAgent>> {
    const rows = await listAgentsFrom(kernel.db, projectId, source, origin)
    return new Map(rows.map((row) => [row.agent_id, row]))
  }

  async function put(known: Map<string, StoredAgent>, agent: LoadedAgent): Promise<void> {
    const { name, hash, settings, instructions } = agent
    const workerTarget = settings.worker_target
    await kernel.putProfile({ projectId, profileId: name, name, workerTarget, spec: { ...settings, instructions } })
    const metadata = { source, origin, hash, executor: settings.executor }
    const { memory = 'none' } = settings
    const row = { projectId, agentId: name, profileId: name, workerTarget, memory }
    await kernel.putAgents([{ ...row, status: 'active', metadata }])
    known.set(name, { agent_id: name, profile_id: name, worker_target: workerTarget, hash })
    log.info({ agent_id: name, worker_target: workerTarget, executor: settings.executor }, 'agent added to the roster')
  }

  /** So that people see the agent, and a turn of it fails with the problems of its file. */
  async function putInvalid(known: Map<string, StoredAgent>, name: string): Promise<void> {
    const metadata = { source, origin, hash: invalidMark }
    await kernel.putAgents([{ projectId, agentId: name, workerTarget: defaultTarget, status: 'active', metadata }])
    known.set(name, { agent_id: name, profile_id: null, worker_target: defaultTarget, hash: invalidMark })
  }

  async function retire(known: Map<string, StoredAgent>, row: StoredAgent): Promise<void> {
    await kernel.putAgents([
      {
        projectId,
        agentId: row.agent_id,
        workerTarget: row.worker_target,
        ...defined({ profileId: row.profile_id ?? undefined }),
        status: 'retired',
        metadata: { source, origin, hash: retiredMark },
      },
    ])
    known.set(row.agent_id, { ...row, hash: retiredMark })
    log.info({ agent_id: row.agent_id }, 'agent retired, its file is gone')
  }

  return {
    async step() {
      await folder.scan()
      if (!writes) return
      stored ??= await read()
      const errors: unknown[] = []
      for (const agent of folder.agents.values()) {
        if (stored.get(agent.name)?.hash === agent.hash) continue
        try {
          await put(stored, agent)
        } catch (error) {
          errors.push(error) // the other agents are still written
        }
      }
      for (const name of folder.problems.keys()) {
        const isKnown = folder.agents.has(name) || (stored.get(name)?.hash ?? retiredMark) !== retiredMark
        // A file whose name is not valid cannot be an agent.
        if (!isKnown && isToken(name)) await putInvalid(stored, name)
      }
      for (const row of stored.values()) {
        // An invalid file is not a missing file: its agent stays.
        const exists = folder.agents.has(row.agent_id) || folder.problems.has(row.agent_id)
        if (!exists && row.hash !== retiredMark) await retire(stored, row)
      }
      if (errors.length > 0) throw new AggregateError(errors, `Cannot write ${errors.length} agents to the roster`)
    },
    agent(turn) {
      if (turn.projectId !== projectId) return undefined
      // A clone is run by the file of the agent it was cloned from; a file's profile has the file's name.
      const profile = turn.profileId === null ? [] : [turn.profileId]
      const name = [turn.agentId, ...cloneOriginsOf(turn), ...profile].find(
        (one) => folder.agents.has(one) || folder.problems.has(one),
      )
      if (name === undefined) return undefined
      const agent = folder.agents.get(name)
      if (agent !== undefined)
        return executor(agent) ?? unable(`this worker has no executor "${agent.settings.executor}"`)
      return unable(`its agent file is invalid: ${folder.problems.get(name)?.join('; ') ?? ''}`)
    },
  }
}

/** An agent that fails its turns with a reason. */
export const unable =
  (reason: string): AgentFunction =>
  async ({ turn }) => ({
    deliver: { text: `Cannot run agent "${turn.agentId}": ${reason}${/[.?]$/.test(reason) ? '' : '.'}` },
    status: 'failed',
    error: 'no_executor',
  })
