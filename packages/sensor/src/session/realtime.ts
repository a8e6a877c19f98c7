/**
 * The realtime stream of one pipe: sends the events of the bus in order. A request without a response is sent again unchanged
 * with the same sequence number until the server responds. The first request whose end is past a barrier confirms it. The
 * stream outlives sessions: the next session gets what the last one did not accept.
 */
import { linkAbort } from '@bellwether/base'
import { ingestAnswer } from '@bellwether/protocol'
import type { PipeContext, Session } from './context.js'
import type { Subscription } from './event-bus.js'
import type { Progress } from './task.js'

interface InFlight {
  readonly text: string
  readonly end: number
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
  let inFlight: InFlight | undefined
  let barriers: { id: string; position: number }[] = []
  let [sessionId, seq, sent] = ['', 0, 0]
  let wakeUp = () => {}

  function next(): InFlight | undefined {
    const batch = subscription.peek(batchRows)
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
    ingestAnswer.parse(await sender.send('POST', path, Buffer.from(body), { key, signal }))
    subscription.advance(end)
    sent += 1
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
      if (session.id !== sessionId) [sessionId, seq] = [session.id, 0]
      for (;;) {
        progress.moved()
        if (inFlight === undefined) {
          inFlight = next()
          if (inFlight === undefined) {
            if (progress.signal.aborted) return 0
            const wake = linkAbort(progress.signal)
            wakeUp = () => wake.abort()
            await progress.idle(subscription.arrival(wake.signal))
            wake.release()
            continue
          }
          seq += 1
        } else if (seq === 0) seq = 1
        await send(session, inFlight, progress.signal)
        inFlight = undefined
      }
    },
  }
}
