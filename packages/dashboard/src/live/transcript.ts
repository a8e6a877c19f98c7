/**
 * Reads the transcript of a turn: the newest page first, older and newer ones on request, and while the turn runs every new entry from
 * its stream, at most four updates per second. The stream stays open until the server has sent the last entry, also if the page knows earlier that the
 * turn has ended.
 */
import { parseJson } from '@bellwether/base'
import { useCallback, useEffect, useReducer, useState } from 'react'
import { ask, Problem, urlOf } from '../api/client.js'
import type { TranscriptEntry } from '../api/types.js'
import { changeWindow, type TranscriptPage, type TranscriptWindow, type WindowChange } from '../model/transcript.js'
import { clock } from '../ports/clock.js'
import { batchChanges } from './batch-changes.js'
import { sleepWhileHidden } from './live.js'
import type { Message } from './sse.js'
import { openStream, type LinkState } from './stream.js'

export interface TranscriptReading {
  /** Undefined until the first page has arrived. */
  readonly shown: TranscriptWindow | undefined
  /** The last read failed. */
  readonly error: Error | null
  readonly isReading: boolean
  /** Of the stream; undefined if there is none. */
  readonly link: LinkState['is'] | undefined
  readonly read: (part: 'newest' | 'earlier' | 'newer') => void
}

const pageSize = 200
const renderMs = 250
// Beyond that, reading the newest page is cheaper.
const waitingMax = 2_000
const end = 2_147_483_647

const reduce = (before: TranscriptWindow | undefined, change: WindowChange) => changeWindow(before, change)

export function useTranscript(project: string, turn: string, isRunning: boolean): TranscriptReading {
  const [shown, change] = useReducer(reduce, undefined)
  const [error, setError] = useState<Error | null>(null)
  const [isReading, setReading] = useState(false)
  const [link, setLink] = useState<LinkState['is']>()
  // A turn that ends while it is shown is followed to its last entry.
  const [isFollowed] = useState(isRunning)

  const load = useCallback(
    async (is: 'newest' | 'earlier' | 'newer', query: { before?: number; after?: number }, signal?: AbortSignal) => {
      setReading(true)
      try {
        const page: TranscriptPage = await ask('GET /projects/:project/turns/:turn/transcript', {
          params: { project, turn },
          query: { ...query, limit: pageSize },
          signal,
          expects: 'entries',
        })
        change({ is, page })
        setError(null)
      } catch (failure) {
        if (signal?.aborted !== true) setError(failure instanceof Error ? failure : new Problem(0, 'failed', 'failed'))
      } finally {
        if (signal?.aborted !== true) setReading(false)
      }
    },
    [project, turn],
  )

  useEffect(() => {
    const over = new AbortController()
    void load('newest', { before: end }, over.signal)
    return () => over.abort()
  }, [load])

  const isRead = shown !== undefined
  const isOver = shown?.isOver ?? false
  const first = shown?.latest ?? 0
  const [after, setAfter] = useState<number>()
  if (isFollowed && isRead && after === undefined) setAfter(first)
  const url =
    after === undefined || isOver
      ? undefined
      : urlOf('GET /projects/:project/turns/:turn/transcript/events', { project, turn }, { after })
  useEffect(() => {
    if (url === undefined) return
    const batched = batchChanges<TranscriptEntry | 'end'>({
      everyMs: renderMs,
      most: waitingMax,
      clock,
      flush(items, isCut) {
        if (isCut) void load('newest', { before: end })
        else change({ is: 'live', entries: items.filter((item) => item !== 'end') })
        if (items.at(-1) === 'end') change({ is: 'over' })
      },
    })
    const stream = openStream({
      url,
      onActivity: () => {},
      onState: ({ is }) => setLink(is),
      onMessages(messages) {
        const items = messages.flatMap(itemsIn)
        // The server closes the stream after it; without this the page would connect again.
        if (items.at(-1) === 'end') stream.stop()
        batched.push(items)
      },
    })
    const stopWatch = sleepWhileHidden(stream)
    return () => {
      stopWatch()
      stream.stop()
      batched.stop()
      setLink(undefined)
    }
  }, [url, load])

  const last = shown?.entries.at(-1)?.seq ?? 0
  const earlier = shown?.earlier ?? end
  const read = useCallback(
    (part: 'newest' | 'earlier' | 'newer') => {
      if (part === 'newest') void load(part, { before: end })
      else void load(part, part === 'earlier' ? { before: earlier } : { after: last })
    },
    [load, earlier, last],
  )
  return { shown, error, isReading, link, read }
}

function itemsIn({ event, data }: Message): (TranscriptEntry | 'end')[] {
  if (event === 'end') return ['end']
  if (event !== 'entry') return []
  const entry = parseJson(data) as TranscriptEntry | null | undefined
  return typeof entry?.seq === 'number' && typeof entry.content === 'string' ? [entry] : []
}
