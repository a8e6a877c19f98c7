/**
 * `fetch` for an MCP server over HTTP, with a bound on what it may answer: on a whole answer, or on one event of a stream, which
 * itself may go on for ever. Always: what passes the bound ends the answer with an error; an answer that breaks off is told at
 * once, because the client would wait for it until its timeout.
 */
type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

export interface BoundedFetchOptions {
  readonly maxBytes: number
  readonly onOverflow: () => void
  /** The answer to a message broke off. */
  readonly onBroken: (error: unknown) => void
  readonly fetch?: Fetch
}

const newline = 10
const carriageReturn = 13

export function boundedFetch({ maxBytes, onOverflow, onBroken, fetch: ask = fetch }: BoundedFetchOptions): Fetch {
  return async (url, init) => {
    const answer = await ask(url, init)
    if (answer.body === null) return answer
    const reader = answer.body.getReader() as ReadableStreamDefaultReader<Uint8Array>
    const counter = countBytes(answer.headers.get('content-type')?.includes('text/event-stream') ?? false)
    let left = false
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        let chunk: Awaited<ReturnType<typeof reader.read>>
        try {
          chunk = await reader.read()
        } catch (error) {
          if (!left && init?.method === 'POST' && init.signal?.aborted !== true) onBroken(error)
          if (!left) controller.error(error)
          return
        }
        // Whoever read it went away meanwhile.
        if (left) return
        if (chunk.done) controller.close()
        else if (counter(chunk.value) <= maxBytes) controller.enqueue(chunk.value)
        else {
          onOverflow()
          controller.error(new Error(`the MCP server's answer is larger than ${maxBytes} bytes`))
          await reader.cancel()
        }
      },
      async cancel(reason) {
        left = true
        await reader.cancel(reason)
      },
    })
    const { status, statusText, headers } = answer
    const bounded = new Response(body, { status, statusText, headers })
    // Lost by the copy, and needed to judge redirects.
    Object.defineProperty(bounded, 'url', { value: answer.url })
    return bounded
  }
}

/** Bytes so far: of the whole answer, or of the event that is being read. */
function countBytes(events: boolean): (chunk: Uint8Array) => number {
  let bytes = 0
  let lastWasNewline = false
  return (chunk) => {
    bytes += chunk.length
    if (!events) return bytes
    // An empty line ends an event: only what comes behind the last one counts for the next.
    const end = endOfEvent(chunk, lastWasNewline)
    if (end !== -1) bytes = chunk.length - end
    lastWasNewline = chunk.at(-1) === newline
    return bytes
  }
}

/** Behind the last empty line of a chunk; -1: there is none. */
function endOfEvent(chunk: Uint8Array, lastWasNewline: boolean): number {
  for (let at = chunk.length - 1; at >= 0; at -= 1) {
    if (chunk[at] !== newline) continue
    const before = chunk[at - 1] === carriageReturn ? at - 2 : at - 1
    if (before < 0 ? lastWasNewline : chunk[before] === newline) return at + 1
  }
  return -1
}
