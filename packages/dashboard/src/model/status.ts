/**
 * Every status of the API with its colour, shape and meaning: the only place in the dashboard that knows them. An
 * unknown status is shown as it is, in grey. Colour is never the only signal: shape and word accompany it.
 */
import { defined } from '@bellwether/base'
import type { HeadStatus, TaskStatus } from '@bellwether/protocol'
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
const appearance = (tone: Tone, shape: Shape, means: string, word?: string): Known => ({
  tone,
  shape,
  means,
  ...defined({ word }),
})

/** By API status; `word` replaces it only where the API's word would confuse people. */
const appearances: Readonly<Record<string, Known>> = {
  // Heads of agents, and active turns.
  idle: appearance('rest', 'ring', 'has no turn'),
  dispatched: appearance('start', 'arrow', 'leased a turn; no worker has claimed it yet'),
  running: appearance('go', 'disc', 'a worker is running it'),
  suspended: appearance('wait', 'half', 'waits for tools or people without using a worker'),
  queued: appearance('rest', 'dots', 'waits for another turn of its agent'),
  pending: appearance('rest', 'dots', 'not started'),
  processing: appearance('go', 'disc', 'a worker is running it'),
  retired: appearance('rest', 'slash', 'accepts no more turns'),
  // How turns end.
  success: appearance('done', 'check', 'ended with a deliverable'),
  failed: appearance('bad', 'cross', 'ended without the requested result'),
  timeout: appearance('bad', 'clock', 'ended because its time ran out'),
  canceled: appearance('rest', 'slash', 'a person stopped it'),
  cancelled: appearance('rest', 'slash', 'a person stopped it', 'canceled'),
  // Tasks of the board.
  claimed: appearance('start', 'arrow', 'about to start'),
  in_progress: appearance('go', 'disc', 'an agent or person is working on it', 'in progress'),
  review: appearance('person', 'eye', 'waits for a person to review it'),
  blocked: appearance('wait', 'half', 'needs a person, or waits for its next attempt'),
  done: appearance('done', 'check', 'finished and checked'),
  // Waits for tools.
  waiting: appearance('wait', 'half', 'no answer yet'),
  received: appearance('start', 'arrow', 'the result has arrived'),
  applied: appearance('done', 'check', 'the turn has used the result'),
  expired: appearance('bad', 'clock', 'no result arrived in time; the turn received a timeout'),
  dropped: appearance('rest', 'slash', 'no turn waits for it any more'),
  // Health.
  ok: appearance('done', 'check', 'works'),
  degraded: appearance('wait', 'triangle', 'works partly'),
  // Supervised processes.
  ready: appearance('done', 'check', 'works'),
  starting: appearance('start', 'arrow', 'starting'),
  restarting: appearance('wait', 'half', 'ended; restarts in a moment'),
  quarantined: appearance('bad', 'cross', 'keeps failing; restarts are paused'),
  stopped: appearance('rest', 'slash', 'stopped on request'),
  // The dashboard's own words.
  stuck: appearance('bad', 'triangle', 'past its deadline, or silent for too long'),
  needs_you: appearance('person', 'hand', 'waits for a person', 'needs you'),
}

export function appearanceOf(word: string): Appearance {
  return {
    word,
    ...(own(appearances, word) ?? appearance('rest', 'ring', 'a status that this dashboard does not know')),
  }
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

export const boardColumns: readonly TaskStatus[] = [
  'pending',
  'claimed',
  'in_progress',
  'review',
  'blocked',
  'failed',
  'done',
]
