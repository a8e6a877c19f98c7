/**
 * Composes what a worker needs to run agents from files: the folder and its roster, the command executor, its guardian. The
 * executors that need a model or a person are composed by whoever provides them; a file that asks for one is told so.
 */
import { createHash } from 'node:crypto'
import { existsSync, realpathSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import type { Kernel } from '../kernel/kernel.js'
import type { Clock } from '../ports/clock.js'
import type { Log } from '../ports/log.js'
import { loop, makeWake } from '../ports/loop.js'
import { openGuardian } from '../ports/processes/guardian.js'
import { readSelf } from '../ports/processes/proc.js'
import { watchFolder } from '../ports/watch-folder.js'
import type { Settings } from '../settings/schema.js'
import { openCommandExecutor } from '../worker/executors/command.js'
import { openAgentFolder } from '../worker/roster/folder.js'
import { openRoster, type Roster } from '../worker/roster/roster.js'
import type { WorkerOptions } from '../worker/scope.js'

export interface FileAgentsOptions {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
  readonly settings: Settings
  readonly projectId: string
  /** The project folder: no command works outside of it. */
  readonly folder: string
}

export interface FileAgents {
  readonly agent: Roster['agent']
  readonly onBeat: NonNullable<WorkerOptions['onBeat']>
  close(): void
}

export const agentsFolder = 'agents'
// A folder that tells of its changes needs no look; one on a network may never tell.
const lookMs = 5_000

export async function openFileAgents(options: FileAgentsOptions): Promise<FileAgents> {
  const { kernel, clock, log, signal, settings, projectId } = options
  const root = realpathSync(options.folder)
  const path = join(root, agentsFolder)
  if (!existsSync(path)) {
    throw new InvalidInput(`there is no folder ${path}`, {
      code: 'agents_folder_missing',
      hint: 'make it, with one file NAME.md an agent; see docs/agents.md',
    })
  }
  const { ttlMs, graceMs } = guardianTimes(settings)
  if (settings.worker.beat_seconds * 1_000 > ttlMs / 2)
    log.warn({ beat_seconds: settings.worker.beat_seconds, guardian_ttl_ms: ttlMs }, 'one late beat will end commands')
  const guardian = openGuardian({ clock, log, ttlMs, graceMs })
  const house = houseName(settings.database.url ?? '')
  const commands = openCommandExecutor({ clock, log, guardian, root, house, self: readSelf(), graceMs })
  const swept = await commands.sweep()
  if (swept > 0) log.warn({ processes: swept }, 'processes of dead workers were ended')

  const folder = openAgentFolder({ folder: path, log })
  const roster = openRoster({
    kernel,
    projectId,
    folder,
    origin: `${hostname()}:${path}`,
    log,
    executor: ({ settings: agent, instructions }) =>
      agent.executor === 'command' ? commands.agent({ ...agent, instructions }) : undefined,
  })
  await roster.step()
  if (folder.agents.size === 0 && folder.problems.size > 0) {
    throw new InvalidInput(`no agent file can be used:\n${[...folder.problems.values()].flat().join('\n')}`, {
      code: 'agent_files_bad',
      hint: 'correct the lines named above; docs/agents.md lists all keys',
    })
  }
  const wake = makeWake(clock)
  const watching = watchFolder(
    path,
    () => wake.now(),
    (error) => log.warn({ err: error, folder: path }, 'the agents folder is not watched; it is looked at instead'),
  )
  signal.addEventListener('abort', () => watching.close(), { once: true })
  void loop({ name: 'agent files', intervalMs: lookMs, clock, log, signal }, () => roster.step(), wake)
  return {
    agent: (turn) => roster.agent(turn),
    onBeat: (turn, askedMs) => commands.beaten(turn, askedMs),
    close: () => commands.close(),
  }
}

/**
 * Within the silence after which another worker or the PMO takes a turn, the guardian must have ended its processes: a beat
 * vouches for 60 % of it, TERM may take up to 15 %, and the rest is for KILL and for a machine that is slow.
 */
export function guardianTimes({ worker, pmo }: Pick<Settings, 'worker' | 'pmo'>): { ttlMs: number; graceMs: number } {
  const silenceMs = Math.min(worker.inbox_processing_timeout_seconds, pmo.active_reap_seconds) * 1_000
  return { ttlMs: silenceMs * 0.6, graceMs: Math.min(2_000, silenceMs * 0.15) }
}

/** The same for every process that serves the same database, and without its password. */
export function houseName(url: string): string {
  const place = URL.canParse(url) ? new URL(url) : undefined
  const told = place === undefined ? url : `${place.hostname}:${place.port || '5432'}${place.pathname}`
  return createHash('sha256').update(told).digest('hex').slice(0, 12)
}
