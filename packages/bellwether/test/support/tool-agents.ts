/** Agents of the process tests of tools: each calls the tools that its task lists, at the same time, and delivers what it was told. */
import { fileURLToPath } from 'node:url'
import type { AgentFunction } from '../../src/worker/agent.js'
import { defineAgents } from '../../src/worker/agents.js'
import { defineTool } from '../../src/worker/tools/define-tool.js'

/** What `--agents` takes. */
export const toolAgents = fileURLToPath(import.meta.url)

const caller: AgentFunction = async (turn) => {
  if (turn.results.length > 0) {
    const told = turn.results.map(({ tool_name, status, error }) => [tool_name, error?.code ?? status])
    return { deliver: { text: JSON.stringify(Object.fromEntries(told)) } }
  }
  // The task says which tools; silent about everything else, so that their declarations speak.
  const { context } = await turn.hydrate()
  const { text } = context[0]!.content as { text: string }
  const asked = JSON.parse(text) as { tool: string; args: object }[]
  return { suspend: { calls: asked.map(({ tool, args }) => ({ toolCallId: turn.newId(), toolName: tool, args })) } }
}

export default defineAgents({ '*': caller })

/** A function as a tool; it says which process ran it. */
const double = defineTool({
  name: 'double',
  description: 'doubles a number',
  parameters: { type: 'object', required: ['n'], properties: { n: { type: 'number' } } },
  run: async ({ n }) => ({ n: Number(n) * 2, by: process.pid }),
})
export const tools = [double]
