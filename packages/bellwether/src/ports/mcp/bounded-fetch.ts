/**
 * `fetch` for an MCP server over HTTP with a size limit per response, or per event of a stream, which may be endless. Beyond the
 * limit the response ends with an error. An interrupted response is reported at once; otherwise the client would wait for its
 * timeout.
 */
type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

export interface BoundedFetchOptions {
  readonly maxBytes: number
  readonly onOverflow: () => void
  /** The response to a message was interrupted. */
  readonly onBroken: (error: unknown) => void
  readonly fetch?: Fetch
}

const newline = 10
const carriageReturn = 13

export function boundedFetch({ maxBytes, onOverflow, onBroken, fetch: request = fetch }: BoundedFetchOptions): Fetch {
  return async (url, init) => {
    const response = await request(url, init)
    if (response.body === null) return response
    const reader = response.body.getReader() as ReadableStreamDefaultReader<Uint8Array>
    const counter = countBytes(response.headers.get('content-type')?.includes('text/event-stream') ?? false)
    let cancelled = false
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        let chunk: Awaited<ReturnType<typeof reader.read>>
        try {
          chunk = await reader.read()
        } catch (error) {
          if (!cancelled && init?.method === 'POST' && init.signal?.aborted !== true) onBroken(error)
          if (!cancelled) controller.error(error)
          return
        }
        // The reader has cancelled the stream.
        if (cancelled) return
        if (chunk.done) controller.close()
        else if (counter(chunk.value) <= maxBytes) controller.enqueue(chunk.value)
        else {
          onOverflow()
          controller.error(new Error(`The MCP server's response is larger than ${maxBytes} bytes`))
          await reader.cancel()
        }
      },
      async cancel(reason) {
        cancelled = true
        await reader.cancel(reason)
      },
    })
    const { status, statusText, headers } = response
    const bounded = new Response(body, { status, statusText, headers })
    // The copy loses the URL, which is needed to check redirects.
    Object.defineProperty(bounded, 'url', { value: response.url })
    return bounded
  }
}

/** Bytes so far: of the response, or of the current event. */
function countBytes(events: boolean): (chunk: Uint8Array) => number {
  let bytes = 0
  let lastWasNewline = false
  return (chunk) => {
    bytes += chunk.length
    if (!events) return bytes
    // An empty line ends an event; the bytes after the last empty line belong to the next event.
    const end = endOfEvent(chunk, lastWasNewline)
    if (end !== -1) bytes = chunk.length - end
    lastWasNewline = chunk.at(-1) === newline
    return bytes
  }
}

/** The position after the last empty line of a chunk; -1 if there is none. */
function endOfEvent(chunk: Uint8Array, lastWasNewline: boolean): number {
  for (let at = chunk.length - 1; at >= 0; at -= 1) {
    if (chunk[at] !== newline) continue
    const before = chunk[at - 1] === carriageReturn ? at - 2 : at - 1
    if (before < 0 ? lastWasNewline : chunk[before] === newline) return at + 1
  }
  return -1
}
