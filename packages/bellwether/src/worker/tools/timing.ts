/** The timeouts of tool calls. Pure. The toolbox sets the wait in the kernel and the host enforces the timeout, so both use this file. */
import type { ToolDeclaration } from './tool.js'

// Long enough for a slow service, short enough that the model still needs the result.
const defaultSeconds = 30
// The longest delay between the suspend and the start of the call if no bell rings, plus the report.
const slackSeconds = 10

// Long enough for a person who is notified, short enough that the rest of the work is still known.
const approveDefaultSeconds = 3_600

/** How long a person has to allow a call. The same default as in state.suspend. */
export const approvalSeconds = ({ approveWithinSeconds }: Pick<ToolDeclaration, 'approveWithinSeconds'>) =>
  approveWithinSeconds ?? approveDefaultSeconds

/** One run of the tool. */
export const runSeconds = ({ timeoutSeconds = defaultSeconds }: Pick<ToolDeclaration, 'timeoutSeconds'>) =>
  timeoutSeconds

/** All runs of one call: an idempotent call is retried within this time. */
export const triesSeconds = (tool: Pick<ToolDeclaration, 'timeoutSeconds' | 'idempotent'>) =>
  runSeconds(tool) * (tool.idempotent === true ? 2 : 1)

/**
 * The wait in the kernel: longer than the host needs, so that the host reports before the wait expires. For an idempotent call, it is
 * also long enough for another host to notice that the first host died.
 */
export const waitSeconds = (tool: Pick<ToolDeclaration, 'timeoutSeconds' | 'idempotent'>, silentSeconds: number) =>
  triesSeconds(tool) + slackSeconds + (tool.idempotent === true ? silentSeconds : 0)
