/**
 * One question to a model: through the account's gate, within its times, tried again as the retry policy says. Always: each try
 * is told of before it is made and settled after it, so that whoever pays can reserve and charge; what cannot be had is a
 * value with a code; it ends when the signal fires, and ends the request with it.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { decideRetry, type RetryPolicy } from '../retry.js'
import { modelFailure, type ModelFailure } from './failure.js'
import type { Limiter, Permit } from './limiter.js'
import type { RawToolCall, FinishReason, Model, ModelResponse, ModelRequest, ModelPart, TokenUsage } from './model.js'

export interface ModelTimeouts {
  /** Until the first part of the answer. */
  readonly firstMs: number
  /** Between two parts. */
  readonly stallMs: number
  /** The whole answer, of one try. */
  readonly totalMs: number
}

export const defaultModelTimeouts: ModelTimeouts = { firstMs: 120_000, stallMs: 60_000, totalMs: 600_000 }

/** Providers ask for up to a minute; a longer outage is for whoever looks after the turn. */
export const modelRetryPolicy: RetryPolicy = {
  maxAttempts: 5,
  backoff: { mode: 'exponential', baseMs: 1_000, multiplier: 2, maxMs: 120_000, jitterPct: 20 },
}

/** What a try came to: its usage, nothing at all, or nobody knows. */
export type Charge = TokenUsage | 'nothing' | 'unknown'

export interface ModelCall {
  readonly clock: Clock
  readonly random: Pick<Random, 'next'>
  readonly log: Log
  readonly limiter: Limiter
  readonly retry: RetryPolicy
  readonly timeouts: ModelTimeouts
  /** How long to wait for a busy provider, all tries together. */
  readonly busyTimeoutMs: number
  readonly signal: AbortSignal
  /** Before each try; false: it may not be made. */
  beforeAttempt(attempt: number): Promise<boolean>
  /** After each try that began. */
  afterAttempt(attempt: number, bill: Charge): Promise<void>
  /** As it comes: lossy, and a try that fails has already said what it said. */
  onPart?(part: ModelPart): void
}

export type ModelCallResult =
  | { readonly what: 'answered'; readonly answer: ModelResponse; readonly attempts: number }
  | { readonly what: 'failed'; readonly failure: ModelFailure; readonly attempts: number }
  | { readonly what: 'refused'; readonly attempts: number }
  | { readonly what: 'halted' }

export async function callModel(model: Model, request: ModelRequest, call: ModelCall): Promise<ModelCallResult> {
  const { clock, signal, log } = call
  const startedMs = clock.monotonicMs()
  for (let attempt = 1; ; attempt += 1) {
    const pass = await acquirePermit(call, call.busyTimeoutMs - (clock.monotonicMs() - startedMs))
    if (pass === undefined)
      return signal.aborted ? { what: 'halted' } : { what: 'failed', failure: busyTooLong, attempts: attempt - 1 }
    let failure: ModelFailure
    try {
      if (!(await call.beforeAttempt(attempt))) {
        pass.release('failed')
        return { what: 'refused', attempts: attempt - 1 }
      }
      const tried = await once(model, request, call)
      if (signal.aborted) return { what: 'halted' }
      if ('answer' in tried) {
        pass.release('well')
        await call.afterAttempt(attempt, tried.answer.usage ?? 'unknown')
        return { what: 'answered', answer: tried.answer, attempts: attempt }
      }
      const raw = modelFailure(tried.error, clock.wallMs())
      failure = { ...raw, message: model.redact?.(raw.message) ?? raw.message }
      pass.release(failure.busy ? 'busy' : 'failed', failure.afterMs)
      await call.afterAttempt(attempt, failure.unbilled ? 'nothing' : 'unknown')
    } finally {
      pass.release('failed')
    }
    const next = decideRetry(call.retry, attempt, failure, call.random.next())
    if (!next.retry) return { what: 'failed', failure, attempts: attempt }
    log.warn(
      { model: model.name, attempt, code: failure.code, waitMs: next.waitMs, said: failure.message },
      'a model call failed and will be tried again',
    )
    // Of a busy provider the gate makes everybody wait, this one too.
    if (!failure.busy) await clock.sleep(next.waitMs, signal)
    if (signal.aborted) return { what: 'halted' }
  }
}

