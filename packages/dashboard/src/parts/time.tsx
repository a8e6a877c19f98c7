/** Running times: one tick per second for the whole page; only components that show a time render again. */
import { useSyncExternalStore } from 'react'
import { serverNowMs } from '../api/client.js'
import { ago, clockTime, countdown, instant, type Urgency } from '../model/time.js'
import { clock } from '../ports/clock.js'

const listeners = new Set<() => void>()
let stop = () => {}
let shownMs = 0

function listen(listener: () => void): () => void {
  if (listeners.size === 0) {
    shownMs = serverNowMs()
    stop = clock.every(1_000, () => {
      shownMs = serverNowMs()
      for (const one of listeners) one()
    })
  }
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) stop()
  }
}

const snapshot = () => (shownMs === 0 ? (shownMs = serverNowMs()) : shownMs)

/** The server's time in whole seconds. */
export const useNow = (): number => useSyncExternalStore(listen, snapshot)

const urgencyClass: Readonly<Record<Urgency, string>> = {
  none: 'text-ink-3',
  calm: 'text-ink-2',
  soon: 'text-wait font-medium',
  late: 'text-bad font-medium',
}

interface CountdownProps {
  readonly until: string | null | undefined
  /** What happens then, such as "due in"; a time that has passed says itself that it is late. */
  readonly lead?: string
}

export function Countdown({ until, lead = '' }: CountdownProps) {
  const now = useNow()
  const { text, urgency } = countdown(until, now)
  return (
    // A new element per text: a right-aligned one that changes its length would count as a layout shift.
    <span
      key={text}
      className={`whitespace-nowrap ${urgencyClass[urgency]}`}
      title={until === null ? undefined : instant(until)}
    >
      {urgency === 'calm' || urgency === 'soon' ? `${lead} ${text}`.trim() : text}
    </span>
  )
}

export function Ago({ at }: { readonly at: string | null | undefined }) {
  const now = useNow()
  return (
    <span className="whitespace-nowrap" title={instant(at)}>
      {ago(at, now)}
    </span>
  )
}

export function At({ at }: { readonly at: string | null | undefined }) {
  return (
    <span className="whitespace-nowrap" title={instant(at)}>
      {clockTime(at, serverNowMs())}
    </span>
  )
}
