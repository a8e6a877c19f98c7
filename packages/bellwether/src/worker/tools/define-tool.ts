/** A tool in code: checked when it is defined, so that a mistake is told where it was made. */
import { afterExecutions, InvalidInput } from '@bellwether/protocol'
import { checkSchema } from './arguments.js'
import { ownName } from './names.js'
import type { HostedTool } from './tool.js'

// Longer is a turn of its own: delegate it.
export const timeoutMaxSeconds = 86_400

export function defineTool(tool: HostedTool): HostedTool {
  ownName(tool.name)
  checkSchema(tool.parameters)
  const { timeoutSeconds, afterExecution } = tool
  if (timeoutSeconds !== undefined && !(timeoutSeconds > 0 && timeoutSeconds <= timeoutMaxSeconds)) {
    throw new InvalidInput(`the timeout of ${tool.name} must be more than 0 and at most ${timeoutMaxSeconds} seconds`, {
      code: 'invalid_timeout',
    })
  }
  if (afterExecution !== undefined && !afterExecutions.includes(afterExecution)) {
    throw new InvalidInput(`afterExecution of ${tool.name} must be ${afterExecutions.join(' or ')}`, {
      code: 'invalid_after_execution',
    })
  }
  return tool
}
