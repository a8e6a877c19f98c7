/** How long calls take and are waited for. Pure: the toolbox tells the kernel, the host holds itself to it, and both must agree. */
import type { ToolDeclaration } from './tool.js'

// Long enough for a slow service; short enough that a model is told while it still matters.
const usualSeconds = 30
// From the suspend to a host's start at worst, when no bell rings; and for the answer's way back.
const slackSeconds = 10

/** One run of the tool. */
export const runSeconds = ({ timeoutSeconds = usualSeconds }: Pick<ToolDeclaration, 'timeoutSeconds'>) => timeoutSeconds

/** All runs of one call: what may be repeated is, as long as this lasts. */
export const triesSeconds = (tool: Pick<ToolDeclaration, 'timeoutSeconds' | 'idempotent'>) =>
  runSeconds(tool) * (tool.idempotent === true ? 2 : 1)

/**
 * The wait: longer than its host needs, so that the host answers and no timeout does in its place. For what may be repeated it is
 * also long enough for another host to notice that the first one died.
 */
export const waitSeconds = (tool: Pick<ToolDeclaration, 'timeoutSeconds' | 'idempotent'>, silentSeconds: number) =>
  triesSeconds(tool) + slackSeconds + (tool.idempotent === true ? silentSeconds : 0)
