/**
 * An event stream that reconnects. It resumes after the last event seen; silence longer than three server pings
 * counts as a lost connection; pauses between tries grow to a bound with jitter, so that a thousand tabs do not
 * reconnect at once; after a rejection (401, 403, 404) it retries slowly, because keys and servers change.
 */
import { defined } from '@bellwether/base'
import { headersFor, Problem, problemOf } from '../api/client.js'
import { session } from '../api/session.js'
import { clock } from '../ports/clock.js'
import { random } from '../ports/random.js'
import type { Message } from './sse.js'

export type LinkState =
  | { readonly is: 'connecting' }
  | { readonly is: 'live' }
  | { readonly is: 'lost'; readonly why: string; readonly retryAtMs: number }
  | { readonly is: 'asleep' }

export interface StreamOptions {
  readonly url: string
  readonly onMessages: (messages: readonly Message[]) => void
  readonly onState: (state: LinkState) => void
  /** A message or ping arrived. */
  readonly onActivity: () => void
}

export interface Stream {
  /** Reconnects at once. */
  retry(): void
  /** Releases the connection while the tab is hidden: a browser has six per server for all its tabs. */
  sleep(): void
  wake(): void
  stop(): void
}

// The server pings every 15 s.
const silenceMs = 45_000
const pause = { firstMs: 500, mostMs: 15_000, refusedMs: 15_000 } as const

export function pauseMs(failures: number, fraction: number): number {
  const full = Math.min(pause.mostMs, pause.firstMs * 2 ** Math.min(failures, 10))
  return Math.round(full * (0.6 + 0.4 * fraction))
}

export function openStream({ url, onMessages, onState, onActivity }: StreamOptions): Stream {
  let last: string | undefined
  let failures = 0
  let over = new AbortController()
  let cancelRetry = () => {}
  let mode: 'on' | 'asleep' | 'stopped' = 'on'

  async function run(signal: AbortSignal, end: () => void): Promise<void> {
    // The parser is not part of the first page: it loads while the server answers.
    const [response, { makeParser }] = await Promise.all([
      fetch(url, {
        credentials: 'same-origin',
        headers: { accept: 'text/event-stream', ...headersFor(), ...defined({ 'last-event-id': last }) },
        signal,
        cache: 'no-store',
      }),
      import('./sse.js'),
    ])
    if (!response.ok || response.body === null) {
      if (response.status === 401) session.refuse()
      throw problemOf(response.status, await response.text())
    }
    failures = 0
    onState({ is: 'live' })
    onActivity()
    const parser = makeParser()
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    let stopWatch = clock.after(silenceMs, end)
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) throw new Problem(0, 'closed', 'The server closed the stream.')
        stopWatch()
        stopWatch = clock.after(silenceMs, end)
        onActivity()
        const messages = parser.push(value)
        last = parser.lastId() ?? last
        if (messages.length > 0) onMessages(messages)
      }
    } finally {
      stopWatch()
    }
  }

  function start(): void {
    cancelRetry()
    over.abort()
    over = new AbortController()
    const ownRun = over
    if (failures === 0) onState({ is: 'connecting' })
    run(ownRun.signal, () => ownRun.abort()).catch((error: unknown) => {
      if (mode !== 'on' || over !== ownRun) return
      ownRun.abort()
      lose(error)
    })
  }

  function lose(error: unknown): void {
    const isRefusal = error instanceof Problem && error.status >= 400 && error.status < 500
    const waitMs = isRefusal ? pause.refusedMs : pauseMs(failures, random.fraction())
    failures += 1
    const why = error instanceof Problem ? error.message : 'The connection was lost.'
    onState({ is: 'lost', why, retryAtMs: clock.nowMs() + waitMs })
    cancelRetry = clock.after(waitMs, start)
  }

  function disconnect(next: 'asleep' | 'stopped'): void {
    mode = next
    cancelRetry()
    over.abort()
  }

  start()
  return {
    retry() {
      if (mode === 'on') start()
    },
    sleep() {
      if (mode !== 'on') return
      disconnect('asleep')
      onState({ is: 'asleep' })
    },
    wake() {
      if (mode !== 'asleep') return
      mode = 'on'
      failures = 0
      start()
    },
    stop: () => disconnect('stopped'),
  }
}
