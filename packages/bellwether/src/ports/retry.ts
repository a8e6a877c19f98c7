/**
 * Trying again: the one place of the product that decides whether a failed call is repeated, when, and how long each try may
 * take. Always: the decision is pure; a refusal that repetition cannot mend is never repeated; every try has its timeout and
 * an abort signal; tries are bounded in number, or in time, or by a signal. Every growing pause in the house is `pauseMs`, those
 * of loops that never end too (a tidy rule finds others). What is called is left to the caller, as is what its loss means.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'

export const callKinds = ['command_routing', 'local_state', 'external_message', 'synthesis'] as const
export type CallKind = (typeof callKinds)[number]

export const backoffModes = ['exponential', 'linear', 'fixed'] as const

export interface Backoff {
  readonly mode: (typeof backoffModes)[number]
  readonly baseMs: number
  readonly multiplier: number
  readonly maxMs: number
  /** The wait is spread by this many percent to both sides, so that those who failed together do not return together. */
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

/** What the product does where no task root says otherwise (H1.1, H1.2). */
export const defaultCallPolicy: CallPolicy = {
  timeoutMs: { command_routing: 5_000, local_state: 3_000, external_message: 10_000, synthesis: 15_000 },
  retry: {
    maxAttempts: 3,
    backoff: { mode: 'exponential', baseMs: 500, multiplier: 2, maxMs: 30_000, jitterPct: 20 },
  },
}

/** One exchange with a server of the house: connecting, a question, a flush. */
export const exchangeTimeoutMs = defaultCallPolicy.timeoutMs.command_routing
/** Letting go of what is open; whoever takes longer is left behind. */
export const closeTimeoutMs = defaultCallPolicy.timeoutMs.local_state

/** A connection that is kept for ever: as the shipped policy, but back within ten seconds of the server. */
export const reconnectBackoff: Backoff = { ...defaultCallPolicy.retry.backoff, maxMs: 10_000 }

/** Why a call failed, as far as repeating it is concerned. */
export interface Failure {
  readonly retryable: boolean
  readonly why: 'timeout' | 'network' | 'server_error' | 'contention' | 'refused' | 'invalid' | 'unknown'
  /** The least wait that the failing side asked for. */
  readonly afterMs: number
  /** Whether the call may have had its effect all the same. */
  readonly inDoubt: boolean
}

const networkCodes = new Set(
  'ECONNRESET ECONNREFUSED ECONNABORTED EPIPE EAI_AGAIN ENETDOWN ENETUNREACH EHOSTDOWN EHOSTUNREACH ENETRESET UND_ERR_SOCKET'.split(
    ' ',
  ),
)
// Before any byte was sent: the other side cannot have acted.
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

/** By HTTP status: the server's trouble passes, the caller's does not. */
export function classifyStatus(status: number, retryAfterMs = 0): Failure {
  if (status === 408) return failed('timeout', true, retryAfterMs, true)
  if (status === 429) return failed('contention', true, retryAfterMs)
  if (status === 401 || status === 403) return failed('refused', false)
  // 501 and 505 are no passing state: this server does not do it, and will not the next time.
  if (status >= 500 && status !== 501 && status !== 505) return failed('server_error', true, retryAfterMs, true)
  return failed(status >= 400 ? 'invalid' : 'unknown', false)
}

function property(error: object, name: string): unknown {
  return name in error ? (error as Record<string, unknown>)[name] : undefined
}

// Errors wrap errors (fetch hides the network's behind its own); a chain that leads back to itself must end.
const causesMax = 8

/** Retryable: network timeout, temporary 5xx, contention. Never: validation, credentials, permission, or what nobody knows. */
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

// Past any bound, and far from where a number becomes infinite: 0 ms times infinity would be no number.
const doublingsMax = 64
/** The chance that spreads nothing. */
const middle = 0.5

/** The pause before the try after `attempt` (1 is the first); `chance` is in [0, 1). */
export function backoffMs({ backoff }: Pick<RetryPolicy, 'backoff'>, attempt: number, chance = middle): number {
  const { mode, baseMs, multiplier, maxMs, jitterPct } = backoff
  const grown =
    mode === 'fixed'
      ? baseMs
      : mode === 'linear'
        ? baseMs * attempt
        : baseMs * multiplier ** Math.min(Math.max(0, attempt - 1), doublingsMax)
  return Math.min(grown, maxMs) * (1 + (jitterPct / 100) * (2 * chance - 1))
}

export type RetryDecision = { readonly retry: true; readonly waitMs: number } | { readonly retry: false }

