/** Agents of a worker process in tests: a model at the address that the environment names, with one tool, which the test answers. */
import { systemClock, systemRandom } from '@bellwether/base'
import { openModels } from '../../../src/ports/model/providers.js'
import { defineAgents } from '../../../src/worker/agents.js'
import { openModelExecutor } from '../../../src/worker/executors/model/executor.js'
import { quietLog } from '../quiet-log.js'

export const toolName = 'count'

const executor = openModelExecutor({
  clock: systemClock,
  log: quietLog,
  random: systemRandom,
  models: openModels({ env: process.env }),
  toolbox: () => ({
    offers: [{ name: toolName, description: 'counts', parameters: { type: 'object', properties: {} } }],
    plan: ({ toolCallId, name, args }) =>
      name === toolName
        ? { call: { toolCallId, toolName: name, args, timeoutSeconds: 60 } }
        : { refuse: { code: 'unknown_tool', message: `unknown tool ${name}` } },
  }),
})

export default defineAgents({ '*': executor.agent({ model: 'openai/m', instructions: 'Count.' }) })
