/**
 * The realtime stream of one pipe: takes events from the bus and sends them in order. Always: a request that may have
 * arrived is sent again as it was, under the same number, until the server has answered; a barrier is confirmed by the
 * first request whose end has passed it. Survives sessions: what the last one did not take, the next one gets.
 */
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
  /** Sends what there is, then waits for more. */
  step(session: Session, progress: Progress): Promise<number>
  /** Confirms the id once everything published so far has been sent. */
  barrier(id: string): void
  lag(): number
  sent(): number
}

// More barriers than a server has open; the oldest waits in vain, and its reader's time limit says so.
const barriersMax = 1_000

export function openRealtime(context: PipeContext, subscription: Subscription, onLost: () => void): Realtime {
  const { source, sender, key, batchRows } = context
  let inFlight: InFlight | undefined
  let barriers: { id: string; position: number }[] = []
  let [sessionId, seq, sent] = ['', 0, 0]
  let ring = () => {}

  function next(): InFlight | undefined {
    const taken = subscription.peek(batchRows)
    if (taken === 'lost') {
      onLost()
      return undefined
    }
    const end = taken?.end ?? subscription.position()
    const passed = barriers.filter(({ position }) => position <= end)
    if (taken === undefined && passed.length === 0) return undefined
    barriers = barriers.filter(({ position }) => position > end)
    return { text: taken?.text ?? '', end, barriers: passed }
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
      barriers.push({ id, position: source.bus.end })
      if (barriers.length > barriersMax) barriers.shift()
      ring()
    },
    async step(session, progress) {
      if (session.id !== sessionId) [sessionId, seq] = [session.id, 0]
      for (;;) {
        progress.moved()
        if (inFlight === undefined) {
          inFlight = next()
          if (inFlight === undefined) {
            if (progress.signal.aborted) return 0
            const rung = new AbortController()
            const wake = () => rung.abort()
            ring = wake
            progress.signal.addEventListener('abort', wake, { once: true })
            await progress.rest(subscription.arrival(rung.signal))
            progress.signal.removeEventListener('abort', wake)
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
