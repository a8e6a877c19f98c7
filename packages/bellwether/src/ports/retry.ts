/**
 * Decides for the whole product whether a failed call is retried, when, and how long each try may take. The decision is
 * pure. Every try has a timeout and an abort signal, and tries are limited by number, by time or by a signal. Every
 * growing pause comes from `backoffMs`; a tidy rule finds others.
 */
import { type Clock, linkAbort, type Log, onAbort, type Random } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'

export const callKinds = ['command_routing', 'local_state', 'external_message', 'synthesis'] as const
export type CallKind = (typeof callKinds)[number]

export const backoffModes = ['exponential', 'linear', 'fixed'] as const

export interface Backoff {
  readonly mode: (typeof backoffModes)[number]
  readonly baseMs: number
  readonly multiplier: number
  readonly maxMs: number
  /** Spreads the wait by this percentage in both directions, so that callers that failed together do not retry together. */
  readonly jitterPct: number
}

export interface RetryPolicy {
  readonly maxAttempts: number
  readonly backoff: Backoff
}

export interface CallPolicy {
  readonly timeoutMs: Readonly<Record<CallKind, number>>
  readonly retry: RetryPolicy
}

/** The policy if a task root does not configure one (H1.1, H1.2). */
export const defaultCallPolicy: CallPolicy = {
  timeoutMs: { command_routing: 5_000, local_state: 3_000, external_message: 10_000, synthesis: 15_000 },
  retry: { maxAttempts: 3, backoff: { mode: 'exponential', baseMs: 500, multiplier: 2, maxMs: 30_000, jitterPct: 20 } },
}

/** The timeout of one exchange with PostgreSQL or NATS: connecting, a query, a flush. */
export const exchangeTimeoutMs = defaultCallPolicy.timeoutMs.command_routing
/** The timeout of closing a connection; after it the connection is abandoned. */
export const closeTimeoutMs = defaultCallPolicy.timeoutMs.local_state

/** For connections that are always reopened: a server that is available again is reconnected within ten seconds. */
export const reconnectBackoff: Backoff = { ...defaultCallPolicy.retry.backoff, maxMs: 10_000 }

/** Why a call failed, as far as a retry depends on it. */
export interface Failure {
  readonly retryable: boolean
  readonly why: 'timeout' | 'network' | 'server_error' | 'contention' | 'refused' | 'invalid' | 'unknown'
  /** The shortest wait that the failing side requested. */
  readonly afterMs: number
  /** Whether the call may have taken effect although it failed. */
  readonly inDoubt: boolean
}

const networkCodes = new Set(
  'ECONNRESET ECONNREFUSED ECONNABORTED EPIPE EAI_AGAIN ENETDOWN ENETUNREACH EHOSTDOWN EHOSTUNREACH ENETRESET UND_ERR_SOCKET'.split(
    ' ',
  ),
)
// Errors before any byte was sent: the call cannot have taken effect.
const beforeSending = new Set(['ECONNREFUSED', 'EAI_AGAIN', 'ENETDOWN', 'ENETUNREACH', 'EHOSTDOWN', 'EHOSTUNREACH'])
const timeoutCodes = new Set(
  'timeout ETIMEDOUT ESOCKETTIMEDOUT UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT'.split(' '),
)
const contentionCodes = new Set(['lock_contention', 'EBUSY', 'EAGAIN', 'EWOULDBLOCK', 'ETXTBSY', 'EMFILE', 'ENFILE'])
const refusedCodes = new Set(['EACCES', 'EPERM', 'EROFS'])

const failed = (why: Failure['why'], retryable: boolean, afterMs = 0, inDoubt = false): Failure => ({
  retryable,
  why,
  afterMs,
  inDoubt,
})

