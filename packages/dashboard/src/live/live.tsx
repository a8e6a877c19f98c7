/**
 * The page's live connection: opens the project's event stream, batches and applies its events, and exposes the
 * connection state. At most four updates per second; after a gap that cannot be filled (`reset`) everything is
 * refetched; a hidden tab releases its connection.
 */
import { isObject, objectOf, parseJson } from '@bellwether/base'
import { useQueryClient, type QueryClient } from '@tanstack/react-query'
import { createContext, use, useEffect, useMemo, useState, type ReactNode } from 'react'
import { urlOf } from '../api/client.js'
import type { LiveEvent } from '../api/types.js'
import { clock } from '../ports/clock.js'
import { applyEvents } from './apply.js'
import { batchChanges } from './batch-changes.js'
import type { Message } from './sse.js'
import { openStream, type LinkState, type Stream } from './stream.js'
import { throttle } from './throttle.js'

export interface Link {
  readonly state: LinkState
  /** When the last message or ping arrived. */
  readonly seenAtMs: number | undefined
  readonly retry: () => void
}

const renderMs = 250
// Ten seconds at 200 events/s, for a tab that was suspended; beyond that a refetch is cheaper.
const waitingMax = 2_000
const refetchMs = 1_000
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
  const again = throttle(refetchMs, clock)
  const signs = throttle(refetchMs, clock)
  const everything = () =>
    again.touch('*', () => void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'me' }))
  const touch = (key: readonly unknown[]) =>
    again.touch(JSON.stringify(key), () => void client.invalidateQueries({ queryKey: key }))
  const batched = batchChanges<LiveEvent>({
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
    url: urlOf('GET /projects/:project/events', { project }),
    onActivity: () => signs.touch('sign', () => setSeen(clock.nowMs())),
    onState(state) {
      setState(state)
      // The stream replays events after the gap, but not every change is an event.
      if (state.is === 'live' && wasLost) everything()
      wasLost = state.is === 'lost' || (wasLost && state.is !== 'live')
    },
    onMessages(messages) {
      if (messages.some(({ event }) => event === 'reset')) everything()
      batched.push(messages.flatMap(eventsIn))
    },
  })
  const stopWatch = sleepWhileHidden(stream)
  const stop = () => {
    stopWatch()
    stream.stop()
    batched.stop()
    again.stop()
    signs.stop()
  }
  return { stream, stop }
}

/** Follows another stream while a page is shown and refetches the query when a message arrives. */
export function useStream(url: string | undefined, key: readonly unknown[]): void {
  const client = useQueryClient()
  const name = JSON.stringify(key)
  useEffect(() => {
    if (url === undefined) return
    const again = throttle(refetchMs, clock)
    const queryKey = JSON.parse(name) as unknown[]
    const stream = openStream({
      url,
      onActivity: () => {},
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
  }, [client, url, name])
}

/** Releases the connection while the tab is hidden; the returned function stops that. */
export function sleepWhileHidden(stream: Stream): () => void {
  let cancel = () => {}
  const update = () => {
    cancel()
    if (document.hidden) cancel = clock.after(hiddenMs, () => stream.sleep())
    else stream.wake()
  }
  document.addEventListener('visibilitychange', update)
  return () => {
    cancel()
    document.removeEventListener('visibilitychange', update)
  }
}

const kinds = ['task', 'state', 'step'] as const

function eventsIn({ event, data }: Message): LiveEvent[] {
  const kind = kinds.find((one) => one === event)
  if (kind === undefined) return []
  const { payload, agent_turn_id = null, created_at = '' } = objectOf(parseJson(data)) as Partial<LiveEvent>
  return isObject(payload) ? [{ kind, agent_turn_id, payload, created_at }] : []
}
