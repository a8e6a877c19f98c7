/**
 * Errors on the wire: application/problem+json (RFC 9457) with our code and hint. The status comes from the error's code
 * or class, never from its text. What nobody foresaw is a 500 that says nothing of its inside, and is logged.
 */
import { InvalidInput, Retryable, sessionObsolete, Terminal } from '@bellwether/protocol'

export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: string
  readonly hint?: string
}

const statusByCode: Readonly<Record<string, number>> = {
  session_obsolete: sessionObsolete,
  view_taken: 409,
  not_leader: 409,
  unauthorized: 401,
  forbidden: 403,
  unknown_view: 404,
  unknown_path: 404,
  unknown_source: 404,
  unknown_job: 404,
  not_found: 404,
  too_large: 413,
  too_many_rows: 413,
  unsupported_encoding: 415,
  busy: 429,
}

export const problemType = 'application/problem+json'

export function statusOf(error: unknown): number {
  if (error instanceof Terminal || error instanceof Retryable) {
    const known = statusByCode[error.code]
    if (known !== undefined) return known
    return error instanceof Retryable ? 503 : error instanceof InvalidInput ? 400 : 409
  }
  const told = (error as { statusCode?: unknown } | null)?.statusCode
  return typeof told === 'number' && told >= 400 && told < 500 ? told : 500
}

export function problemOf(error: unknown): Problem {
  const status = statusOf(error)
  if (error instanceof Terminal || error instanceof Retryable) {
    return {
      type: `urn:bellwether:problem:${error.code}`,
      title: error.message,
      status,
      code: error.code,
      ...(error.hint === undefined ? {} : { hint: error.hint }),
    }
  }
  // Fastify's own refusals: a body that is too large, a media type that nobody reads.
  const code = status === 500 ? 'internal' : status === 413 ? 'too_large' : 'bad_request'
  const title = status === 500 || !(error instanceof Error) ? 'something went wrong inside' : error.message
  return { type: `urn:bellwether:problem:${code}`, title, status, code }
}

/** Whole seconds after which the same request may succeed, for Retry-After. */
export function retryAfter(error: unknown): string | undefined {
  return error instanceof Retryable ? String(Math.max(1, Math.ceil(error.afterMs / 1_000))) : undefined
}
