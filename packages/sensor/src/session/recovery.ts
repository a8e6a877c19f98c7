/**
 * The recovery table: what follows each kind of failure. Pure. Only a request to stop ends a sensor. Pauses grow from 5 s to
 * 60 s; from the fifth consecutive failure on the failure is persistent, logged as critical, and retried every 60 s.
 */
import { errorMessage } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'

/** The server ended this session; the sensor must create another one. */
export class SessionObsolete extends Retryable {
  constructor(message: string) {
    super(message, { code: 'session_obsolete' })
  }
}

/** The server, or a proxy before it, accepts only smaller requests. */
export class BatchTooLarge extends Terminal {
  constructor(message: string) {
    super(message, { code: 'batch_too_large' })
  }
}

export type FailureKind = 'session_obsolete' | 'cancelled' | 'task_crash' | 'runtime_error'

export interface Failure {
  readonly kind: FailureKind
  /** The sensor was asked to stop. */
  readonly stopping: boolean
  /** The number of consecutive failures, including this one. */
  readonly consecutive: number
}

export interface Recovery {
  readonly next: 'end' | 'continue' | 'retry'
  readonly pauseMs: number
  readonly isCritical: boolean
}

export const pauseMinMs = 5_000
export const pauseMaxMs = 60_000
export const persistentAt = 5

type Rule = (failure: Failure) => Recovery

const atOnce = (next: Recovery['next']): Recovery => ({ next, pauseMs: 0, isCritical: false })

function backOff({ consecutive }: Failure): Recovery {
  const isCritical = consecutive >= persistentAt
  const pauseMs = isCritical ? pauseMaxMs : Math.min(pauseMaxMs, pauseMinMs * 2 ** Math.max(0, consecutive - 1))
  return { next: 'retry', pauseMs, isCritical }
}

/** V1.6 and V5.2. */
const table: Readonly<Record<FailureKind, Rule>> = {
  session_obsolete: () => atOnce('retry'),
  cancelled: ({ stopping }) => atOnce(stopping ? 'end' : 'continue'),
  task_crash: backOff,
  runtime_error: backOff,
}

export function recoveryFor(failure: Failure): Recovery {
  if (failure.stopping && failure.kind !== 'cancelled') return atOnce('end')
  return table[failure.kind](failure)
}

export function failureKind(error: unknown, inTask: boolean): FailureKind {
  if (error instanceof SessionObsolete) return 'session_obsolete'
  if (error instanceof Error && error.name === 'AbortError') return 'cancelled'
  return inTask ? 'task_crash' : 'runtime_error'
}

export const shortMessage = (error: unknown): string => errorMessage(error).slice(0, 500)
