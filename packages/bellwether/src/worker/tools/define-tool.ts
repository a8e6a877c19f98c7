/** Defines a tool in code and checks its declaration, so that an error points to the definition. */
import { afterExecutions, InvalidInput } from '@bellwether/protocol'
import { checkSchema } from './arguments.js'
import { ownName } from './names.js'
import type { HostedTool } from './tool.js'

// Work that takes longer should be a turn of its own (`delegate`).
export const timeoutMaxSeconds = 86_400
// As for questions to people: 30 days.
export const approveMaxSeconds = 2_592_000

export function defineTool(tool: HostedTool): HostedTool {
  ownName(tool.name)
  checkSchema(tool.parameters)
  const { timeoutSeconds, afterExecution, approve, approveWithinSeconds } = tool
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
  if (approve !== undefined && approve !== 'ask') {
    throw new InvalidInput(
      `Cannot define tool "${tool.name}": approve must be "ask" (got ${JSON.stringify(approve)})`,
      { code: 'invalid_approve', hint: 'remove it if no person must allow the calls' },
    )
  }
  if (approveWithinSeconds !== undefined && !(approveWithinSeconds > 0 && approveWithinSeconds <= approveMaxSeconds)) {
    throw new InvalidInput(
      `Cannot define tool "${tool.name}": approveWithinSeconds must be more than 0 and at most ${approveMaxSeconds} (got ${approveWithinSeconds})`,
      { code: 'invalid_approve' },
    )
  }
  return tool
}
