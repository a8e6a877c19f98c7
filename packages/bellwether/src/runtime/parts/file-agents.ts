/**
 * Opens what a worker needs to run agents from files: the agents folder and its roster, the executors, and the tools. A changed file takes effect without a restart.
 */
import { existsSync, realpathSync } from 'node:fs'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Clock, defined, type Environment, type Log, onAbort, systemRandom } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Kernel } from '../../kernel/kernel.js'
import type { Fence } from '../../kernel/verdict.js'
import type { Bell } from '../../ports/bell/bell.js'
import type { Chunks } from '../../ports/chunks/chunks.js'
import { loop, makeWake } from '../../ports/loop.js'
import { watchFolder } from '../../ports/disk/watch-folder.js'
import type { Settings } from '../../settings/schema.js'
import { openCommandExecutor, type CommandExecutorOptions } from '../../worker/executors/command.js'
import type { ModelExecutor } from '../../worker/executors/model/executor.js'
import { personAgent } from '../../worker/executors/person/person.js'
import type { AgentFunction } from '../../worker/agent.js'
import { withLimits } from '../../worker/budget-watch.js'
import type { IsolationOptions } from '../../worker/isolation/isolation.js'
import type { AgentSettings } from '../../worker/roster/agent-file.js'
import { openAgentFolder } from '../../worker/roster/folder.js'
import { openRoster, type Roster } from '../../worker/roster/roster.js'
import type { WorkerOptions } from '../../worker/scope.js'
import type { HostedTool } from '../../worker/tools/tool.js'
import { agentsFolder } from '../paths.js'
import type { FunctionAgents } from './function-agents.js'
import type { ProcessGuard } from './process-guard.js'
import { openTools } from './tools.js'

export interface FileAgentsOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  /** Unique per process. */
  readonly workerId: string
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
  readonly settings: Settings
  readonly guard: ProcessGuard
  readonly isolated: FunctionAgents
  /** The function of the agents file with this name. */
  readonly functionNamed: (name: string, options: IsolationOptions) => AgentFunction | undefined
  readonly projectId: string
  /** The project folder; commands run inside it. */
  readonly folder: string
  /** Receives the live output of turns. */
  readonly chunks?: Chunks
  /** Tools written as functions. */
  readonly functions?: readonly HostedTool[]
  /** Contains the keys and addresses of models. */
  readonly env?: Environment
}

export interface FileAgents {
  readonly agent: Roster['agent']
  readonly onBeat: (turn: Fence, askedMs: number) => void
  readonly guarded: NonNullable<WorkerOptions['guarded']>
  close(): Promise<void>
}

// For network filesystems, which do not report changes.
const pollMs = 5_000

export async function openFileAgents(options: FileAgentsOptions): Promise<FileAgents> {
  const { kernel, clock, log, signal, settings, projectId } = options
  const root = realpathSync(options.folder)
  const path = join(root, agentsFolder)
  if (!existsSync(path)) {
    throw new InvalidInput(`The folder ${path} does not exist`, {
      code: 'agents_folder_missing',
      hint: 'create it, with one file NAME.md per agent; see docs/agents.md',
    })
  }
  const { ttlMs, ...processGuard } = options.guard
  if (settings.worker.beat_seconds * 1_000 > ttlMs / 2)
    log.warn(
      { beat_seconds: settings.worker.beat_seconds, guardian_ttl_ms: ttlMs },
      'worker.beat_seconds is too long: one late beat freezes commands',
    )
  const guarded = { clock, log, root, ...processGuard }
  const { chunks } = options
  const onChunk: CommandExecutorOptions['onChunk'] = (turn, kind, text) => chunks?.send(turn, { kind, text })
  const commands = openCommandExecutor({ ...guarded, ...defined({ onChunk: chunks && onChunk }) })
  const swept = await commands.sweep()
  if (swept > 0) log.warn({ processes: swept }, 'ended orphaned processes of dead workers')

  function executorOf(agent: AgentSettings, instructions: string, name: string): AgentFunction | undefined {
    const { executor, model } = agent
    if (executor === 'function') {
      const { module: file, isolation, memory_max_mb: memoryMaxMb } = agent
      const stated = defined({ isolation, memoryMaxMb })
      const module = file === undefined ? undefined : pathToFileURL(resolve(root, file)).href
      const agentFunction =
        module === undefined
          ? options.functionNamed(name, stated)
          : options.isolated.of({ module, name, takesInstruction: true, ...stated }, 'thread')
      return agentFunction && withLimits(agentFunction, agent.budget)
    }
    if (executor === 'command') return commands.agent({ ...agent, instructions })
    if (executor === 'person') return withLimits(personAgent({ ...agent, instructions }), agent.budget)
    if (executor !== 'model' || model === undefined) return undefined
    const opened: AgentFunction = async (turn) =>
      (await (models ??= openModelExecutors())).agent({ ...agent, model, instructions })(turn)
    return withLimits(opened, agent.budget)
  }

  // The providers' libraries are large, so the first turn that needs a model loads them.
  let models: Promise<ModelExecutor> | undefined
  async function openModelExecutors(): Promise<ModelExecutor> {
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
    executor: ({ name, settings, instructions }) => executorOf(settings, instructions, name),
  })
  await roster.step()
  if (folder.agents.size === 0 && folder.problems.size > 0) {
    throw new InvalidInput(`All agent files are invalid:\n${[...folder.problems.values()].flat().join('\n')}`, {
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
    (error) => log.warn({ err: error, folder: path }, 'cannot watch the agents folder; polling it instead'),
  )
  onAbort(signal, () => watching.close())
  void loop({ name: 'agent files', intervalMs: pollMs, clock, log, signal }, () => roster.step(), wake)
  return {
    agent: (turn) => roster.agent(turn),
    onBeat: (turn, askedMs) => commands.renew(turn, askedMs),
    guarded: (turn) => commands.guards(turn),
    async close() {
      await tools.close()
    },
  }
}
