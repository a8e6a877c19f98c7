/**
 * Composes the tools of a worker: functions it was given, HTTP tools of `tools.json`, MCP servers of `mcp.json`, the host that runs
 * them, and the toolboxes of its agents. Declarations are read at the start; one that is wrong is told and left out. A worker without
 * tools of its own has no host, and still offers what others run.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { ClaimedTurn } from '../../kernel/verbs/turn/claim.js'
import type { Kernel } from '../../kernel/kernel.js'
import type { Bell } from '../../ports/bell/bell.js'
import type { Settings } from '../../settings/schema.js'
import type { Hydrated } from '../../worker/hydrate.js'
import type { Surroundings } from '../../worker/tools/built-ins.js'
import { openCatalogue } from '../../worker/tools/catalogue.js'
import { openToolHost } from '../../worker/tools/host.js'
import { readHttpTools } from '../../worker/tools/http-tools.js'
import type { McpOptions, OpenServer } from '../../worker/tools/mcp-servers.js'
import { runSeconds, waitSeconds } from '../../worker/tools/timing.js'
import type { HostedTool, Toolbox } from '../../worker/tools/tool.js'
import { openToolbox } from '../../worker/tools/toolbox.js'

export interface ToolsOptions extends McpOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  readonly signal: AbortSignal
  readonly settings: Settings
  readonly workerId: string
  readonly functions: readonly HostedTool[]
  /** Agents that work can be given to. */
  readonly agents: () => Surroundings['agents']
}

export interface WorkerTools {
  toolbox(
    turn: Pick<ClaimedTurn, 'agentId' | 'recursionDepth'>,
    known: Pick<Hydrated, 'tools'>,
    spec: { readonly tools?: readonly string[] | undefined },
  ): Toolbox
  close(): Promise<void>
}

export const toolsFile = 'tools.json'
export const mcpFile = 'mcp.json'

// The first turns should find the tools of servers that start quickly; a slow one joins later.
const patienceMs = 5_000
// Tools wait for the network: more of them than turns may run at the same time.
const concurrencyLeast = 32
const closeGraceMs = 1_000
// What was complained about once is not said again with every turn.
const saidMax = 1_000

export async function openTools(options: ToolsOptions): Promise<WorkerTools> {
  const { kernel, clock, log, settings, projectId } = options
  const silentSeconds = settings.worker.inbox_processing_timeout_seconds
  const own = ownTools(options)
  const servers = await openServers(options)
  const catalogue = openCatalogue(own, servers)
  for (const tool of own) await declare(kernel, projectId, tool, silentSeconds)
  const waited = new AbortController()
  await Promise.race([
    Promise.all(servers.map((server) => server.settled())),
    clock.sleep(servers.length === 0 ? 0 : patienceMs, waited.signal),
  ])
  waited.abort()
  const host =
    own.length === 0 && servers.length === 0
      ? undefined
      : await openToolHost({
          ...options,
          catalogue,
          host: options.workerId,
          settings: {
            concurrency: Math.max(concurrencyLeast, settings.worker.concurrency),
            pollSeconds: settings.worker.poll_seconds,
            beatSeconds: settings.worker.beat_seconds,
            silentSeconds,
          },
        })
  const said = new Set<string>()

  function say(agentId: string, problems: readonly string[]): void {
    for (const problem of problems) {
      const line = `${agentId}: ${problem}`
      if (said.has(line) || said.size >= saidMax) continue
      said.add(line)
      log.warn({ agent_id: agentId, problem }, 'an agent does not have a tool that its file lists')
    }
  }

  return {
    toolbox({ agentId, recursionDepth }, known, spec) {
      const maxRecursionDepth = settings.pmo.max_recursion_depth
      const around = { agentId, recursionDepth, maxRecursionDepth, agents: options.agents() }
      const wanted = spec.tools ?? []
      const box = openToolbox({ wanted, catalogue, project: known.tools, around, silentSeconds })
      say(agentId, box.problems)
      return box
    },
    async close() {
      await host?.close(closeGraceMs)
      await Promise.all(servers.map((server) => server.close()))
    },
  }
}

function ownTools({ root, functions, log }: ToolsOptions): HostedTool[] {
  const { tools, problems } = readHttpTools(join(root, toolsFile))
  tell(log, toolsFile, problems)
  const names = new Set(functions.map((tool) => tool.name))
  const twice = tools.filter((tool) => names.has(tool.name)).map((tool) => `${tool.name} is a function already`)
  tell(log, toolsFile, twice)
  return [...functions, ...tools.filter((tool) => !names.has(tool.name))]
}

async function openServers(options: ToolsOptions): Promise<OpenServer[]> {
  const { root, log } = options
  // MCP's own library is large, and many a project declares no server.
  if (!existsSync(join(root, mcpFile))) return []
  const { openServer, readMcpFile } = await import('../../worker/tools/mcp-servers.js')
  const { servers, problems } = readMcpFile(join(root, mcpFile))
  tell(log, mcpFile, problems)
  return [...servers].flatMap(([name, declared]) => {
    try {
      return [openServer(name, declared, options)]
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      tell(log, mcpFile, [`${name}: ${error.message}${error.hint === undefined ? '' : ` (${error.hint})`}`])
      return []
    }
  })
}

function tell(log: Log, file: string, problems: readonly string[]): void {
  for (const problem of problems) log.error({ file, problem }, `a tool is left out: ${problem}`)
}

/** Into the roster, so that whoever calls it, a function or another worker's agent, finds it declared. */
async function declare(kernel: Kernel, projectId: string, tool: HostedTool, silentSeconds: number): Promise<void> {
  const { name, description, parameters, afterExecution, idempotent = false } = tool
  await kernel.putTool({
    projectId,
    toolName: name,
    description,
    parameters,
    ...(afterExecution === undefined ? {} : { afterExecution }),
    options: {
      idempotent,
      timeout_seconds: runSeconds(tool),
      suspend_timeout_seconds: waitSeconds(tool, silentSeconds),
    },
  })
}
