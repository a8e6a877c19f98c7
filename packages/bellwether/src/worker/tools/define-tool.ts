/** Defines a tool in code and checks its declaration, so that an error points to the definition. */
import { afterExecutions, InvalidInput } from '@bellwether/protocol'
import { checkSchema } from './arguments.js'
import { ownName } from './names.js'
import type { HostedTool } from './tool.js'

// Work that takes longer should be a turn of its own (`delegate`).
export const timeoutMaxSeconds = 86_400

export function defineTool(tool: HostedTool): HostedTool {
  ownName(tool.name)
  checkSchema(tool.parameters)
  const { timeoutSeconds, afterExecution } = tool
  if (timeoutSeconds !== undefined && !(timeoutSeconds > 0 && timeoutSeconds <= timeoutMaxSeconds)) {
    throw new InvalidInput(
      `Cannot define tool "${tool.name}": timeoutSeconds must be more than 0 and at most ${timeoutMaxSeconds} (got ${timeoutSeconds})`,
      { code: 'invalid_timeout' },
    )
  }
  if (afterExecution !== undefined && !afterExecutions.includes(afterExecution)) {
    throw new InvalidInput(
      `Cannot define tool "${tool.name}": afterExecution must be ${afterExecutions.join(' or ')} (got "${afterExecution}")`,
      { code: 'invalid_after_execution' },
    )
  }
  return tool
}
