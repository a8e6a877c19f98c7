/**
 * Agents for process tests of tools, in JavaScript, so that the built program can load them: each calls the tools of its instruction
 * concurrently and delivers their results. The tool `double` is a function whose result names the process that ran it.
 */
const caller = async (turn) => {
  if (turn.results.length > 0) {
    const results = turn.results.map(({ tool_name, status, error }) => [tool_name, error?.code ?? status])
    return { deliver: { text: JSON.stringify(Object.fromEntries(results)) } }
  }
  // The instruction names only tools and arguments, so that the options of the tools' declarations apply.
  const { context } = await turn.hydrate()
  const wanted = JSON.parse(context[0].content.text)
  return { suspend: { calls: wanted.map(({ tool, args }) => ({ toolCallId: turn.newId(), toolName: tool, args })) } }
}

export default { '*': caller }

export const tools = [
  {
    name: 'double',
    description: 'doubles a number',
    parameters: { type: 'object', required: ['n'], properties: { n: { type: 'number' } } },
    run: async ({ n }) => ({ n: Number(n) * 2, by: process.pid }),
  },
]
