/**
 * Errors on the wire: application/problem+json (RFC 9457) with our code and hint. The status comes from the error's code
 * or class, never from its text. What nobody foresaw is a 500 that says nothing of its inside, and is logged.
 */
import { STATUS_CODES } from 'node:http'
import { InvalidInput, Retryable, sessionObsolete, Terminal } from '@bellwether/protocol'

export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: string
  /** What happened this time, for people. */
  readonly detail: string
  readonly hint?: string
  /** Required result fields that a delivery lacks. */
  readonly missing?: readonly string[]
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
  unknown_agent: 404,
  unknown_turn: 404,
  unknown_tool_call: 404,
  unknown_task: 404,
  unknown_key: 404,
  not_found: 404,
  agent_retired: 409,
  duplicate_tool_call: 409,
  duplicate_step: 409,
  task_exists: 409,
  already_done: 409,
  under_way: 409,
  claimed: 409,
  not_claimable: 409,
  not_ready: 409,
  too_large: 413,
  too_many_rows: 413,
  content_too_large: 413,
  unsupported_encoding: 415,
  idempotency_key_reused: 422,
  missing_result_fields: 422,
  busy: 429,
  rate_limited: 429,
}

export const problemType = 'application/problem+json'

/** A delivery that lacks what the task asked for. */
export class MissingFields extends InvalidInput {
  constructor(readonly missing: readonly string[]) {
    super(`required result fields are missing: ${missing.join(', ')}`, {
      code: 'missing_result_fields',
      hint: 'deliver again with all of them, or with status failed',
    })
  }
}

export function statusOf(error: unknown): number {
  if (error instanceof Terminal || error instanceof Retryable) {
    const known = statusByCode[error.code]
    if (known !== undefined) return known
    return error instanceof Retryable ? 503 : error instanceof InvalidInput ? 400 : 409
  }
  if (isUnfitForDatabase(error)) return 400
  const told = (error as { statusCode?: unknown } | null)?.statusCode
  return typeof told === 'number' && told >= 400 && told < 500 ? told : 500
}

export function problemOf(error: unknown): Problem {
  const status = statusOf(error)
  if (error instanceof Terminal || error instanceof Retryable) {
    return {
      ...problem(status, error.code, error.message),
      ...(error.hint === undefined ? {} : { hint: error.hint }),
      ...(error instanceof MissingFields ? { missing: error.missing } : {}),
    }
  }
  if (isUnfitForDatabase(error))
    return problem(status, 'invalid_request', 'a value cannot be stored: too large, or no text')
  if (isValidation(error)) return problem(400, 'invalid_request', sentence(error))
  // Fastify's own refusals: a body that is too large, a URL that cannot be decoded.
  const code = status === 500 ? 'internal' : status === 413 ? 'too_large' : status === 404 ? 'not_found' : 'bad_request'
  const said = status === 500 || !(error instanceof Error) ? 'something went wrong inside' : error.message
  return problem(status, code, said.slice(0, saidMax))
}

// Some of it is the client's own, given back.
const saidMax = 500

function problem(status: number, code: string, detail: string): Problem {
  const title = STATUS_CODES[status] ?? (status === sessionObsolete ? 'Session Obsolete' : 'Refused')
  return { type: `urn:bellwether:problem:${code}`, title, status, code, detail }
}

/** Class 22 of SQLSTATE is about data, and the data came from outside: a number out of range, half a character. */
function isUnfitForDatabase(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ['22003', '22021', '22P05', '22P02'].includes(String(error.code))
}

interface Validation {
  readonly validation: readonly { readonly instancePath?: string; readonly message?: string }[]
  readonly validationContext?: string
}

function isValidation(error: unknown): error is Validation {
  return error instanceof Error && 'validation' in error && Array.isArray(error.validation)
}

/** One sentence about what is wrong with a request. */
function sentence({ validation, validationContext }: Validation): string {
  const [first] = validation
  const where = first?.instancePath === undefined || first.instancePath === '' ? '' : ` at ${first.instancePath}`
  return `the ${validationContext ?? 'request'} is wrong${where}: ${first?.message ?? 'unreadable'}`.slice(0, saidMax)
}

/** Whole seconds after which the same request may succeed, for Retry-After. */
export function retryAfter(error: unknown): string | undefined {
  return error instanceof Retryable ? String(Math.max(1, Math.ceil(error.afterMs / 1_000))) : undefined
}
