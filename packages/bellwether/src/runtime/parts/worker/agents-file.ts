/**
 * Loads an agents file: a module whose default export maps names to functions, or to functions with an isolation, and which may also
 * export a list `tools`. An error names the file and the wrong entry.
 */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { errorMessage, isObject } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { fileFunction, functionIn, type FileAgent } from '../../../worker/agent.js'
import type { Agents } from '../../../worker/agents.js'
import { checkIsolation, type LoadedAgent } from '../../../worker/isolation/isolation.js'
import { defineTool } from '../../../worker/tools/define-tool.js'
import type { HostedTool } from '../../../worker/tools/tool.js'

const hint = 'export default { "my-agent": async (turn) => "done" }'

export interface AgentsFile {
  /** The URL of the module, from which threads and processes load it too. */
  readonly module: string
  readonly agents: Readonly<Record<string, LoadedAgent>>
  readonly tools: readonly HostedTool[]
}

/** Another `version` loads the file again. */
export async function loadAgents(file: string, version?: string): Promise<AgentsFile> {
  const path = resolve(file)
  if (!existsSync(path))
    throw new InvalidInput(`The agents file ${path} does not exist`, { code: 'agents_file_missing', hint })
  const { href: url } = pathToFileURL(path)
  const href = version === undefined ? url : `${url}?v=${version}`
  let module: { readonly default?: unknown; readonly tools?: unknown }
  try {
    module = (await import(href)) as typeof module
  } catch (error) {
    throw new InvalidInput(`Cannot load the agents file ${path}: ${errorMessage(error)}`, {
      code: 'agents_file_broken',
      cause: error,
      hint,
    })
  }
  const agents = module.default
  if (typeof agents !== 'object' || agents === null || Object.keys(agents).length === 0) {
    throw new InvalidInput(`The agents file ${path} has no default export with agents`, {
      code: 'agents_file_empty',
      hint,
    })
  }
  const definitions = Object.entries(agents as Agents).map(([name, entry]): [string, LoadedAgent] => {
    const run = functionIn(agents, name)
    if (run === undefined)
      throw new InvalidInput(`Agent ${JSON.stringify(name)} in ${path} is not a function`, {
        code: 'agent_not_a_function',
        hint,
      })
    const { isolation, memoryMaxMb } = typeof entry === 'function' ? {} : entry
    checkIsolation(`Cannot load agent ${JSON.stringify(name)} of ${path}`, { isolation, memoryMaxMb })
    return [name, { run: fileFunction(run as FileAgent), isolation, memoryMaxMb }]
  })
  return { module: href, agents: Object.fromEntries(definitions), tools: toolsOf(path, module.tools) }
}

function toolsOf(path: string, list: unknown): HostedTool[] {
  if (list === undefined) return []
  const isTool = (one: unknown): one is HostedTool => isObject(one) && typeof one['run'] === 'function' && 'name' in one
  if (!Array.isArray(list) || !list.every(isTool)) {
    throw new InvalidInput(`The export "tools" of ${path} is not a list of tools`, {
      code: 'tools_not_a_list',
      hint: 'export const tools = [defineTool({ name, description, parameters, run })]',
    })
  }
  return list.map(defineTool)
}
