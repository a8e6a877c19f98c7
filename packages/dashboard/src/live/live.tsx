/**
 * The page's connection to what happens: opens the project's stream, gathers its events, applies them, and says how the connection
 * stands. Always: at most four updates a second; after a gap that cannot be filled (`reset`) everything is asked for again; a hidden
 * tab gives its connection back.
 */
import { useQueryClient, type QueryClient } from '@tanstack/react-query'
import { createContext, use, useEffect, useMemo, useState, type ReactNode } from 'react'
import type { LiveEvent } from '../api/types.js'
import { clock } from '../ports/clock.js'
import { applyEvents } from './apply.js'
import { gather } from './batch-changes.js'
import type { Message } from './sse.js'
import { openStream, type LinkState, type Stream } from './stream.js'
import { throttle } from './throttle.js'

export interface Link {
  readonly state: LinkState
  /** When something was last heard; undefined: never. */
  readonly seenAtMs: number | undefined
  readonly retry: () => void
}

const renderMs = 250
// Ten seconds of 200 a second, for a tab that was asleep; beyond it asking again is cheaper.
const waitingMax = 2_000
const askAgainMs = 1_000
const hiddenMs = 30_000

const LinkContext = createContext<Link>({ state: { is: 'connecting' }, seenAtMs: undefined, retry: () => {} })

export const useLink = (): Link => use(LinkContext)

export function LiveProvider({ project, children }: { readonly project: string; readonly children: ReactNode }) {
  const client = useQueryClient()
  const [state, setState] = useState<LinkState>({ is: 'connecting' })
  const [seenAtMs, setSeen] = useState<number>()
  const [stream, setStream] = useState<Stream>()

  useEffect(() => {
    const opened = follow(client, project, setState, setSeen)
    setStream(opened.stream)
    return opened.stop
  }, [client, project])

  const link = useMemo(() => ({ state, seenAtMs, retry: () => stream?.retry() }), [state, seenAtMs, stream])
  return <LinkContext value={link}>{children}</LinkContext>
}

function follow(
  client: QueryClient,
  project: string,
  setState: (state: LinkState) => void,
  setSeen: (ms: number) => void,
) {
  const again = throttle(askAgainMs, clock)
  const signs = throttle(askAgainMs, clock)
  const everything = () =>
    again.touch('*', () => void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'me' }))
  const touch = (key: readonly unknown[]) =>
    again.touch(JSON.stringify(key), () => void client.invalidateQueries({ queryKey: key }))
  const gathered = gather<LiveEvent>({
    everyMs: renderMs,
    most: waitingMax,
    clock,
    flush: (events, isCut) => {
      applyEvents(client, project, events, touch)
      if (isCut) everything()
    },
  })
  let wasLost = false
  const stream = openStream({
    path: `/projects/${encodeURIComponent(project)}/events`,
    onSign: () => signs.touch('sign', () => setSeen(clock.nowMs())),
    onState(state) {
      setState(state)
      // Events come after the gap, but not everything is an event.
      if (state.is === 'live' && wasLost) everything()
      wasLost = state.is === 'lost' || (wasLost && state.is !== 'live')
    },
    onMessages(messages) {
      if (messages.some(({ event }) => event === 'reset')) everything()
      gathered.push(messages.flatMap(eventsIn))
    },
  })
  const stopWatch = sleepWhileHidden(stream)
  const stop = () => {
    stopWatch()
    stream.stop()
    gathered.stop()
    again.stop()
    signs.stop()
  }
  return { stream, stop }
}

/** Follows another stream while a page is shown, and asks again when it says anything. */
export function useNews(path: string | undefined, key: readonly unknown[]): void {
  const client = useQueryClient()
  const name = JSON.stringify(key)
  useEffect(() => {
    if (path === undefined) return
    const again = throttle(askAgainMs, clock)
    const queryKey = JSON.parse(name) as unknown[]
    const stream = openStream({
      path,
      onSign: () => {},
      onState: () => {},
      onMessages(messages) {
        if (messages.some(({ event }) => event !== 'hello'))
          again.touch(name, () => void client.invalidateQueries({ queryKey }))
      },
    })
    const stopWatch = sleepWhileHidden(stream)
    return () => {
      stopWatch()
      stream.stop()
      again.stop()
    }
  }, [client, path, name])
}

function sleepWhileHidden(stream: Stream): () => void {
  let cancel = () => {}
  const look = () => {
    cancel()
    if (document.hidden) cancel = clock.after(hiddenMs, () => stream.sleep())
    else stream.wake()
  }
  document.addEventListener('visibilitychange', look)
  return () => {
    cancel()
    document.removeEventListener('visibilitychange', look)
  }
}

const kinds = new Set(['task', 'state', 'step'])

function eventsIn({ event, data }: Message): LiveEvent[] {
  if (!kinds.has(event)) return []
  try {
    const told = JSON.parse(data) as Partial<LiveEvent> | null
    if (typeof told?.payload !== 'object' || told.payload === null) return []
    return [
      {
        kind: event,
        agent_turn_id: told.agent_turn_id ?? null,
        payload: told.payload,
        created_at: told.created_at ?? '',
      },
    ]
  } catch {
    // A message that is no JSON is not ours; what it may have meant is seen by the next look.
    return []
  }
}
