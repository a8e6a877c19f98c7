/**
 * How a tool call failed, in words for the agent that made it. A plain error is a failure too; this one also says whether the call
 * may have taken effect all the same, and whether the same call may succeed later.
 */
export interface FailureDetails {
  readonly code: string
  /** The call may have taken effect: an agent must look before it calls again. */
  readonly inDoubt?: boolean
  /** The same call may succeed in a moment. */
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
