/**
 * Timeouts and retries of a task root: config/retry-policy.json overrides config/runtime-policy.json, which overrides the
 * defaults. Pure. ports/retry.ts decides and runs retries.
 */
import { backoffModes, defaultCallPolicy, type CallPolicy, type RetryPolicy } from '../../ports/retry.js'
import { oneOf, partial, strictObject, type ValueOf } from '../../settings/shape.js'
import { bounds, type PolicyFile } from './shape.js'

// A call that may take longer than an hour is a turn, and turns have their own deadline.
const timeout = bounds.number(0.01, 3_600)
const timeouts = strictObject({
  commandRoutingSec: timeout,
  localStateSec: timeout,
  externalMessageSec: timeout,
  synthesisSec: timeout,
})
export const backoffShape = strictObject({
  mode: oneOf(backoffModes),
  baseMs: bounds.number(0, 600_000),
  multiplier: bounds.number(1, 10),
  maxMs: bounds.number(0, 3_600_000),
  jitterPct: bounds.number(0, 100),
})
export const attemptsShape = bounds.count(1, 100)
export const retryShape = partial(
  strictObject({
    timeouts: partial(timeouts),
    retry: partial(strictObject({ maxAttempts: attemptsShape, backoff: partial(backoffShape) })),
  }),
)

/** The whole file, with every value. */
interface RetryFile {
  readonly timeouts: ValueOf<typeof timeouts>
  readonly retry: RetryPolicy
}

export function callPolicy({ timeouts, retry }: RetryFile): CallPolicy {
  return {
    timeoutMs: {
      command_routing: timeouts.commandRoutingSec * 1_000,
      local_state: timeouts.localStateSec * 1_000,
      external_message: timeouts.externalMessageSec * 1_000,
      synthesis: timeouts.synthesisSec * 1_000,
    },
    retry,
  }
}

/** The defaults in the format of the file. */
function asRetryFile({ timeoutMs, retry }: CallPolicy): RetryFile {
  return {
    timeouts: {
      commandRoutingSec: timeoutMs.command_routing / 1_000,
      localStateSec: timeoutMs.local_state / 1_000,
      externalMessageSec: timeoutMs.external_message / 1_000,
      synthesisSec: timeoutMs.synthesis / 1_000,
    },
    retry,
  }
}

export const retryFile: PolicyFile<RetryFile> = {
  path: 'config/retry-policy.json',
  shape: retryShape,
  defaults: asRetryFile(defaultCallPolicy),
  about: 'How long a call of the board may take, in seconds, and how often it is tried.',
}
