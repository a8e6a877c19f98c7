/**
 * Calls a model: waits for a permit of the account's limiter, enforces timeouts and retries by the policy. `beforeTry` and
 * `afterTry` let the caller reserve and charge a budget per try. A failure is a value with a code. The signal aborts the
 * request.
 */
import { aborted, type Clock, linkAbort, type Log, type Random } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { decideRetry, type RetryPolicy } from '../retry.js'
import { modelFailure, type ModelFailure } from './failure.js'
import type { Limiter, Permit } from './limiter.js'
import type { RawToolCall, FinishReason, Model, ModelResponse, ModelRequest, ModelPart, TokenUsage } from './model.js'

export interface ModelTimeouts {
  /** Until the first part of the response. */
  readonly firstMs: number
  /** Between two parts. */
  readonly stallMs: number
  /** The complete response of one try. */
  readonly totalMs: number
}

export const defaultModelTimeouts: ModelTimeouts = { firstMs: 120_000, stallMs: 60_000, totalMs: 600_000 }

/** Providers request pauses of up to a minute; a longer outage fails the call, and the turn's watchdogs handle it. */
export const modelRetryPolicy: RetryPolicy = {
  maxAttempts: 5,
  backoff: { mode: 'exponential', baseMs: 1_000, multiplier: 2, maxMs: 120_000, jitterPct: 20 },
}

/** The cost of one try: its usage, nothing, or unknown. */
export type Charge = TokenUsage | 'nothing' | 'unknown'

export interface ModelCall {
  readonly clock: Clock
  readonly random: Pick<Random, 'next'>
  readonly log: Log
  readonly limiter: Limiter
  readonly retry: RetryPolicy
  readonly timeouts: ModelTimeouts
  /** How long all tries together wait for a busy provider. */
  readonly busyTimeoutMs: number
  /** A longer pause that the provider asks for ends the call. Default: none does. */
  readonly parkAfterMs?: number | undefined
  readonly signal: AbortSignal
  /** Called before each try; false forbids it. */
  beforeTry(tries: number): Promise<boolean>
  /** Called after each try. */
  afterTry(tries: number, bill: Charge): Promise<void>
  /** Called per part as it arrives, also for a try that later fails. */
  onPart?(part: ModelPart): void
}

export type ModelCallResult =
  | { readonly what: 'answered'; readonly response: ModelResponse; readonly tries: number }
  | { readonly what: 'failed'; readonly failure: ModelFailure; readonly tries: number }
  | { readonly what: 'refused'; readonly tries: number }
  | { readonly what: 'halted' }

export async function callModel(model: Model, request: ModelRequest, call: ModelCall): Promise<ModelCallResult> {
  const { clock, signal, log } = call
  const startedMs = clock.monotonicMs()
  for (let tries = 1; ; tries += 1) {
    const pass = await acquirePermit(call, call.busyTimeoutMs - (clock.monotonicMs() - startedMs))
    if (pass === undefined)
      return signal.aborted ? { what: 'halted' } : { what: 'failed', failure: busyTooLong, tries: tries - 1 }
    let failure: ModelFailure
    let parked: boolean
    try {
      if (!(await call.beforeTry(tries))) {
        pass.release('failed')
        return { what: 'refused', tries: tries - 1 }
      }
      const tried = await tryOnce(model, request, call)
      if (signal.aborted) return { what: 'halted' }
      if ('response' in tried) {
        pass.release('ok')
        await call.afterTry(tries, tried.response.usage ?? 'unknown')
        return { what: 'answered', response: tried.response, tries }
      }
      const raw = modelFailure(tried.error, clock.wallMs())
      failure = { ...raw, message: model.redact?.(raw.message) ?? raw.message }
      parked = isParked(failure, call)
      // The other callers find the account held; they need not wait for the limiter.
      pass.release(failure.busy && !parked ? 'busy' : 'failed', failure.afterMs)
      await call.afterTry(tries, failure.unbilled ? 'nothing' : 'unknown')
    } finally {
      pass.release('failed')
    }
    const next = decideRetry(call.retry, tries, failure, call.random.next())
    if (!next.retry || parked) return { what: 'failed', failure, tries }
    log.warn(
      { model: model.name, tries, code: failure.code, waitMs: next.waitMs, reason: failure.message },
      'model call failed and will be retried',
    )
    // For a busy provider the limiter makes all callers wait.
    if (!failure.busy) await clock.sleep(next.waitMs, signal)
    if (signal.aborted) return { what: 'halted' }
  }
}

