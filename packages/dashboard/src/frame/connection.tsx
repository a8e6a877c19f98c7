/** The state of the live connection. It keeps its place and width, so that the layout does not move when it changes. */
import { useQueryClient } from '@tanstack/react-query'
import { oneLine } from '../model/text.js'
import { agoMs, span } from '../model/time.js'
import { useLink } from '../live/live.js'
import { clock } from '../ports/clock.js'
import { Glyph } from '../parts/glyph.js'
import { useNow } from '../parts/time.js'

export function Connection() {
  const { state, seenAtMs, retry } = useLink()
  useNow()
  // A live stream does not make the page current if its queries fail.
  const failing = useQueryClient()
    .getQueryCache()
    .findAll({ type: 'active' })
    .find((query) => query.state.error !== null && query.state.data !== undefined)
  const seen = seenAtMs === undefined ? 'never connected' : `last seen ${agoMs(clock.nowMs() - seenAtMs)}`
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
          title={left > 0 ? `reconnects in ${span(left)}` : ''}
        >
          Reconnect
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
  const words = { connecting: 'Connecting', live: 'Live', asleep: 'Paused' }[state.is]
  return (
    <div
      role="status"
      className={`flex h-7 min-w-16 items-center justify-end gap-1.5 text-sm ${state.is === 'live' ? 'text-go' : 'text-ink-3'}`}
      title={seen}
      data-link={state.is}
    >
      <Glyph shape={state.is === 'live' ? 'disc' : 'ring'} size={10} />
      {/* A long word would move the page's buttons to a second line until the stream is open. */}
      <span className={state.is === 'connecting' ? 'sr-only' : ''}>{words}</span>
      {state.is === 'connecting' && <span aria-hidden="true">…</span>}
    </div>
  )
}
