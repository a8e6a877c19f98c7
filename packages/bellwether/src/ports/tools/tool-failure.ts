/**
 * The error of a failed tool call, with a message for the agent that made it. It also records whether the call may have taken
 * effect and whether a retry may succeed.
 */
export interface FailureDetails {
  readonly code: string
  /** The call may have taken effect: the agent must check before it calls again. */
  readonly inDoubt?: boolean
  /** The same call may succeed later. */
  readonly retryable?: boolean
  readonly afterMs?: number
  readonly cause?: unknown
}

export class ToolFailure extends Error {
  readonly code: string
  readonly inDoubt: boolean
  readonly retryable: boolean
  readonly afterMs: number

  constructor(message: string, details: FailureDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'ToolFailure'
    this.code = details.code
    this.inDoubt = details.inDoubt ?? false
    this.retryable = details.retryable ?? false
    this.afterMs = details.afterMs ?? 0
  }
}