/** Whether the account is to be held: the provider asks for a longer pause than a worker waits. */
export const isParked = ({ busy, afterMs }: ModelFailure, { parkAfterMs = Infinity }: Pick<ModelCall, 'parkAfterMs'>) =>
  busy && afterMs > 0 && afterMs >= parkAfterMs

const busyTooLong: ModelFailure = {
  retryable: true,
  why: 'contention',
  afterMs: 0,
  inDoubt: false,
  code: 'model_busy',
  message: 'The provider was busy for too long',
  unbilled: true,
  busy: true,
}

/** Undefined if the signal aborted or no permit was free in time. */
async function acquirePermit({ clock, limiter, signal }: ModelCall, waitMs: number): Promise<Permit | undefined> {
  const wait = linkAbort(signal)
  const settled = new AbortController()
  const timer = clock.sleep(Math.min(Math.max(0, waitMs), waitMaxMs), settled.signal).then(() => {
    if (!settled.signal.aborted) wait.abort()
  })
  try {
    return await limiter.acquire(wait.signal)
  } finally {
    settled.abort()
    wait.release()
    await timer
  }
}

// The longest delay of a timer.
const waitMaxMs = 2_147_483_647

// Fits on a card with room to spare; a longer response is a malfunction of the model.
const responseMaxChars = 200_000
const callsMax = 100

/** One try. Returns errors as values, because only the caller knows whether it was aborted. */
async function tryOnce(
  model: Model,
  request: ModelRequest,
  call: ModelCall,
): Promise<{ readonly response: ModelResponse } | { readonly error: unknown }> {
  const { clock, timeouts: times, signal } = call
  const stop = linkAbort(signal)
  const settled = new AbortController()
  const stopped = aborted(stop.signal).then(() => ({ error: stop.signal.reason as unknown }))
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
        const why = nowMs >= endMs ? `took longer than ${times.totalMs} ms` : 'sent nothing for too long'
        return stop.abort(new Retryable(`The model ${why}`, { code: 'timeout' }))
      }
      // The first part shortens the deadline, so no sleep is longer than stallMs.
      await clock.sleep(Math.min(Math.min(dueMs, endMs) - nowMs, times.stallMs), settled.signal)
    }
  }

  const watching = watch()
  try {
    const reading = read(model.stream(request, stop.signal), call, alive)
    // A provider that ignores the signal is abandoned.
    return await Promise.race([
      reading.then(
        (response) => ({ response }),
        (error: unknown) => ({ error }),
      ),
      stopped,
    ])
  } finally {
    settled.abort()
    // A response that was cut at its length limit would continue and be billed.
    if (!stop.signal.aborted) stop.abort(new Retryable('The response is no longer read', { code: 'done' }))
    await watching
  }
}

async function read(parts: AsyncIterable<ModelPart>, call: ModelCall, alive: () => void): Promise<ModelResponse> {
  let text = ''
  let thought = ''
  let inputChars = 0
  const calls: RawToolCall[] = []
  let finish: FinishReason | undefined
  let usage: TokenUsage | undefined
  for await (const part of parts) {
    alive()
    call.onPart?.(part)
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
    if (text.length + thought.length + inputChars > responseMaxChars || calls.length > callsMax) {
      return {
        text: text.slice(0, responseMaxChars),
        thought,
        calls: calls.slice(0, callsMax),
        finish: 'length',
        usage,
      }
    }
  }
  if (finish === undefined)
    throw new Retryable('The response ended before it was complete', { code: 'model_stream_cut' })
  return { text, thought, calls, finish, usage }
}
