/**
 * Classifies a failed model call (pure): whether a retry can help, whether it was billed, and the message for people. It names the
 * errors of the SDK and the network; the retry policy (ports/retry.ts) decides about a retry.
 */
import { Retryable, Terminal } from '@bellwether/protocol'
import { classify, classifyStatus, type Failure } from '../retry.js'
import { resetMs } from './reset.js'

export interface ModelFailure extends Failure {
  /** The code in the turn's error. */
  readonly code: string
  readonly message: string
  /** Not billed: the provider rejected the request or was never reached. */
  readonly unbilled: boolean
  /** The provider limits the rate: all users of this account wait. */
  readonly busy: boolean
}

const messageMaxChars = 500

export function modelFailure(error: unknown, nowMs: number): ModelFailure {
  const clean = (text: string) => text.toWellFormed().replaceAll('\0', '').slice(0, messageMaxChars)
  if (isRefusal(error)) {
    const { statusCode } = error
    const failure = classifyStatus(statusCode, resetMs(error.responseHeaders ?? {}, error.responseBody ?? '', nowMs))
    const named = codeOf(statusCode, `${error.message} ${error.responseBody ?? ''}`)
    // Money does not come back by itself: a refusal that names a reset is a limit, whatever else its message says.
    const code = named === 'model_quota' && failure.afterMs > 0 ? 'model_busy' : named
    const hopeless = code === 'model_quota' || code === 'model_context_exceeded'
    return {
      ...failure,
      // An HTML page of a proxy with status 200 is not a model response; the error is temporary.
      retryable: (failure.retryable || statusCode < 300) && !hopeless,
      code,
      message: clean(`${error.message.trim() === '' ? 'no message' : error.message} (status ${statusCode})`),
      unbilled: statusCode >= 400,
      busy: !hopeless && (statusCode === 429 || statusCode === 529),
    }
  }
  const failure = classify(error)
  const message = clean(error instanceof Error ? deepest(error) : String(error))
  const named = error instanceof Terminal || error instanceof Retryable ? error.code : undefined
  if (named !== undefined && named !== 'timeout')
    return { ...failure, code: named, message, unbilled: false, busy: false }
  const lost = { message, unbilled: !failure.inDoubt && failure.retryable, busy: false }
  if (failure.why === 'timeout') return { ...failure, ...lost, code: 'model_timeout', unbilled: false }
  if (failure.retryable) return { ...failure, ...lost, code: 'model_unreachable' }
  // A response that the SDK cannot parse (invalid JSON, a call without a name, an unfinished stream) may be valid next time.
  return { ...failure, retryable: true, inDoubt: true, message, code: 'model_bad_answer', unbilled: false, busy: false }
}

/** The SDK's error for a response with an error status. */
interface Refusal extends Error {
  readonly statusCode: number
  readonly responseHeaders?: Readonly<Record<string, string>>
  readonly responseBody?: string
}

function isRefusal(error: unknown): error is Refusal {
  return error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
}

const tooLong =
  /context[ _-]?(?:length|window)|maximum context|prompt is too long|too many (?:input )?tokens|request_too_large/i
const noMoney = /insufficient[_ ]quota|billing|credit balance/i

function codeOf(status: number, message: string): string {
  if (status === 401 || status === 403) return 'model_key_refused'
  if (status === 404) return 'model_not_found'
  if (noMoney.test(message) && (status === 429 || status === 400 || status === 402)) return 'model_quota'
  if (status === 413 || (status === 400 && tooLong.test(message))) return 'model_context_exceeded'
  if (status === 429 || status === 529) return 'model_busy'
  if (status >= 500 || status === 408) return 'model_unavailable'
  return status >= 400 ? 'model_request_refused' : 'model_bad_answer'
}

/** The innermost message: fetch wraps the network error. */
function deepest(error: Error): string {
  let at: unknown = error
  let text = error.message
  for (let depth = 0; depth < 8 && at instanceof Error; depth += 1) {
    if (at.message !== '') text = at.message
    at = at.cause
  }
  return text
}
