/**
 * Opens what a worker needs to run agents from files: the agents folder and its roster, the executors, and the tools. A changed file takes effect
 * without a restart.
 */
import { existsSync, readdirSync, realpathSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Clock, defined, type Environment, type Log, onAbort, systemRandom, makeWake } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Kernel } from '../../../kernel/kernel.js'
import type { Fence } from '../../../kernel/verdict.js'
import type { Bell } from '../../../ports/bell/bell.js'
import type { Chunks } from '../../../ports/chunks/chunks.js'
import { runAs } from '../../../ports/processes/run-as.js'
import { sweepSessions } from '../../../ports/processes/sandbox/home.js'
import { openSandbox } from '../../../ports/processes/sandbox/sandbox.js'
import { loop } from '../../../ports/loop.js'
import { watchFolder } from '../../../ports/disk/watch-folder.js'
import type { Settings } from '../../../settings/schema.js'
import { openApprovals } from '../../../worker/executors/approvals/socket.js'
import { openCommandExecutor, type CommandExecutorOptions } from '../../../worker/executors/command.js'
import type { ModelExecutor } from '../../../worker/executors/model/executor.js'
import { personAgent } from '../../../worker/executors/person/person.js'
import type { AgentFunction } from '../../../worker/agent.js'
import { withLimits } from '../../../worker/budget-watch.js'
import type { IsolationOptions } from '../../../worker/isolation/isolation.js'
import { functionRefusal, type AgentSettings } from '../../../worker/roster/agent-file.js'
import { openAgentFolder } from '../../../worker/roster/folder.js'
import { openRoster, unable, type Roster } from '../../../worker/roster/roster.js'
import type { WorkerOptions } from '../../../worker/scope.js'
import type { HostedTool } from '../../../worker/tools/tool.js'
import { dataFolderOf } from '../../data-folder.js'
import { readOnlyPaths } from '../../control/files.js'
import { agentsFolder, agentsOrigin, evalsFolder, oldDataFolder, sessionsFolder } from '../../paths.js'
import type { FunctionAgents } from './function-agents.js'
import type { ProcessGuard } from './process-guard.js'
import { openTools } from '../tools.js'

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
  /** Why the agents file has no usable function with this name. */
  readonly functionProblem?: (name: string) => string | undefined
  /** Whether functions may come from an agents file. Default: true. */
  readonly hasAgentsFile?: boolean
  readonly projectId: string
  /** The project folder; commands run inside it. */
  readonly folder: string
  /** The folder of agents/, tools.json and mcp.json. With one outside the project, `up` writes the roster. Default: the project folder. */
  readonly control?: string | undefined
  /** Receives the live output of turns. */
  readonly chunks?: Chunks
  /** Tools written as functions. Undefined: there are none, and there will be none. */
  readonly functions?: (() => readonly HostedTool[]) | undefined
  /** Contains the keys and addresses of models. */
  readonly env?: Environment
}

export interface FileAgents {
  readonly agent: Roster['agent']
  readonly onBeat: (turn: Fence, sentMs: number) => void
  readonly guarded: NonNullable<WorkerOptions['guarded']>
  close(): Promise<void>
}

// For network filesystems, which do not report changes.
const pollMs = 5_000

export async function openFileAgents(options: FileAgentsOptions): Promise<FileAgents> {
  const { kernel, clock, log, signal, settings, projectId } = options
  const root = realpathSync(options.folder)
  const control = options.control ?? root
  const writesRoster = options.control === undefined
  const dataDir = options.control === undefined ? dataFolderOf(root) : dirname(options.control)
  const path = join(control, agentsFolder)
  if (!existsSync(path)) {
    throw new InvalidInput(`The folder ${path} does not exist`, {
      code: 'agents_folder_missing',
      hint: 'create it, with one file NAME.md per agent; see docs/guides/agents.md',
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
  const { run_as: account } = settings.worker
  const other = account === undefined ? undefined : runAs(account)
  if (account === undefined && process.geteuid?.() === 0)
    log.warn({ setting: 'worker.run_as' }, 'commands of agents run as root')
  const sessions = join(dataDir, sessionsFolder)
  sweepSessions(sessions, clock.wallMs())
  const sandbox = openSandbox({
    log,
    root,
    fallback: settings.worker.sandbox,
    missing: settings.worker.sandbox_missing,
    sessions,
    hidden: [dataDir, join(root, oldDataFolder)],
    control: readOnlyPaths(root, settings),
    runAs: other,
  })
  const commands = openCommandExecutor({
    ...guarded,
    sandbox,
    approvals: openApprovals({ kernel, clock, log, random: systemRandom }),
    ...defined({ onChunk: chunks && onChunk, runAs: other }),
  })
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
      const problem = agentFunction === undefined ? options.functionProblem?.(name) : undefined
      if (problem !== undefined) return unable(problem)
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
      import('../../../worker/executors/model/executor.js'),
      import('../../../ports/model/providers.js'),
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

  const refuse = options.hasAgentsFile === false ? functionRefusal : undefined
  // Loaded when there is a suite: the schema of suites needs 9 MB. The folder of the accepted copy of `up` always exists.
  const suites = join(control, evalsFolder)
  const derived = async () =>
    existsSync(suites) && readdirSync(suites).length > 0
      ? (await import('../../control/evals.js')).readVariants(control)
      : []
  const folder = openAgentFolder({ folder: path, log, derived, ...defined({ refuse }) })
  const roster = openRoster({
    kernel,
    projectId,
    folder,
    origin: agentsOrigin(root),
    writes: writesRoster,
    log,
    executor: ({ name, settings, instructions }) => executorOf(settings, instructions, name),
  })
  await roster.step()
  if (folder.agents.size === 0 && folder.problems.size > 0) {
    throw new InvalidInput(`All agent files are invalid:\n${[...folder.problems.values()].flat().join('\n')}`, {
      code: 'agent_files_bad',
      hint: 'correct the lines named above; docs/guides/agents.md lists all keys',
    })
  }
  const tools = await openTools({
    ...options,
    ...guarded,
    random: systemRandom,
    ttlMs,
    functions: options.functions,
    control,
    writesRoster,
    ...defined({ runAs: other }),
    listed: (agentId) => folder.agents.get(agentId)?.settings.tools ?? [],
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
    onBeat: (turn, sentMs) => commands.renew(turn, sentMs),
    guarded: (turn) => commands.guards(turn),
    async close() {
      await tools.close()
    },
  }
}
