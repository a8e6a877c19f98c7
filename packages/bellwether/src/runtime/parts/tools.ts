/**
 * Opens the tools of a worker: functions, HTTP tools of `tools.json` and MCP servers of `mcp.json`, the host that runs them, and the
 * toolboxes of its agents. It reads the files once, at the start, and logs and skips invalid declarations. A worker without tools has
 * no host, but its agents can still call tools that other workers host.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { defined, type Log } from '@bellwether/base'
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
import { approvalSeconds, runSeconds, waitSeconds } from '../../worker/tools/timing.js'
import type { HostedTool, Toolbox } from '../../worker/tools/tool.js'
import { isForActions, openToolbox } from '../../worker/tools/toolbox.js'
import { type declaredToolFiles, mcpFile, toolsFile } from '../paths.js'
import { toolHostSettings } from './part-settings.js'

export interface ToolsOptions extends McpOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  readonly signal: AbortSignal
  readonly settings: Settings
  readonly workerId: string
  /** Tools written as functions: the same array until the list changes. Undefined: there are none, and there will be none. */
  readonly functions: (() => readonly HostedTool[]) | undefined
  /** The folder of tools.json and mcp.json. */
  readonly control: string
  /** Whether this process puts its tools on the roster; else `up` does. */
  readonly writesRoster: boolean
  /** The agents that a turn may delegate work to. */
  readonly agents: () => Surroundings['agents']
  /** The tools that the file of an agent lists. */
  readonly listed: (agentId: string) => readonly string[]
}

export interface WorkerTools {
  toolbox(
    turn: Pick<ClaimedTurn, 'agentId' | 'recursionDepth'>,
    known: Pick<Hydrated, 'tools'>,
    spec: { readonly tools?: readonly string[] | undefined },
  ): Toolbox
  close(): Promise<void>
}

// The first turns should have the tools of servers that start quickly. Slower servers join later.
const startWaitMs = 5_000
const closeGraceMs = 1_000
// Each problem is logged once, not with every turn; this bounds the memory for that.
const loggedMax = 1_000

export async function openTools(options: ToolsOptions): Promise<WorkerTools> {
  const { kernel, clock, log, settings, projectId } = options
  const silentSeconds = settings.worker.inbox_processing_timeout_seconds
  const own = declaredTools(options)
  const servers = await openServers(options)
  const catalogue = openCatalogue(own, servers, options.functions)
  if (options.writesRoster) for (const tool of catalogue.own) await declareTool(kernel, projectId, tool, silentSeconds)
  const settled = new AbortController()
  await Promise.race([
    Promise.all(servers.map((server) => server.settled())),
    clock.sleep(servers.length === 0 ? 0 : startWaitMs, settled.signal),
  ])
  settled.abort()
  const mayAct = (agentId: string, name: string) => isForActions(name, catalogue, options.listed(agentId))
  const hosting = { catalogue, mayAct, host: options.workerId, settings: toolHostSettings(settings) }
  const hasTools = own.length > 0 || servers.length > 0 || options.functions !== undefined
  const host = hasTools ? await openToolHost({ ...options, ...hosting }) : undefined
  const logged = new Set<string>()

  function logOnce(agentId: string, problems: readonly string[]): void {
    for (const problem of problems) {
      const line = `${agentId}: ${problem}`
      if (logged.has(line) || logged.size >= loggedMax) continue
      logged.add(line)
      log.warn({ agent_id: agentId, problem }, 'tool of an agent file is not available')
    }
  }

  return {
    toolbox({ agentId, recursionDepth }, known, spec) {
      const maxRecursionDepth = settings.pmo.max_recursion_depth
      const around = { agentId, recursionDepth, maxRecursionDepth, agents: options.agents() }
      const wanted = spec.tools ?? []
      const box = openToolbox({ wanted, catalogue, project: known.tools, around, silentSeconds })
      logOnce(agentId, box.problems)
      return box
    },
    async close() {
      await host?.close(closeGraceMs)
      await Promise.all(servers.map((server) => server.close()))
    },
  }
}

/** The kinds of tools that files declare: file name → reader. */
const kinds: Readonly<Record<(typeof declaredToolFiles)[number], typeof readHttpTools>> = { [toolsFile]: readHttpTools }

type DeclaredOptions = Pick<ToolsOptions, 'control' | 'log'> & Partial<Pick<ToolsOptions, 'functions'>>

/** The tools that files of the folder declare. */
export function declaredTools({ control, functions, log }: DeclaredOptions): HostedTool[] {
  const own: HostedTool[] = []
  const written = new Set((functions?.() ?? []).map(({ name }) => name))
  for (const [file, read] of Object.entries(kinds)) {
    const { tools, problems } = read(join(control, file))
    logSkipped(log, file, problems)
    for (const tool of tools) {
      if (!written.has(tool.name) && own.every(({ name }) => name !== tool.name)) own.push(tool)
      else logSkipped(log, file, [`another tool has the name "${tool.name}" already`])
    }
  }
  return own
}

async function openServers(options: ToolsOptions): Promise<OpenServer[]> {
  const { control, log } = options
  // The MCP library is large, and most projects declare no server.
  if (!existsSync(join(control, mcpFile))) return []
  const { openServer, readMcpFile } = await import('../../worker/tools/mcp-servers.js')
  const { servers, problems } = readMcpFile(join(control, mcpFile))
  logSkipped(log, mcpFile, problems)
  return [...servers].flatMap(([name, declared]) => {
    try {
      return [openServer(name, declared, options)]
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      logSkipped(log, mcpFile, [`${name}: ${error.message}${error.hint === undefined ? '' : ` (${error.hint})`}`])
      return []
    }
  })
}

function logSkipped(log: Log, file: string, problems: readonly string[]): void {
  for (const problem of problems) log.error({ file, problem }, 'invalid tool declaration skipped')
}

/** Puts the tool on the roster, so that agents of other workers can call it. */
export async function declareTool(
  kernel: Kernel,
  projectId: string,
  tool: HostedTool,
  silentSeconds: number,
): Promise<void> {
  const { name, description, parameters, afterExecution, idempotent = false } = tool
  await kernel.putTool({
    projectId,
    toolName: name,
    description,
    parameters,
    ...defined({ afterExecution }),
    options: {
      idempotent,
      timeout_seconds: runSeconds(tool),
      suspend_timeout_seconds: waitSeconds(tool, silentSeconds),
      ...(tool.approve === 'ask' ? { approve: 'ask', approve_within_seconds: approvalSeconds(tool) } : {}),
    },
  })
}
