/**
 * Server-sent events over a bare response. A reader that does not read is waited for, never buffered for; one that is gone
 * fires the signal.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'

export interface EventStreamOut {
  readonly signal: AbortSignal
  send(event: { readonly id?: string; readonly event: string; readonly data: unknown }): Promise<void>
  /** Nothing for the reader, something for whoever cuts silent connections; `id`: where a reader that comes back goes on. */
  ping(id?: string): Promise<void>
  end(): void
}

export function openEventStream(response: ServerResponse, signal: AbortSignal): EventStreamOut {
  const gone = new AbortController()
  const abort = () => gone.abort()
  response.once('close', abort)
  response.once('error', abort)
  signal.addEventListener('abort', abort, { once: true })
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    connection: 'keep-alive',
    'x-accel-buffering': 'no',
    // Hooks do not see a bare response.
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  })
  response.write(': hello\n\n')
  async function write(text: string): Promise<void> {
    if (gone.signal.aborted || response.write(text)) return
    await once(response, 'drain', { signal: gone.signal }).catch((error: unknown) => {
      if (!gone.signal.aborted) throw error
    })
  }
  return {
    signal: gone.signal,
    send: ({ id, event, data }) =>
      write(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`),
    ping: (id) => write(`: still here\n${id === undefined ? '' : `id: ${id}\n`}\n`),
    end() {
      signal.removeEventListener('abort', abort)
      response.end()
    },
  }
}
