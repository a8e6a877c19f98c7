/**
 * The realtime stream of one pipe: sends the events of the bus in order. A request without a response is sent again unchanged
 * with the same sequence number until the server responds; one that is too large is sent in parts. The first request whose
 * end is past a barrier confirms it. The stream outlives sessions: the next session gets what the last one did not accept.
 */
import { linkAbort } from '@bellwether/base'
import type { FileEvent } from '@bellwether/protocol'
import { ingestResponse } from '@bellwether/protocol/pipe'
import { batchLength, type PipeContext, type Session } from './context.js'
import type { Subscription } from './event-bus.js'
import { BatchTooLarge } from './recovery.js'
import { splitBatch } from './split-batch.js'
import type { Progress } from './task.js'

interface InFlight {
  readonly text: string
  /** The position of the stream after it; undefined for a part that is not the last. */
  readonly end: number | undefined
  readonly barriers: readonly { readonly id: string; readonly position: number }[]
}

export interface Realtime {
  /** Sends available events and waits for more, until the signal aborts. */
  step(session: Session, progress: Progress): Promise<number>
  /** Confirms the barrier once everything published so far has been sent. */
  barrier(id: string): void
  lag(): number
  sent(): number
}

// More than a server has open. Above it the oldest barrier is dropped, and its reader times out.
const barriersMax = 1_000

export function openRealtime(context: PipeContext, subscription: Subscription, onLost: () => void): Realtime {
  const { watcher, sender, key, batchRows } = context
  /** What the next requests send: one batch, or the parts of one that was too large. */
  let inFlight: InFlight[] = []
  /** Whether the first of them has its sequence number. */
  let isNumbered = false
  let barriers: { id: string; position: number }[] = []
  let [sessionId, seq, sent] = ['', 0, 0]
  let wakeUp = () => {}

  function next(): InFlight | undefined {
    const batch = subscription.peek(batchRows, batchLength)
    if (batch === 'lost') {
      onLost()
      return undefined
    }
    const end = batch?.end ?? subscription.position()
    const passed = barriers.filter(({ position }) => position <= end)
    if (batch === undefined && passed.length === 0) return undefined
    barriers = barriers.filter(({ position }) => position > end)
    return { text: batch?.text ?? '', end, barriers: passed }
  }

  async function send(session: Session, { text, end, barriers: passed }: InFlight, signal: AbortSignal): Promise<void> {
    const metadata = passed.length === 0 ? { seq } : { seq, barriers: passed.map(({ id }) => id) }
    const body = `{"events":[${text}],"source_type":"message","is_end":false,"metadata":${JSON.stringify(metadata)}}`
    const path = `pipe/ingest/${encodeURIComponent(session.id)}/events`
    ingestResponse.parse(await sender.send('POST', path, Buffer.from(body), { key, signal }))
    if (end !== undefined) subscription.advance(end)
    sent += 1
  }

  async function partsOf({ text, end, barriers: passed }: InFlight, signal: AbortSignal): Promise<InFlight[]> {
    const parts = await splitBatch(context, JSON.parse(`[${text}]`) as FileEvent[], signal)
    const texts = parts.map((events) => JSON.stringify(events).slice(1, -1))
    const last = { text: texts.pop() ?? '', end, barriers: passed }
    return [...texts.map((part) => ({ text: part, end: undefined, barriers: [] })), last]
  }

  return {
    lag: () => subscription.lag(),
    sent: () => sent,
    barrier(id) {
      barriers.push({ id, position: watcher.bus.end })
      if (barriers.length > barriersMax) barriers.shift()
      wakeUp()
    },
    async step(session, progress) {
      if (session.id !== sessionId) [sessionId, seq, isNumbered] = [session.id, 0, false]
      for (;;) {
        progress.moved()
        const first = inFlight[0] ?? next()
        if (first === undefined) {
          if (progress.signal.aborted) return 0
          const wake = linkAbort(progress.signal)
          wakeUp = () => wake.abort()
          await progress.idle(subscription.arrival(wake.signal))
          wake.release()
          continue
        }
        if (inFlight.length === 0) inFlight = [first]
        if (!isNumbered) [seq, isNumbered] = [seq + 1, true]
        try {
          await send(session, first, progress.signal)
          inFlight.shift()
          progress.succeeded()
        } catch (error) {
          if (!(error instanceof BatchTooLarge) || first.text === '') throw error
          inFlight.splice(0, 1, ...(await partsOf(first, progress.signal)))
        }
        isNumbered = false
      }
    },
  }
}