/** The decision: is the call that failed for the `attempt`th time tried again, and after which wait? */
export function decideRetry(
  policy: RetryPolicy,
  attempt: number,
  failure: Failure,
  chance: number,
  idempotent = true,
): RetryDecision {
  if (!failure.retryable || attempt >= policy.maxAttempts || (failure.inDoubt && !idempotent)) return { retry: false }
  // Asked to come back much later, nobody is kept waiting here: the caller has a loop for that.
  if (failure.afterMs > policy.backoff.maxMs) return { retry: false }
  return { retry: true, waitMs: Math.max(failure.afterMs, backoffMs(policy, attempt, chance)) }
}

export interface Call {
  readonly kind: CallKind
  /** Names the call in errors and the log. */
  readonly name: string
  /** False: a try that may have had its effect (a timeout, a lost connection) is not repeated. Absent: true. */
  readonly idempotent?: boolean
}

export interface RetryPorts {
  readonly clock: Clock
  readonly random: Pick<Random, 'next'>
  readonly signal?: AbortSignal
  readonly log?: Log
}

/** Calls until it succeeds, must not be repeated, or was tried often enough; then throws the last error. */
export async function retryCall<T>(
  policy: CallPolicy,
  what: Call,
  call: (signal: AbortSignal, attempt: number) => Promise<T>,
  ports: RetryPorts,
): Promise<T> {
  const { clock, random, log, signal } = ports
  const calledOff = () => signal?.aborted === true
  for (let attempt = 1; ; attempt += 1) {
    if (calledOff()) throw aborted(what, signal?.reason)
    try {
      return await once(policy.timeoutMs[what.kind], what, call, attempt, ports)
    } catch (error) {
      if (calledOff()) throw aborted(what, error)
      const next = decideRetry(policy.retry, attempt, classify(error), random.next(), what.idempotent)
      if (!next.retry) throw error
      log?.warn({ err: error, call: what.name, attempt, waitMs: next.waitMs }, 'a call failed and will be tried again')
      await clock.sleep(next.waitMs, signal)
    }
  }
}

export interface RetryWindow {
  readonly backoff: Backoff
  /** For all tries together, on the clock that cannot jump. */
  readonly maxMs: number
}

export interface RetryUntilPorts {
  readonly clock: Clock
  /** Absent: pauses are not spread. */
  readonly random?: Pick<Random, 'next'>
  readonly signal: AbortSignal
  /** Told of every failure that is not the last. */
  readonly onRetry?: (error: unknown, attempt: number, leftMs: number) => void
}

/**
 * For a call that somebody can wait for, and whose tries are bounded by their own timeouts: repeated while its failure may
 * pass, the time is not over and the signal has not fired; then throws the last error.
 */
export async function retryUntil<T>(
  { backoff, maxMs }: RetryWindow,
  call: () => Promise<T>,
  ports: RetryUntilPorts,
): Promise<T> {
  const { clock, random, onRetry: onTrouble } = ports
  const startedMs = clock.monotonicMs()
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call()
    } catch (error) {
      // Asked for only here: a signal may be dear, and most calls succeed.
      const { signal } = ports
      const { retryable, afterMs } = classify(error)
      const leftMs = startedMs + maxMs - clock.monotonicMs()
      if (!retryable || leftMs <= 0 || signal.aborted) throw error
      onTrouble?.(error, attempt, leftMs)
      const waitMs = Math.max(afterMs, backoffMs({ backoff }, attempt, random?.next()))
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

function aborted(what: Call, cause: unknown): Terminal {
  return new Terminal(`${what.name} was called off`, { code: 'aborted', cause })
}

/** One try: its signal fires at the timeout, and whoever does not heed it is no longer waited for. */
async function once<T>(
  timeoutMs: number,
  what: Call,
  call: (signal: AbortSignal, attempt: number) => Promise<T>,
  attempt: number,
  { clock, signal: outer }: RetryPorts,
): Promise<T> {
  const stop = new AbortController()
  const settled = new AbortController()
  const callOff = () => stop.abort(outer?.reason)
  outer?.addEventListener('abort', callOff, { once: true })
  const ended = new Promise<never>((_resolve, reject) => {
    const lose = () => {
      const reason: unknown = stop.signal.reason
      reject(reason)
    }
    stop.signal.addEventListener('abort', lose, { once: true })
  })
  // Only one of the racers is awaited; the other's end is nobody's surprise.
  ended.catch(() => undefined)
  const timer = clock.sleep(timeoutMs, settled.signal).then(() => {
    if (!settled.signal.aborted)
      stop.abort(new Retryable(`${what.name} took longer than ${timeoutMs} ms`, { code: 'timeout' }))
  })
  try {
    return await Promise.race([call(stop.signal, attempt), ended])
  } finally {
    settled.abort()
    outer?.removeEventListener('abort', callOff)
    await timer
  }
}
