/** Whether what is shown is live. In its place and of its width whatever it says, so that nothing moves when it changes. */
import { useQueryClient } from '@tanstack/react-query'
import { oneLine } from '../model/text.js'
import { agoMs, span } from '../model/time.js'
import { useLink } from '../live/live.js'
import { clock } from '../ports/clock.js'
import { Glyph } from './glyph.js'
import { useNow } from './time.js'

export function Connection() {
  const { state, seenAtMs, retry } = useLink()
  useNow()
  // Answers that fail while old ones are shown: the stream alone does not make a page true.
  const failing = useQueryClient()
    .getQueryCache()
    .findAll({ type: 'active' })
    .find((query) => query.state.error !== null && query.state.data !== undefined)
  const seen = seenAtMs === undefined ? 'never heard' : `last seen ${agoMs(clock.nowMs() - seenAtMs)}`
  if (state.is === 'lost') {
    const left = state.retryAtMs - clock.nowMs()
    return (
      <div
        role="status"
        className="flex h-7 items-center gap-2 rounded bg-bad-soft px-2 text-sm text-bad"
        title={state.why}
        data-link="lost"
      >
        <Glyph shape="triangle" />
        <span className="whitespace-nowrap">
          Disconnected<span className="hidden sm:inline">, {seen}</span>
        </span>
        <button
          type="button"
          className="font-medium whitespace-nowrap underline"
          onClick={retry}
          title={left > 0 ? `tries by itself in ${span(left)}` : ''}
        >
          Try now
        </button>
      </div>
    )
  }
  if (state.is === 'live' && failing !== undefined)
    return (
      <div
        role="status"
        className="flex h-7 items-center gap-1.5 text-sm text-wait"
        title={oneLine(failing.state.error?.message ?? '', 300)}
        data-link="stale"
      >
        <Glyph shape="triangle" />
        Not up to date
      </div>
    )
  const words = { connecting: 'Connecting…', live: 'Live', asleep: 'Asleep' }[state.is]
  return (
    <div
      role="status"
      className={`flex h-7 items-center gap-1.5 text-sm ${state.is === 'live' ? 'text-go' : 'text-ink-3'}`}
      title={seen}
      data-link={state.is}
    >
      <Glyph shape={state.is === 'live' ? 'disc' : 'ring'} size={10} />
      {words}
    </div>
  )
}
