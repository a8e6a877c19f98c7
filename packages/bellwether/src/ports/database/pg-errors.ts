/**
 * Translates driver errors into Retryable and InvalidInput errors, by SQLSTATE and errno, because server messages depend on the
 * language. The driver's own errors have no code and are matched by their fixed English text. Other errors (constraint
 * violations, mistakes in SQL) pass unchanged.
 */
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'

const lostStates = new Set([
  '57P01', // admin shutdown
  '57P02', // crash shutdown
  '57P03', // still starting up
  '57P05', // idle session timeout
  '25P03', // idle in transaction for too long: the server closed the session
  '25006', // read-only: after a failover this address leads to a standby
  '53100', // disk full
  '53200', // out of memory
  '53300', // too many connections
])
const lostErrnos = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT', // a Unix socket without a server
])
const lostMessages = [
  'Connection terminated',
  'timeout exceeded when trying to connect',
  'timeout expired',
  'Client has encountered a connection error',
  'Client was closed and is not queryable',
  'Query read timeout',
  'Cannot use a pool after calling end on the pool',
]
// A schema change or a pooler dropped the prepared statement; a new connection prepares it again.
const lostPlanRoutines = new Set(['RevalidateCachedQuery', 'FetchPreparedStatement'])

interface Described {
  readonly code?: unknown
  readonly routine?: unknown
  readonly message: string
}

/** True if the connection that threw this error must not be reused. */
export function isBroken(error: unknown): boolean {
  return error instanceof Error && (isLost(error) || isLostPlan(error))
}

export function translateError(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error), { cause: error })
  if (error instanceof Retryable || error instanceof Terminal) return error
  if (isLost(error)) {
    return new Retryable(`Cannot reach the database: ${error.message || codeOf(error)}`, {
      code: 'database_unavailable',
      cause: error,
      afterMs: 250,
      hint: 'The call is safe to repeat with the same ids. If this persists, check that PostgreSQL runs and has free connections.',
    })
  }
  const code = codeOf(error)
  if (code === '57014' || code === '55P03') {
    return new Retryable(`The database call timed out: ${error.message}`, {
      code: 'database_timeout',
      cause: error,
      hint: 'Look for long transactions in pg_stat_activity.',
    })
  }
  if (code === '40001' || code === '40P01' || isLostPlan(error)) {
    return new Retryable(`The database asks for a retry: ${error.message}`, { code: 'database_conflict', cause: error })
  }
  return refusedLogin(error, code) ?? error
}

/** Codes of Node and OpenSSL for a certificate that is not accepted, and the driver's words for a server without TLS. */
const tlsCodes = /^(?:ERR_(?:TLS|SSL|OSSL)|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_CA)/
const withoutTls = 'The server does not support SSL connections'

function refusedLogin(error: Error, code: string): InvalidInput | undefined {
  if (tlsCodes.test(code) || error.message === withoutTls) {
    return new InvalidInput(`Cannot open a TLS connection to the database: ${error.message}`, {
      code: 'database_tls',
      cause: error,
      hint: 'Check the host, sslmode and sslrootcert (the file of the authority that signed the server’s certificate) in [database] url. The certificate must name the host.',
    })
  }
  if (code === '28P01' || code === '28000') {
    return new InvalidInput(`The database rejected the login: ${error.message}`, {
      code: 'database_login',
      cause: error,
      hint: 'Check the user and password in [database] url, and the server’s pg_hba.conf.',
    })
  }
  if (code === '3D000') {
    return new InvalidInput(`The database in [database] url does not exist: ${error.message}`, {
      code: 'database_missing',
      cause: error,
      hint: 'Create it (createdb NAME), or fix the last part of [database] url.',
    })
  }
  return undefined
}

function isLost(error: Error): boolean {
  const code = codeOf(error)
  if (lostStates.has(code) || lostErrnos.has(code)) return true
  // Class 08 is "connection exception"; 08P01 is a protocol error, which a retry does not fix.
  if (code.startsWith('08') && code !== '08P01') return true
  return code === '' && lostMessages.some((text) => error.message.includes(text))
}

function isLostPlan(error: Described): boolean {
  return error.code === '26000' || (typeof error.routine === 'string' && lostPlanRoutines.has(error.routine))
}

function codeOf(error: Described): string {
  return typeof error.code === 'string' ? error.code : ''
}
