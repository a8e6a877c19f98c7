/**
 * Loads an agents file: a module whose default export maps names to functions, and which may also export a list `tools`. An error
 * names the file and the wrong entry.
 */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Agents } from '../../worker/agents.js'
import { defineTool } from '../../worker/tools/define-tool.js'
import type { HostedTool } from '../../worker/tools/tool.js'

const hint = 'export default { "my-agent": async (turn) => ({ deliver: { text: "done" } }) }'

export interface AgentsFile {
  readonly agents: Agents
  readonly tools: readonly HostedTool[]
}

export async function loadAgents(file: string): Promise<AgentsFile> {
  const path = resolve(file)
  if (!existsSync(path))
    throw new InvalidInput(`The agents file ${path} does not exist`, { code: 'agents_file_missing', hint })
  let module: { readonly default?: unknown; readonly tools?: unknown }
  try {
    module = (await import(pathToFileURL(path).href)) as typeof module
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
  const wrong = Object.entries(agents).find(([, run]) => typeof run !== 'function')
  if (wrong !== undefined) {
    throw new InvalidInput(`Agent ${JSON.stringify(wrong[0])} in ${path} is not a function`, {
      code: 'agent_not_a_function',
      hint,
    })
  }
  return { agents: agents as Agents, tools: toolsOf(path, module.tools) }
}

function toolsOf(path: string, list: unknown): HostedTool[] {
  if (list === undefined) return []
  const isTool = (one: unknown): one is HostedTool =>
    typeof one === 'object' && one !== null && 'run' in one && typeof one.run === 'function' && 'name' in one
  if (!Array.isArray(list) || !list.every(isTool)) {
    throw new InvalidInput(`The export "tools" of ${path} is not a list of tools`, {
      code: 'tools_not_a_list',
      hint: 'export const tools = [defineTool({ name, description, parameters, run })]',
    })
  }
  return list.map(defineTool)
}
