/** What the watchdogs' words mean, for people: what would have hung, and how it was saved. Pure. */
import { own } from './own.js'

interface Meaning {
  readonly saved: string
  readonly how: string
}

const meanings: Readonly<Record<string, Meaning>> = {
  pending_wakeup: { saved: 'a turn whose bell was not heard', how: 'rang again' },
  dispatched_retry: { saved: 'a turn that no worker had taken', how: 'offered it again' },
  queued_dispatch: { saved: 'a turn that lay in line behind nobody', how: 'gave it to its agent' },
  reclaim: { saved: 'a turn whose worker died or froze', how: 'let another worker go on from its cards' },
  resume_replay: {
    saved: 'a tool result that a worker was about to apply when it died',
    how: 'put it back to be applied once',
  },
  tool_timeout: { saved: 'a turn whose tool never answered', how: 'told the turn that the time is up' },
  reap: { saved: 'a turn that nobody else would have ended', how: 'ended it with a fallback deliverable' },
  pending_skipped: { saved: 'an inbox row that names nobody', how: 'set it aside, with the reason' },
  clock_set_back: { saved: 'turns with signs of life in the future', how: 'took them as of now' },
}

export function meaningOf(kind: string): Meaning {
  return own(meanings, kind) ?? { saved: kind.replaceAll('_', ' '), how: 'says why below' }
}
