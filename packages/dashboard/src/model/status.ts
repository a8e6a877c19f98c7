/**
 * Every status of the API with its colour, shape and meaning: the only place in the dashboard that knows them. An
 * unknown status is shown as it is, in grey. Colour is never the only signal: shape and word accompany it.
 */
import type { HeadStatus, TaskStatus, TurnStatus } from '@bellwether/protocol'
import { own } from './own.js'

export type Tone = 'go' | 'wait' | 'start' | 'rest' | 'bad' | 'person' | 'done'
export type Shape =
  | 'disc'
  | 'half'
  | 'arrow'
  | 'ring'
  | 'dots'
  | 'check'
  | 'cross'
  | 'clock'
  | 'slash'
  | 'hand'
  | 'triangle'
  | 'eye'

export interface Appearance {
  readonly tone: Tone
  readonly shape: Shape
  readonly word: string
  readonly means: string
}

type Known = Omit<Appearance, 'word'> & { readonly word?: string }
const look = (tone: Tone, shape: Shape, means: string, word?: string): Known => ({
  tone,
  shape,
  means,
  ...(word === undefined ? {} : { word }),
})

/** By API status; `word` replaces it only where the API's word would confuse people. */
const looks: Readonly<Record<string, Known>> = {
  // Heads of agents, and active turns.
  idle: look('rest', 'ring', 'has no turn'),
  dispatched: look('start', 'arrow', 'leased a turn; no worker has claimed it yet'),
  running: look('go', 'disc', 'a worker is running it'),
  suspended: look('wait', 'half', 'waits for tools or people without using a worker'),
  queued: look('rest', 'dots', 'waits for another turn of its agent'),
  pending: look('rest', 'dots', 'not started'),
  processing: look('go', 'disc', 'a worker is running it'),
  retired: look('rest', 'slash', 'accepts no more turns'),
  // How turns end.
  success: look('done', 'check', 'ended with a deliverable'),
  failed: look('bad', 'cross', 'ended without the requested result'),
  timeout: look('bad', 'clock', 'ended because its time ran out'),
  canceled: look('rest', 'slash', 'a person stopped it'),
  cancelled: look('rest', 'slash', 'a person stopped it', 'canceled'),
  // Tasks of the board.
  claimed: look('start', 'arrow', 'about to start'),
  in_progress: look('go', 'disc', 'an agent or person is working on it', 'in progress'),
  review: look('person', 'eye', 'waits for a person to review it'),
  blocked: look('wait', 'half', 'needs a person, or waits for its next attempt'),
  done: look('done', 'check', 'finished and checked'),
  // Waits for tools.
  waiting: look('wait', 'half', 'no answer yet'),
  received: look('start', 'arrow', 'the result has arrived'),
  applied: look('done', 'check', 'the turn has used the result'),
  expired: look('bad', 'clock', 'no result arrived in time; the turn received a timeout'),
  dropped: look('rest', 'slash', 'no turn waits for it any more'),
  // Health.
  ok: look('done', 'check', 'works'),
  degraded: look('wait', 'triangle', 'works partly'),
  // Supervised processes.
  ready: look('done', 'check', 'works'),
  starting: look('start', 'arrow', 'starting'),
  restarting: look('wait', 'half', 'ended; restarts in a moment'),
  quarantined: look('bad', 'cross', 'keeps failing; restarts are paused'),
  stopped: look('rest', 'slash', 'stopped on request'),
  // The dashboard's own words.
  stuck: look('bad', 'triangle', 'past its deadline, or silent for too long'),
  needs_you: look('person', 'hand', 'waits for a person', 'needs you'),
}

export function appearanceOf(word: string): Appearance {
  return { word, ...(own(looks, word) ?? look('rest', 'ring', 'a status that this dashboard does not know')) }
}

interface Rest {
  readonly isAtRest: boolean
  readonly isBeating: boolean
  readonly isWaiting: boolean
}

// Per head status: whether the agent has a turn, whether its worker must beat, whether it waits for results.
const heads: Readonly<Record<HeadStatus, Rest>> = {
  idle: { isAtRest: true, isBeating: false, isWaiting: false },
  dispatched: { isAtRest: false, isBeating: false, isWaiting: false },
  running: { isAtRest: false, isBeating: true, isWaiting: false },
  suspended: { isAtRest: false, isBeating: false, isWaiting: true },
}

export const headOf = (status: string): Rest =>
  own<Rest>(heads, status) ?? { isAtRest: false, isBeating: false, isWaiting: false }

export const headWords: readonly string[] = Object.keys(heads)
/** The status of an agent without a turn. */
export const restWord: string = headWords.find((word) => headOf(word).isAtRest) ?? ''

/** Filters of the turn list, in the order of a turn's life. */
export const turnFilters: readonly TurnStatus[] = [
  'queued',
  'dispatched',
  'running',
  'suspended',
  'success',
  'failed',
  'timeout',
  'canceled',
]

export const boardColumns: readonly TaskStatus[] = [
  'pending',
  'claimed',
  'in_progress',
  'review',
  'blocked',
  'failed',
  'done',
]
