/**
 * Turns an error into a problem (application/problem+json). The status comes from the error's code or class, never from
 * its text. An unexpected error becomes a 500 without details, and is logged.
 */
import { STATUS_CODES } from 'node:http'
import { defined, hasCode } from '@bellwether/base'
import { InvalidInput, Retryable, sessionObsolete, Terminal } from '@bellwether/protocol'
import type { Problem } from '@bellwether/protocol/http'

/** The status of a code; other codes get theirs from the error's class. */
export const problemStatuses: Readonly<Record<string, number>> = {
  session_obsolete: sessionObsolete,
  view_taken: 409,
  not_leader: 409,
  unauthorized: 401,
  forbidden: 403,
  lease_token_missing: 403,
  wrong_lease_token: 403,
  own_question: 403,
  target_not_allowed: 403,
  unknown_view: 404,
  unknown_path: 404,
  unknown_source: 404,
  unknown_job: 404,
  unknown_agent: 404,
  unknown_turn: 404,
  unknown_tool_call: 404,
  unknown_approval: 404,
  unknown_grant: 404,
  unknown_reservation: 404,
  unknown_task: 404,
  unknown_key: 404,
  not_found: 404,
  agent_retired: 409,
  duplicate_tool_call: 409,
  duplicate_step: 409,
  duplicate_card: 409,
  duplicate_reservation: 409,
  task_exists: 409,
  task_changed: 409,
  already_done: 409,
  open_run: 409,
  claimed: 409,
  not_claimable: 409,
  not_ready: 409,
  unknown_host: 421,
  too_large: 413,
  too_many_rows: 413,
  content_too_large: 413,
  unsupported_encoding: 415,
  idempotency_key_reused: 422,
  missing_result_fields: 422,
  busy: 429,
  rate_limited: 429,
}

/** A delivery lacks required result fields. */
export class MissingFields extends InvalidInput {
  constructor(readonly missing: readonly string[]) {
    super(`Required result fields are missing: ${missing.join(', ')}`, {
      code: 'missing_result_fields',
      hint: 'deliver again with all of them, or with status "failed"',
    })
  }
}

function statusOf(error: unknown): number {
  if (error instanceof Terminal || error instanceof Retryable) {
    const known = problemStatuses[error.code]
    if (known !== undefined) return known
    return error instanceof Retryable ? 503 : error instanceof InvalidInput ? 400 : 409
  }
  if (isUnfitForDatabase(error)) return 400
  const status = (error as { statusCode?: unknown } | null)?.statusCode
  return typeof status === 'number' && status >= 400 && status < 500 ? status : 500
}

export function problemOf(error: unknown): Problem {
  const status = statusOf(error)
  if (error instanceof Terminal || error instanceof Retryable) {
    return {
      ...problem(status, error.code, error.message),
      ...defined({ hint: error.hint, missing: error instanceof MissingFields ? error.missing : undefined }),
    }
  }
  if (isUnfitForDatabase(error))
    return problem(status, 'invalid_request', 'A value cannot be stored: it is out of range, or not valid text')
  // Fastify's own errors: a body that is too large, a URL that cannot be decoded.
  const code = status === 500 ? 'internal' : status === 413 ? 'too_large' : status === 404 ? 'not_found' : 'bad_request'
  const detail =
    status === 500 || !(error instanceof Error) ? 'Internal error; the server’s log has the details' : error.message
  return problem(status, code, detail.slice(0, detailMax))
}

// It may repeat the client's own text.
const detailMax = 500

function problem(status: number, code: string, detail: string): Problem {
  const title = STATUS_CODES[status] ?? (status === sessionObsolete ? 'Session Obsolete' : 'Refused')
  return { type: `urn:bellwether:problem:${code}`, title, status, code, detail }
}

/** SQLSTATE class 22: the request's data does not fit, such as a number out of range or an unpaired surrogate. */
function isUnfitForDatabase(error: unknown): boolean {
  return hasCode(error, '22003', '22021', '22P05', '22P02')
}

/** Seconds after which the request may succeed, for Retry-After. */
export function retryAfter(error: unknown): string | undefined {
  return error instanceof Retryable ? String(Math.max(1, Math.ceil(error.afterMs / 1_000))) : undefined
}
