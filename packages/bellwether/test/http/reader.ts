/** A reader of server-sent events that a test can cut off at any moment. It keeps the id of the last event, as a browser does. */
import { request, type IncomingMessage } from 'node:http'
import { defined } from '@bellwether/base'
import { checkEvent } from './contract.js'

interface SseEvent {
  readonly id: string
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

export interface SseReader {
  readonly events: SseEvent[]
  /** The Last-Event-ID of the next connection. */
  lastId(): string | undefined
  status: number
  comments: number
  /** Resolves with the first event that `accepts` accepts, also if it has already arrived. */
  next(what: string, accepts: (event: SseEvent) => boolean, withinMs?: number): Promise<SseEvent>
  readonly ended: Promise<void>
  /** Stops reading until `resume`. */
  pause(): void
  resume(): void
  cut(): void
}

export interface ReadOptions {
  readonly key?: string
  readonly last?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
}

export async function readEvents(url: string, { key, last, headers: more }: ReadOptions): Promise<SseReader> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const headers = { ...more, ...defined({ 'x-api-key': key }), ...defined({ 'last-event-id': last }) }
    request(url, { headers, agent: false }, resolve).on('error', reject).end()
  })
  const events: SseEvent[] = []
  const waiting = new Set<() => void>()
  let id = last
  let rest = ''
  let ended = () => {}
  const reader: SseReader = {
    events,
    lastId: () => id,
    status: response.statusCode ?? 0,
    comments: 0,
    ended: new Promise((resolve) => (ended = resolve)),
    // Events wait for older transactions of all databases in the cluster, also of other tests.
    next: (what, accepts, withinMs = 180_000) =>
      new Promise((resolve, reject) => {
        const done = new AbortController()
        const check = () => {
          const found = events.find(accepts)
          if (found === undefined) return
          waiting.delete(check)
          done.abort()
          resolve(found)
        }
        waiting.add(check)
        const late = AbortSignal.timeout(withinMs)
        late.addEventListener('abort', () => {
          if (!done.signal.aborted)
            reject(new Error(`Timed out after ${withinMs} ms: ${what}; received ${events.length} events`))
        })
        check()
      }),
    pause: () => void response.pause(),
    resume: () => void response.resume(),
    cut: () => void response.destroy(),
  }
  response.setEncoding('utf8')
  response.on('data', (text: string) => {
    rest += text
    for (let at = rest.indexOf('\n\n'); at >= 0; at = rest.indexOf('\n\n')) {
      const block = rest.slice(0, at)
      rest = rest.slice(at + 2)
      const field = (name: string) =>
        block
          .split('\n')
          .find((line) => line.startsWith(`${name}: `))
          ?.slice(name.length + 2)
      if (block.startsWith(':')) reader.comments += 1
      id = field('id') ?? id
      const data = field('data')
      if (data === undefined) continue
      const event = { id: field('id') ?? '', event: field('event') ?? '', data: JSON.parse(data) as SseEvent['data'] }
      checkEvent(url, event.event, event.data)
      events.push(event)
    }
    for (const check of [...waiting]) check()
  })
  response.on('error', () => ended())
  response.on('close', () => ended())
  return reader
}
