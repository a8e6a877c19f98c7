/**
 * Runs one worker process per worker target that the agent files name. A target whose worker fails affects no other target, and is
 * retried at once when an agent file changes.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { hasCode, type Log } from '@bellwether/base'
import { defaultTarget } from '../../worker/roster/agent-file.js'
import { openAgentFolder } from '../../worker/roster/folder.js'
import { startChild, type Child, type ChildExit, type ChildOptions } from './child-process.js'
import { agentsFolder } from '../paths.js'
import type { Supervisor } from './supervisor.js'
import { workerPart } from '../parts/up-file.js'
import { turnFailureExitCode } from '../shutdown.js'

export interface LocalWorkersOptions {
  /** The folder of the accepted control files. */
  readonly control: string
  /** The agents file, from the project folder. */
  readonly agentsFile?: string | undefined
  readonly projectId: string
  readonly child: ChildOptions
  readonly supervisor: Supervisor
  /** Whether this worker runs turns, from the database: then a turn may have ended its process. */
  readonly ranTurns: (workerId: string) => Promise<boolean>
  readonly log: Log
  readonly signal: AbortSignal
}

export interface LocalWorkers {
  /** Reads the agent files and starts missing workers; resolves when each is ready or has failed once. */
  refresh(): Promise<void>
}

export function openLocalWorkers({
  control,
  agentsFile,
  projectId,
  child,
  supervisor,
  ranTurns,
  log,
  signal,
}: LocalWorkersOptions): LocalWorkers {
  const path = join(control, agentsFolder)
  let before = ''

  async function start(target: string): Promise<void> {
    const own = agentsFile === undefined ? [] : ['--agents', agentsFile]
    const args = ['--target', target, '--project', projectId, '--control', control, ...own]
    const name = `${workerPart}${target}`
    // A turn that kills its workers is isolated and ended by the kernel; a pause of the target would hold up all other turns.
    const excuse = async ({ facts }: Child, { code }: ChildExit) =>
      code === turnFailureExitCode || (await ranTurns(String(facts['worker_id'])))
    await supervisor.keep({ name, start: () => startChild(child, 'worker', args), excuse }).catch((error: unknown) => {
      log.error({ err: error, target }, 'worker failed to start; see its log lines above')
    })
  }

  return {
    async refresh() {
      const agents = openAgentFolder({ folder: path, log: silent })
      try {
        await agents.scan()
      } catch (error) {
        // The folder does not exist yet.
        if (hasCode(error, 'ENOENT')) return
        throw error
      }
      const named = [...agents.agents.values()].map((agent) => agent.settings.worker_target)
      // Turns of an agent whose file is invalid fail there. A worker without a valid file would exit.
      const isNeeded = agents.problems.size > 0 && named.length > 0
      const targets = [...new Set([...named, ...(isNeeded ? [defaultTarget] : [])])].sort()
      const now = JSON.stringify([
        [...agents.agents.values()].map((agent) => agent.settings),
        [...agents.problems],
        statSync(path, { throwIfNoEntry: false })?.mtimeMs,
      ])
      const changed = before !== '' && before !== now
      before = now
      const known = new Set(supervisor.parts.map((part) => part.name))
      if (changed) for (const target of targets) supervisor.retryNow(`${workerPart}${target}`)
      if (signal.aborted) return
      await Promise.all(targets.filter((target) => !known.has(`${workerPart}${target}`)).map(start))
    },
  }
}

const silent: Log = { info: () => undefined, warn: () => undefined, error: () => undefined }
