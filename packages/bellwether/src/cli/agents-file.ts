/** Loads an agents file: a module whose default export maps names to functions. What is wrong with it is told by name. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { InvalidInput } from '@bellwether/protocol'
import type { Agents } from '../worker/agents.js'

const hint = 'export default { "my-agent": async (turn) => ({ deliver: { text: "done" } }) }'

export async function loadAgents(file: string): Promise<Agents> {
  const path = resolve(file)
  if (!existsSync(path))
    throw new InvalidInput(`there is no agents file ${path}`, { code: 'agents_file_missing', hint })
  let module: { readonly default?: unknown }
  try {
    module = (await import(pathToFileURL(path).href)) as typeof module
  } catch (error) {
    throw new InvalidInput(
      `the agents file ${path} cannot be loaded: ${error instanceof Error ? error.message : String(error)}`,
      {
        code: 'agents_file_broken',
        cause: error,
        hint,
      },
    )
  }
  const book = module.default
  if (typeof book !== 'object' || book === null || Object.keys(book).length === 0) {
    throw new InvalidInput(`the agents file ${path} has no default export of agents`, {
      code: 'agents_file_empty',
      hint,
    })
  }
  const wrong = Object.entries(book).find(([, run]) => typeof run !== 'function')
  if (wrong !== undefined) {
    throw new InvalidInput(`in ${path}, agent ${JSON.stringify(wrong[0])} is not a function`, {
      code: 'agent_not_a_function',
      hint,
    })
  }
  return book as Agents
}
