/**
 * Keeps the roster in the database as the agent files say. A step reads the folder, puts what changed, and retires agents whose
 * file is gone. Always: only agents that this folder brought are ever retired; a step that fails half way is completed by the
 * next one. Who runs a turn is decided from the files of this worker, never from what the database says.
 */
import type { Log } from '@bellwether/base'
import type { ClaimedTurn } from '../../kernel/verbs/turn/claim.js'
import type { Kernel } from '../../kernel/kernel.js'
import { listAgentsFrom, type StoredAgent } from '../../kernel/reads/agents.js'
import type { AgentFunction } from '../agent.js'
import { cloneOriginsOf } from '../clone-origin.js'
import type { LoadedAgent, AgentFolder } from './folder.js'

export interface RosterOptions {
  readonly kernel: Pick<Kernel, 'db' | 'putAgents' | 'putProfile'>
  readonly projectId: string
  readonly folder: AgentFolder
  /** Names the folder for good: `host:path`. */
  readonly origin: string
  readonly log: Log
  /** Undefined: this worker has no such executor. */
  readonly executor: (agent: LoadedAgent) => AgentFunction | undefined
}

export interface Roster {
  step(): Promise<void>
  /** Undefined: no file speaks of this agent, nor of whom it was copied from, nor of its profile. */
  agent(
    turn: Pick<ClaimedTurn, 'projectId' | 'agentId' | 'agentTurnId' | 'profileId' | 'payload'>,
  ): AgentFunction | undefined
}

const source = 'file'
const retiredMark = 'retired'

export function openRoster({ kernel, projectId, folder, origin, log, executor }: RosterOptions): Roster {
  /** What the database holds of this folder, by agent; undefined until it was asked. */
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
    await kernel.putAgents([{ projectId, agentId: name, profileId: name, workerTarget, status: 'active', metadata }])
    known.set(name, { agent_id: name, profile_id: name, worker_target: workerTarget, hash })
    log.info(
      { agent_id: name, worker_target: workerTarget, executor: settings.executor },
      'an agent was put on the roster',
    )
  }

  async function retire(known: Map<string, StoredAgent>, row: StoredAgent): Promise<void> {
    await kernel.putAgents([
      {
        projectId,
        agentId: row.agent_id,
        workerTarget: row.worker_target,
        ...(row.profile_id === null ? {} : { profileId: row.profile_id }),
        status: 'retired',
        metadata: { source, origin, hash: retiredMark },
      },
    ])
    known.set(row.agent_id, { ...row, hash: retiredMark })
    log.info({ agent_id: row.agent_id }, 'an agent was retired: its file is gone')
  }

  return {
    async step() {
      await folder.look()
      stored ??= await read()
      const errors: unknown[] = []
      for (const agent of folder.agents.values()) {
        if (stored.get(agent.name)?.hash === agent.hash) continue
        try {
          await put(stored, agent)
        } catch (error) {
          errors.push(error) // one that cannot be put does not keep the others away
        }
      }
      for (const row of stored.values()) {
        // A bad file is not a missing one: its agent stays.
        const there = folder.agents.has(row.agent_id) || folder.problems.has(row.agent_id)
        if (!there && row.hash !== retiredMark) await retire(stored, row)
      }
      if (errors.length > 0) throw new AggregateError(errors, `${errors.length} agents could not be put on the roster`)
    },
    agent(turn) {
      if (turn.projectId !== projectId) return undefined
      // Agents that were made for one task are done by the file of whom they come from; the profile of a file has its name.
      const profile = turn.profileId === null ? [] : [turn.profileId]
      const name = [turn.agentId, ...cloneOriginsOf(turn), ...profile].find(
        (one) => folder.agents.has(one) || folder.problems.has(one),
      )
      if (name === undefined) return undefined
      const agent = folder.agents.get(name)
      if (agent !== undefined)
        return executor(agent) ?? unable(`this worker has no executor "${agent.settings.executor}"`)
      return unable(`its file is bad: ${folder.problems.get(name)?.join('; ') ?? ''}`)
    },
  }
}

const unable =
  (why: string): AgentFunction =>
  async ({ turn }) => ({
    deliver: { text: `Agent ${turn.agentId} cannot work: ${why}.` },
    status: 'failed',
    error: 'no_executor',
  })
