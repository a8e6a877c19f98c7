/**
 * Every status word of the wire with its colour, its shape and what it means: the only place in the dashboard that knows them. A
 * word that nobody knows is shown as it is, in grey. Colours never speak alone: the shape and the word stand beside them.
 */
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

export interface Look {
  readonly tone: Tone
  readonly shape: Shape
  readonly word: string
  readonly means: string
}

type Known = Omit<Look, 'word'> & { readonly word?: string }
const look = (tone: Tone, shape: Shape, means: string, word?: string): Known => ({
  tone,
  shape,
  means,
  ...(word === undefined ? {} : { word }),
})

/** By the word of the wire; another word is told only where people would stumble over it. */
const looks: Readonly<Record<string, Known>> = {
  // Heads of agents, and turns that are under way.
  idle: look('rest', 'ring', 'has no turn'),
  dispatched: look('start', 'arrow', 'was given a turn; a worker has to take it'),
  running: look('go', 'disc', 'a worker is at it'),
  suspended: look('wait', 'half', 'waits for tools or people; costs nothing meanwhile'),
  queued: look('rest', 'dots', 'in line behind another turn of its agent'),
  pending: look('rest', 'dots', 'not begun'),
  processing: look('go', 'disc', 'a worker is at it'),
  retired: look('rest', 'slash', 'takes no more turns'),
  // How turns end.
  success: look('done', 'check', 'ended with a deliverable'),
  failed: look('bad', 'cross', 'ended without what was asked for'),
  timeout: look('bad', 'clock', 'ended because its time was up'),
  canceled: look('rest', 'slash', 'a person stopped it'),
  cancelled: look('rest', 'slash', 'a person stopped it', 'canceled'),
  // Tasks of the board.
  claimed: look('start', 'arrow', 'somebody is about to start it'),
  in_progress: look('go', 'disc', 'somebody is at it', 'in progress'),
  review: look('person', 'eye', 'waits for a person to look at it'),
  blocked: look('wait', 'half', 'cannot go on by itself, or waits to be tried again'),
  done: look('done', 'check', 'checked and finished'),
  // Waits for tools.
  waiting: look('wait', 'half', 'no answer yet'),
  received: look('start', 'arrow', 'the answer is there'),
  applied: look('done', 'check', 'the turn went on with it'),
  expired: look('bad', 'clock', 'no answer came in time; the turn was told so'),
  dropped: look('rest', 'slash', 'nobody waits for it any more'),
  // Health.
  ok: look('done', 'check', 'works'),
  degraded: look('wait', 'triangle', 'works in part'),
  // Processes that are kept alive.
  ready: look('done', 'check', 'works'),
  starting: look('start', 'arrow', 'is being started'),
  restarting: look('wait', 'half', 'ended, and is started again in a moment'),
  quarantined: look('bad', 'cross', 'fails again and again: it is tried ever more rarely'),
  stopped: look('rest', 'slash', 'was told to stop'),
  // The dashboard's own words.
  stuck: look('bad', 'triangle', 'past its deadline, or silent for too long'),
  needs_you: look('person', 'hand', 'waits for a person', 'needs you'),
}

export function lookOf(word: string): Look {
  return { word, ...(own(looks, word) ?? look('rest', 'ring', 'a word that this dashboard does not know')) }
}

interface Rest {
  readonly isAtRest: boolean
  readonly isBeating: boolean
  readonly isWaiting: boolean
}

// By the head's status: whether it has a turn, whether a worker must show signs of life, whether it waits for answers.
const heads: Readonly<Record<string, Rest>> = {
  idle: { isAtRest: true, isBeating: false, isWaiting: false },
  dispatched: { isAtRest: false, isBeating: false, isWaiting: false },
  running: { isAtRest: false, isBeating: true, isWaiting: false },
  suspended: { isAtRest: false, isBeating: false, isWaiting: true },
}

export const headOf = (status: string): Rest =>
  own(heads, status) ?? { isAtRest: false, isBeating: false, isWaiting: false }

export const headWords: readonly string[] = Object.keys(heads)
/** The word of an agent that has no turn. */
export const restWord: string = headWords.find((word) => headOf(word).isAtRest) ?? ''

/** What the list of turns may be filtered by, in the order of a turn's life. */
export const turnFilters: readonly string[] = [
  'queued',
  ...headWords.filter((word) => word !== restWord),
  'success',
  'failed',
  'timeout',
  'canceled',
]

export const boardColumns = ['pending', 'claimed', 'in_progress', 'review', 'blocked', 'failed', 'done'] as const