/** By HTTP status: server errors are temporary, client errors are not. */
export function classifyStatus(status: number, retryAfterMs = 0): Failure {
  if (status === 408) return failed('timeout', true, retryAfterMs, true)
  if (status === 429) return failed('contention', true, retryAfterMs)
  if (status === 401 || status === 403) return failed('refused', false)
  // 501 and 505 are permanent: the server does not support the request.
  if (status >= 500 && status !== 501 && status !== 505) return failed('server_error', true, retryAfterMs, true)
  return failed(status >= 400 ? 'invalid' : 'unknown', false)
}

function property(error: object, name: string): unknown {
  return name in error ? (error as Record<string, unknown>)[name] : undefined
}

// Errors wrap errors (fetch wraps the network error); the limit ends a cyclic chain.
const causesMax = 8

/** Retryable: network timeout, temporary 5xx, contention. Not retryable: validation, credentials, permission, unknown errors. */
export function classify(error: unknown): Failure {
  let at: unknown = error
  for (let depth = 0; depth < causesMax && typeof at === 'object' && at !== null; depth += 1) {
    if (at instanceof Terminal) return failed('invalid', false)
    const code = property(at, 'code')
    const afterMs = at instanceof Retryable ? at.afterMs : 0
    if (typeof code === 'string') {
      if (refusedCodes.has(code)) return failed('refused', false)
      if (timeoutCodes.has(code)) return failed('timeout', true, afterMs, true)
      if (networkCodes.has(code)) return failed('network', true, afterMs, !beforeSending.has(code))
      if (contentionCodes.has(code)) return failed('contention', true, afterMs)
    }
    const status = property(at, 'status') ?? property(at, 'statusCode')
    if (typeof status === 'number' && status >= 400 && status < 600) return classifyStatus(status, afterMs)
    if (at instanceof Retryable) return failed('server_error', true, afterMs)
    if (property(at, 'name') === 'TimeoutError') return failed('timeout', true, 0, true)
    at = property(at, 'cause')
  }
  return failed('unknown', false)
}

// Far beyond every maxMs, and small enough to stay finite: 0 ms times Infinity would be NaN.
const doublingsMax = 64
/** The jitter value that leaves the wait unchanged. */
const middle = 0.5

/** The pause after failed try number `tries` (the first is 1); `chance` is in [0, 1). */
export function backoffMs({ backoff }: Pick<RetryPolicy, 'backoff'>, tries: number, chance = middle): number {
  const { mode, baseMs, multiplier, maxMs, jitterPct } = backoff
  const grown =
    mode === 'fixed'
      ? baseMs
      : mode === 'linear'
        ? baseMs * tries
        : baseMs * multiplier ** Math.min(Math.max(0, tries - 1), doublingsMax)
  return Math.min(grown, maxMs) * (1 + (jitterPct / 100) * (2 * chance - 1))
}

export type RetryDecision = { readonly retry: true; readonly waitMs: number } | { readonly retry: false }

/** Decides whether a call is retried after failed try number `tries`, and after which wait. */
export function decideRetry(policy: RetryPolicy, tries: number, failure: Failure, chance: number): RetryDecision {
  if (!failure.retryable || tries >= policy.maxAttempts) return { retry: false }
  // A long requested wait is left to the caller's loop.
  if (failure.afterMs > policy.backoff.maxMs) return { retry: false }
  return { retry: true, waitMs: Math.max(failure.afterMs, backoffMs(policy, tries, chance)) }
}

export interface Call {
  readonly kind: CallKind
  /** Names the call in errors and the log. */
  readonly name: string
}

export interface RetryPorts {
  readonly clock: Clock
  readonly random: Pick<Random, 'next'>
  readonly signal?: AbortSignal
  readonly log?: Log
}

