/** Agents for process tests of tools: each calls the tools of its instruction concurrently and delivers their results. */
import { fileURLToPath } from 'node:url'
import type { AgentFunction } from '../../src/worker/agent.js'
import { defineAgents } from '../../src/worker/agents.js'
import { defineTool } from '../../src/worker/tools/define-tool.js'

/** The path for `--agents`. */
export const toolAgents = fileURLToPath(import.meta.url)

const caller: AgentFunction = async (turn) => {
  if (turn.results.length > 0) {
    const results = turn.results.map(({ tool_name, status, error }) => [tool_name, error?.code ?? status])
    return { deliver: { text: JSON.stringify(Object.fromEntries(results)) } }
  }
  // The instruction names only tools and arguments, so that the options of the tools' declarations apply.
  const { context } = await turn.hydrate()
  const { text } = context[0]!.content as { text: string }
  const wanted = JSON.parse(text) as { tool: string; args: object }[]
  return { suspend: { calls: wanted.map(({ tool, args }) => ({ toolCallId: turn.newId(), toolName: tool, args })) } }
}

export default defineAgents({ '*': caller })

/** A function as a tool; its result names the process that ran it. */
const double = defineTool({
  name: 'double',
  description: 'doubles a number',
  parameters: { type: 'object', required: ['n'], properties: { n: { type: 'number' } } },
  run: async ({ n }) => ({ n: Number(n) * 2, by: process.pid }),
})
export const tools = [double]
