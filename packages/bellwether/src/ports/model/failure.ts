/**
 * What a failed model call means: whether trying again can help, whether it cost anything, and what a person is told. Pure. The
 * decision to repeat is the retry policy's (ports/retry.ts); here the SDK's and the network's errors get their names.
 */
import { Retryable, Terminal } from '@bellwether/protocol'
import { classify, classifyStatus, type Failure } from '../retry.js'

export interface ModelFailure extends Failure {
  /** As the turn's error names it. */
  readonly code: string
  readonly message: string
  /** Nobody bills for it: the provider refused, or was never reached. */
  readonly unbilled: boolean
  /** The provider asks for fewer requests: everybody who uses this account waits. */
  readonly busy: boolean
}

const messageMaxChars = 500

export function modelFailure(error: unknown, nowMs: number): ModelFailure {
  const said = (text: string) => text.toWellFormed().replaceAll('\0', '').slice(0, messageMaxChars)
  if (isRefusal(error)) {
    const { statusCode } = error
    const code = codeOf(statusCode, `${error.message} ${error.responseBody ?? ''}`)
    const failure = classifyStatus(statusCode, retryAfterMs(error.responseHeaders ?? {}, nowMs))
    const hopeless = code === 'model_quota' || code === 'model_context_exceeded'
    return {
      ...failure,
      // A proxy's page of HTML with status 200 is no answer of a model's: such pages pass.
      retryable: (failure.retryable || statusCode < 300) && !hopeless,
      code,
      message: said(`${error.message.trim() === '' ? 'no message' : error.message} (status ${statusCode})`),
      unbilled: statusCode >= 400,
      busy: !hopeless && (statusCode === 429 || statusCode === 529),
    }
  }
  const failure = classify(error)
  const message = said(error instanceof Error ? deepest(error) : String(error))
  const named = error instanceof Terminal || error instanceof Retryable ? error.code : undefined
  if (named !== undefined && named !== 'timeout')
    return { ...failure, code: named, message, unbilled: false, busy: false }
  const lost = { message, unbilled: !failure.inDoubt && failure.retryable, busy: false }
  if (failure.why === 'timeout') return { ...failure, ...lost, code: 'model_timeout', unbilled: false }
  if (failure.retryable) return { ...failure, ...lost, code: 'model_unreachable' }
  // What the SDK cannot read (no JSON, no name of a call, a stream without an end) may be read the next time.
  return { ...failure, retryable: true, inDoubt: true, message, code: 'model_bad_answer', unbilled: false, busy: false }
}

/** As the SDK throws what a provider answered with. */
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

/** fetch hides the network's words behind its own. */
function deepest(error: Error): string {
  let at: unknown = error
  let text = error.message
  for (let depth = 0; depth < 8 && at instanceof Error; depth += 1) {
    if (at.message !== '') text = at.message
    at = at.cause
  }
  return text
}

/** Seconds, a date, or milliseconds; 0 where nothing sensible is said. */
export function retryAfterMs(headers: Readonly<Record<string, string>>, nowMs: number): number {
  const precise = Number(headers['retry-after-ms'])
  if (headers['retry-after-ms'] !== undefined && Number.isFinite(precise) && precise > 0) return precise
  const retryAfter = headers['retry-after']
  if (retryAfter === undefined) return 0
  const seconds = Number(retryAfter)
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1_000)
  const at = Date.parse(retryAfter)
  return Number.isNaN(at) ? 0 : Math.max(0, at - nowMs)
}