/** Calls until it succeeds, must not be retried, or has used its tries; then throws the last error. */
export async function retryCall<T>(
  policy: CallPolicy,
  what: Call,
  call: (signal: AbortSignal, tries: number) => Promise<T>,
  ports: RetryPorts,
): Promise<T> {
  const { clock, random, log, signal } = ports
  const isAborted = () => signal?.aborted === true
  for (let tries = 1; ; tries += 1) {
    if (isAborted()) throw abortedCall(what, signal?.reason)
    try {
      return await tryOnce(policy.timeoutMs[what.kind], what, call, tries, ports)
    } catch (error) {
      if (isAborted()) throw abortedCall(what, error)
      const next = decideRetry(policy.retry, tries, classify(error), random.next())
      if (!next.retry) throw error
      log?.warn({ err: error, call: what.name, tries, waitMs: next.waitMs }, 'call failed and will be retried')
      await clock.sleep(next.waitMs, signal)
    }
  }
}

export interface RetryWindow {
  readonly backoff: Backoff
  /** For all tries together, on the monotonic clock. */
  readonly maxMs: number
}

export interface RetryUntilPorts {
  readonly clock: Clock
  /** Absent: no jitter. */
  readonly random?: Pick<Random, 'next'>
  readonly signal: AbortSignal
  /** Called before each retry. */
  readonly onRetry?: (error: unknown, tries: number, leftMs: number) => void
}

/**
 * Retries a call while its failure is temporary, the time is not used up and the signal has not aborted; then throws the
 * last error. Each try must have its own timeout.
 */
export async function retryUntil<T>(
  { backoff, maxMs }: RetryWindow,
  call: () => Promise<T>,
  ports: RetryUntilPorts,
): Promise<T> {
  const { clock, random, onRetry } = ports
  const startedMs = clock.monotonicMs()
  for (let tries = 1; ; tries += 1) {
    try {
      return await call()
    } catch (error) {
      // Read only after a failure: creating the signal may be expensive, and most calls succeed.
      const { signal } = ports
      const { retryable, afterMs } = classify(error)
      const leftMs = startedMs + maxMs - clock.monotonicMs()
      if (!retryable || leftMs <= 0 || signal.aborted) throw error
      onRetry?.(error, tries, leftMs)
      const waitMs = Math.max(afterMs, backoffMs({ backoff }, tries, random?.next()))
      await clock.sleep(Math.min(leftMs, waitMs), signal)
    }
  }
}

/** Rejects with a Retryable when `work` takes longer than `ms`; `work` itself is not cancelled. */
export async function withTimeout<T>(clock: Clock, ms: number, what: string, work: Promise<T>): Promise<T> {
  const done = new AbortController()
  const late = clock.sleep(ms, done.signal).then((): never => {
    throw new Retryable(`${what} took longer than ${ms} ms`, { code: 'timeout' })
  })
  try {
    return await Promise.race([work, late])
  } finally {
    done.abort()
  }
}

function abortedCall(what: Call, cause: unknown): Terminal {
  return new Terminal(`${what.name} was aborted`, { code: 'aborted', cause })
}

/** One try. At the timeout its signal aborts, and a call that ignores the signal is abandoned. */
async function tryOnce<T>(
  timeoutMs: number,
  what: Call,
  call: (signal: AbortSignal, tries: number) => Promise<T>,
  tries: number,
  { clock, signal: outer }: RetryPorts,
): Promise<T> {
  const stop = linkAbort(outer)
  const settled = new AbortController()
  const stopped = new Promise<never>((_resolve, reject) => {
    onAbort(stop.signal, () => {
      const reason: unknown = stop.signal.reason
      reject(reason)
    })
  })
  // If the call settles first, a later rejection has no reader.
  stopped.catch(() => undefined)
  const timer = clock.sleep(timeoutMs, settled.signal).then(() => {
    if (!settled.signal.aborted)
      stop.abort(new Retryable(`${what.name} took longer than ${timeoutMs} ms`, { code: 'timeout' }))
  })
  try {
    return await Promise.race([call(stop.signal, tries), stopped])
  } finally {
    settled.abort()
    stop.release()
    await timer
  }
}
