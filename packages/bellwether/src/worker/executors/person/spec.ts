/**
 * What a file says of an agent that is people: who is asked, how long each has, and what becomes of a question that nobody answers.
 * Pure. Always: all of them together fit into the turn, so that the last one's silence is still told by the turn itself.
 */
export interface PersonSpec {
  readonly instructions: string
  /** Asked one after the other; absent: whoever answers. */
  readonly people?: readonly string[] | undefined
  /** The answers there are, when only these will do. */
  readonly choices?: readonly string[] | undefined
  /** How long each person has. */
  readonly answer_within_seconds?: number | undefined
  /** `agent NAME`, who answers in their place, or `fail`; absent: `fail`. */
  readonly fallback?: string | undefined
}

export const anyone = 'anyone'
const daySeconds = 86_400
/** What a fallback agent gets for its answer. */
export const fallbackSeconds = 3_600
// A watchdog that has just come back lets up to five minutes pass under its eyes before it believes a silence (W2.10).
const watchdogSeconds = 300
const fallbackPattern = /^agent ([a-z0-9_-]{1,120})$/

export const peopleOf = ({ people }: Pick<PersonSpec, 'people'>) =>
  people === undefined || people.length === 0 ? [anyone] : people
export const withinSeconds = (spec: Pick<PersonSpec, 'answer_within_seconds'>) =>
  spec.answer_within_seconds ?? daySeconds
export const isFallback = (text: string) => text === 'fail' || fallbackPattern.test(text)
export const fallbackAgent = ({ fallback }: Pick<PersonSpec, 'fallback'>) => fallbackPattern.exec(fallback ?? '')?.[1]

/** What all of them may take, one after the other. */
export function askingSeconds(spec: Omit<PersonSpec, 'instructions'>): number {
  return new Set(peopleOf(spec)).size * withinSeconds(spec) + (fallbackAgent(spec) === undefined ? 0 : fallbackSeconds)
}

/** The turn deadline that leaves room for everybody, and for saying that it was of no use. */
export function roomySeconds(spec: Omit<PersonSpec, 'instructions'>): number {
  return askingSeconds(spec) + (peopleOf(spec).length + 1) * watchdogSeconds
}
