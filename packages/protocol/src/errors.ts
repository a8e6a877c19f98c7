/**
 * Errors say what happens next. A caller decides by class and code, never by parsing a message.
 *   Terminal  – trying again cannot help: the input, the permission or the state of the world must change.
 *   Retryable – the same call may succeed later; `afterMs` is the least sensible wait.
 */
export interface ErrorDetails {
  readonly code: string
  readonly cause?: unknown
  /** What the reader can do about it. */
  readonly hint?: string
}

abstract class BellwetherError extends Error {
  readonly code: string
  readonly hint: string | undefined

  constructor(message: string, details: ErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = new.target.name
    this.code = details.code
    this.hint = details.hint
  }
}

export class Terminal extends BellwetherError {}

/** The caller's input is wrong; nothing was written. */
export class InvalidInput extends Terminal {}

export class Retryable extends BellwetherError {
  readonly afterMs: number

  constructor(message: string, details: ErrorDetails & { readonly afterMs?: number }) {
    super(message, details)
    this.afterMs = details.afterMs ?? 0
  }
}
