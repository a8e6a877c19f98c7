/** Explains the kinds of watchdog interventions: what was found and what the watchdog did. Pure. */
import { own } from './own.js'

interface Meaning {
  readonly found: string
  readonly how: string
}

const meanings: Readonly<Record<string, Meaning>> = {
  pending_wakeup: { found: 'a pending turn that no worker claimed', how: 'rang again' },
  dispatched_retry: { found: 'a leased turn that no worker started', how: 'rang again' },
  queued_dispatch: { found: 'a queued turn of an idle agent', how: 'leased it' },
  reclaim: { found: 'a turn whose worker died or froze', how: 'another worker continues from its cards' },
  worker_blocked: { found: 'agent code that blocks its worker', how: 'kept the turn alive' },
  resume_replay: {
    found: 'a tool result that a worker was about to apply when it died',
    how: 'scheduled it to be applied once',
  },
  tool_timeout: { found: 'a turn whose tool never answered', how: 'wrote a timeout result' },
  reap: { found: 'a turn that could not end otherwise', how: 'ended it with a fallback deliverable' },
  pending_skipped: { found: 'an inbox row without a known agent', how: 'marked it as skipped, with the reason' },
  clock_set_back: { found: 'heartbeats in the future', how: 'set them to the current time' },
}

export function meaningOf(kind: string): Meaning {
  return own(meanings, kind) ?? { found: kind.replaceAll('_', ' '), how: 'see the reason' }
}
