/**
 * Composes what a worker needs to run agents from files: the folder and its roster, the executors, their guardian, and the tools.
 * A file that asks for an executor that is not here is told so.
 */
import { createHash } from 'node:crypto'
import { existsSync, realpathSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { type Clock, type Log, systemRandom } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Kernel } from '../../kernel/kernel.js'
import type { Bell } from '../../ports/bell/bell.js'
import type { Chunks } from '../../ports/chunks/chunks.js'
import { loop, makeWake } from '../../ports/loop.js'
import { openGuardian } from '../../ports/processes/guardian.js'
import { readSelf } from '../../ports/processes/proc.js'
import { watchFolder } from '../../ports/disk/watch-folder.js'
import type { Settings } from '../../settings/schema.js'
import { openCommandExecutor, type CommandExecutorOptions } from '../../worker/executors/command.js'
import type { ModelExecutor } from '../../worker/executors/model/executor.js'
import { personAgent } from '../../worker/executors/person/person.js'
import type { AgentFunction } from '../../worker/agent.js'
import type { AgentSettings } from '../../worker/roster/agent-file.js'
import { openAgentFolder } from '../../worker/roster/folder.js'
import { openRoster, type Roster } from '../../worker/roster/roster.js'
import type { WorkerOptions } from '../../worker/scope.js'
import type { HostedTool } from '../../worker/tools/tool.js'
import { agentsFolder } from '../paths.js'
import { openTools } from './tools.js'

export interface FileAgentsOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  /** Names this process for good. */
  readonly workerId: string
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
  readonly settings: Settings
  readonly projectId: string
  /** The project folder: no command works outside of it. */
  readonly folder: string
  /** Where commands are heard as they work; absent: nowhere. */
  readonly chunks?: Chunks
  /** Tools in code. */
  readonly functions?: readonly HostedTool[]
  /** Where the keys and addresses of models are found. */
  readonly env?: Readonly<Record<string, string | undefined>>
}

export interface FileAgents {
  readonly agent: Roster['agent']
  readonly onBeat: NonNullable<WorkerOptions['onBeat']>
  close(): Promise<void>
}

export { agentsFolder }
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
  const guarded = {
    clock,
    log,
    guardian,
    root,
    house: houseName(settings.database.url ?? ''),
    self: readSelf(),
    graceMs,
  }
  const { chunks } = options
  const onChunk: CommandExecutorOptions['onChunk'] = (turn, kind, text) => chunks?.send(turn, { kind, text })
  const commands = openCommandExecutor({ ...guarded, ...(chunks === undefined ? {} : { onChunk }) })
  const swept = await commands.sweep()
  if (swept > 0) log.warn({ processes: swept }, 'processes of dead workers were ended')

  function executorOf(agent: AgentSettings, instructions: string): AgentFunction | undefined {
    const { executor, model } = agent
    if (executor === 'command') return commands.agent({ ...agent, instructions })
    if (executor === 'person') return personAgent({ ...agent, instructions })
    if (executor !== 'model' || model === undefined) return undefined
    return async (turn) => (await (models ??= openModelPart())).agent({ ...agent, model, instructions })(turn)
  }

  // The providers' libraries are large, and many a worker has no model: they come with the first turn that asks one.
  let models: Promise<ModelExecutor> | undefined
  async function openModelPart(): Promise<ModelExecutor> {
    const [{ openModelExecutor }, { openModels }] = await Promise.all([
      import('../../worker/executors/model/executor.js'),
      import('../../ports/model/providers.js'),
    ])
    return openModelExecutor({
      clock,
      log,
      random: systemRandom,
      models: openModels({ env: options.env ?? {} }),
      toolbox: (turn, known, spec) => tools.toolbox(turn, known, spec),
      ...(chunks === undefined ? {} : { onChunk: (turn, chunk) => chunks.send(turn, chunk) }),
    })
  }

  const folder = openAgentFolder({ folder: path, log })
  const roster = openRoster({
    kernel,
    projectId,
    folder,
    origin: `${hostname()}:${path}`,
    log,
    executor: ({ settings, instructions }) => executorOf(settings, instructions),
  })
  await roster.step()
  if (folder.agents.size === 0 && folder.problems.size > 0) {
    throw new InvalidInput(`no agent file can be used:\n${[...folder.problems.values()].flat().join('\n')}`, {
      code: 'agent_files_bad',
      hint: 'correct the lines named above; docs/agents.md lists all keys',
    })
  }
  const tools = await openTools({
    ...options,
    ...guarded,
    random: systemRandom,
    ttlMs,
    functions: options.functions ?? [],
    agents: () => [...folder.agents.values()].map(({ name, settings: { description } }) => ({ name, description })),
  })
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
    onBeat: (turn, askedMs) => commands.renew(turn, askedMs),
    async close() {
      await tools.close()
      commands.close()
    },
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
