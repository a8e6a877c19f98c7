/**
 * The settings of a `person` agent: who is asked, how long each person has, and what happens if none of them answers. Pure. All
 * waits together fit into the turn, so that the turn itself can report that there was no answer.
 */
export interface PersonSpec {
  readonly instructions: string
  /** Asked one after the other. Absent: anyone may answer. */
  readonly people?: readonly string[] | undefined
  /** The only accepted answers. */
  readonly choices?: readonly string[] | undefined
  /** How long each person has. */
  readonly answer_within_seconds?: number | undefined
  /** `agent NAME`, which answers in their place, or `fail` (default). */
  readonly fallback?: string | undefined
}

export const anyone = 'anyone'
const daySeconds = 86_400
/** The time that a fallback agent has for its answer. */
export const fallbackSeconds = 3_600
// A watchdog that has just started waits up to five minutes before it expires a wait (W2.10).
const watchdogSeconds = 300
const fallbackPattern = /^agent ([a-z0-9_-]{1,120})$/

export const peopleOf = ({ people }: Pick<PersonSpec, 'people'>) =>
  people === undefined || people.length === 0 ? [anyone] : people
export const withinSeconds = (spec: Pick<PersonSpec, 'answer_within_seconds'>) =>
  spec.answer_within_seconds ?? daySeconds
export const isFallback = (text: string) => text === 'fail' || fallbackPattern.test(text)
export const fallbackAgent = ({ fallback }: Pick<PersonSpec, 'fallback'>) => fallbackPattern.exec(fallback ?? '')?.[1]

/** The time that asking everyone, one after the other, may take. */
export function askingSeconds(spec: Omit<PersonSpec, 'instructions'>): number {
  return new Set(peopleOf(spec)).size * withinSeconds(spec) + (fallbackAgent(spec) === undefined ? 0 : fallbackSeconds)
}

/** A turn deadline that leaves time for everyone, and for the turn to report that there was no answer. */
export function defaultDeadlineSeconds(spec: Omit<PersonSpec, 'instructions'>): number {
  return askingSeconds(spec) + (peopleOf(spec).length + 1) * watchdogSeconds
}
