/** The agents of the process tests, and the tool that they call. */
export { default } from './fleet-agents.mjs'

export const tools = [
  {
    name: 'echo',
    description: 'returns its arguments',
    parameters: { type: 'object', properties: { n: { type: 'number' } } },
    idempotent: true,
    run: async (args) => args,
  },
]
