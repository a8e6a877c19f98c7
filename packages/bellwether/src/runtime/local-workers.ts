/**
 * The workers of one machine's house: a child process for each worker target that an agent's file names. Always: a target that
 * cannot work keeps no other from its work, and is tried again at once when somebody changes an agent's file.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '@bellwether/base'
import { openAgentFolder } from '../worker/roster/folder.js'
import { startMember, type MemberOptions } from './child-process.js'
import { agentsFolder } from './paths.js'
import type { Supervisor } from './supervisor.js'
import { workerPart } from './up-file.js'

export interface CrewOptions {
  readonly folder: string
  readonly projectId: string
  readonly member: MemberOptions
  readonly supervisor: Supervisor
  readonly log: Log
  readonly signal: AbortSignal
}

export interface Crew {
  /** Looks at the agents, and starts what is missing; resolves when all of it is ready or has failed once. */
  look(): Promise<void>
}

export function openCrew({ folder, projectId, member, supervisor, log, signal }: CrewOptions): Crew {
  const place = join(folder, agentsFolder)
  let before = ''

  async function start(target: string): Promise<void> {
    const words = ['--target', target, '--project', projectId]
    const name = `${workerPart}${target}`
    await supervisor.keep({ name, start: () => startMember(member, 'worker', words) }).catch((error: unknown) => {
      log.error({ err: error, target }, 'a worker could not be started; see what it said above')
    })
  }

  return {
    async look() {
      const agents = openAgentFolder({ folder: place, log: silent })
      try {
        await agents.look()
      } catch (error) {
        // No agents yet: they may come.
        if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return
        throw error
      }
      const targets = [...new Set([...agents.agents.values()].map((agent) => agent.settings.worker_target))].sort()
      const now = JSON.stringify([
        [...agents.agents.values()].map((agent) => agent.settings),
        [...agents.problems],
        statSync(place, { throwIfNoEntry: false })?.mtimeMs,
      ])
      const changed = before !== '' && before !== now
      before = now
      const known = new Set(supervisor.parts.map((part) => part.name))
      if (changed) for (const target of targets) supervisor.nudge(`${workerPart}${target}`)
      if (signal.aborted) return
      await Promise.all(targets.filter((target) => !known.has(`${workerPart}${target}`)).map(start))
    },
  }
}

const silent: Log = { info: () => undefined, warn: () => undefined, error: () => undefined }
