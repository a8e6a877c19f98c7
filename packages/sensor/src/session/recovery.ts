/**
 * What happens after a failure: one table. Pure. Always: nothing leads to an exit but a wish to stop; waits grow from
 * 5 s to 60 s; from the fifth failure in a row on it is called persistent, said loudly, and tried at the longest pause
 * for ever.
 */
import { errorMessage } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'

/** The server ended this session: another one must be made. */
export class SessionObsolete extends Retryable {
  constructor(message: string) {
    super(message, { code: 'session_obsolete' })
  }
}

export type FailureKind = 'session_obsolete' | 'cancelled' | 'task_crash' | 'runtime_error'

export interface Failure {
  readonly kind: FailureKind
  /** Somebody asked the sensor to stop. */
  readonly stopping: boolean
  /** This failure and those right before it. */
  readonly consecutive: number
}

export interface Recovery {
  /** end: leave; go_on: as if nothing had happened; retry: once more, after the pause. */
  readonly next: 'end' | 'go_on' | 'retry'
  readonly pauseMs: number
  readonly isCritical: boolean
}

export const pauseMinMs = 5_000
export const pauseMaxMs = 60_000
export const persistentAt = 5

type Rule = (failure: Failure) => Recovery

const at = (next: Recovery['next'], pauseMs = 0): Recovery => ({ next, pauseMs, isCritical: false })

function backOff({ consecutive }: Failure): Recovery {
  const isCritical = consecutive >= persistentAt
  const pauseMs = isCritical ? pauseMaxMs : Math.min(pauseMaxMs, pauseMinMs * 2 ** Math.max(0, consecutive - 1))
  return { next: 'retry', pauseMs, isCritical }
}

/** V1.6 and V5.2, at one glance. */
const table: Readonly<Record<FailureKind, Rule>> = {
  session_obsolete: () => at('retry'),
  cancelled: ({ stopping }) => at(stopping ? 'end' : 'go_on'),
  task_crash: backOff,
  runtime_error: backOff,
}

export function recoveryFor(failure: Failure): Recovery {
  if (failure.stopping && failure.kind !== 'cancelled') return at('end')
  return table[failure.kind](failure)
}

export function kindOf(error: unknown, inTask: boolean): FailureKind {
  if (error instanceof SessionObsolete) return 'session_obsolete'
  if (error instanceof Error && error.name === 'AbortError') return 'cancelled'
  return inTask ? 'task_crash' : 'runtime_error'
}

export const textOf = (error: unknown): string => errorMessage(error).slice(0, 500)