const busyTooLong: ModelFailure = {
  retryable: true,
  why: 'contention',
  afterMs: 0,
  inDoubt: false,
  code: 'model_busy',
  message: 'the provider was busy for too long',
  unbilled: true,
  busy: true,
}

/** Undefined: called off, or not let in for this long. */
async function acquirePermit({ clock, limiter, signal }: ModelCall, waitMs: number): Promise<Permit | undefined> {
  const enough = new AbortController()
  const within = new AbortController()
  const callOff = () => enough.abort()
  signal.addEventListener('abort', callOff, { once: true })
  if (signal.aborted) callOff()
  const timer = clock.sleep(Math.min(Math.max(0, waitMs), waitMaxMs), within.signal).then(() => {
    if (!within.signal.aborted) callOff()
  })
  try {
    return await limiter.acquire(enough.signal)
  } finally {
    within.abort()
    signal.removeEventListener('abort', callOff)
    await timer
  }
}

// The longest that a timer can be set for.
const waitMaxMs = 2_147_483_647

// What a card holds with room to spare. A model that writes more has lost its way.
const answerMaxChars = 200_000
const callsMax = 100

/** One try. What it throws is a value here: only the caller knows whether it was called off. */
async function once(
  model: Model,
  request: ModelRequest,
  asking: ModelCall,
): Promise<{ readonly answer: ModelResponse } | { readonly error: unknown }> {
  const { clock, timeouts: times, signal } = asking
  const stop = new AbortController()
  const settled = new AbortController()
  const callOff = () => stop.abort(signal.reason)
  signal.addEventListener('abort', callOff, { once: true })
  if (signal.aborted) callOff()
  const stopped = new Promise<{ readonly error: unknown }>((resolve) => {
    const tell = () => resolve({ error: stop.signal.reason as unknown })
    if (stop.signal.aborted) tell()
    else stop.signal.addEventListener('abort', tell, { once: true })
  })
  const endMs = clock.monotonicMs() + times.totalMs
  let dueMs = clock.monotonicMs() + times.firstMs
  const alive = () => {
    dueMs = clock.monotonicMs() + times.stallMs
  }

  async function watch(): Promise<void> {
    for (;;) {
      const nowMs = clock.monotonicMs()
      if (settled.signal.aborted || stop.signal.aborted) return
      if (nowMs >= Math.min(dueMs, endMs)) {
        const why = nowMs >= endMs ? `took longer than ${times.totalMs} ms` : 'said nothing for too long'
        return stop.abort(new Retryable(`the model ${why}`, { code: 'timeout' }))
      }
      // The first part brings the deadline nearer: no nap may be longer than the shorter of the two.
      await clock.sleep(Math.min(Math.min(dueMs, endMs) - nowMs, times.stallMs), settled.signal)
    }
  }

  const watching = watch()
  try {
    const reading = read(model.stream(request, stop.signal), asking, alive)
    // Only one of the two is awaited; a provider that does not heed the signal is no longer waited for.
    return await Promise.race([
      reading.then(
        (answer) => ({ answer }),
        (error: unknown) => ({ error }),
      ),
      stopped,
    ])
  } finally {
    settled.abort()
    signal.removeEventListener('abort', callOff)
    // An answer that was cut for its length goes on otherwise, and is paid for.
    if (!stop.signal.aborted) stop.abort(new Retryable('nobody reads any more', { code: 'done' }))
    await watching
  }
}

async function read(parts: AsyncIterable<ModelPart>, asking: ModelCall, alive: () => void): Promise<ModelResponse> {
  let text = ''
  let thought = ''
  let inputChars = 0
  const calls: RawToolCall[] = []
  let finish: FinishReason | undefined
  let usage: TokenUsage | undefined
  for await (const part of parts) {
    alive()
    asking.onPart?.(part)
    switch (part.kind) {
      case 'text':
        text += part.text
        break
      case 'thought':
        thought += part.text
        break
      case 'input':
        inputChars += part.text.length
        break
      case 'call':
        calls.push(part.call)
        break
      case 'finish':
        finish = part.reason
        usage = part.usage
        break
    }
    if (text.length + thought.length + inputChars > answerMaxChars || calls.length > callsMax) {
      return { text: text.slice(0, answerMaxChars), thought, calls: calls.slice(0, callsMax), finish: 'length', usage }
    }
  }
  if (finish === undefined) throw new Retryable('the answer broke off before its end', { code: 'model_stream_cut' })
  return { text, thought, calls, finish, usage }
}
