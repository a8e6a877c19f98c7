/**
 * Messages of an MCP server, a line each, within a bound. Always: memory stays within the bound however long a line is; a message
 * that was too long is answered for with an error under its own id, so that whoever waits for it is told at once.
 */
import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/sdk/types.js'

/** In the error that stands in place of a message that was too long. */
export const tooLargeCode = -32_099

export interface MessageLines {
  add(chunk: Buffer): void
}

export interface LineOptions {
  readonly maxBytes: number
  readonly onMessage: (message: unknown) => void
  /** A line that is no message, or one too long that does not say which call it answers. */
  readonly onError: (message: string) => void
}

// Enough to find an id at either end of a message; servers write it first or last.
const endBytes = 256

export function messageLines({ maxBytes, onMessage, onError: onTrouble }: LineOptions): MessageLines {
  let parts: Buffer[] = []
  let held = 0
  let first = ''
  let last = ''

  function take(part: Buffer): void {
    if (part.length === 0) return
    held += part.length
    if (held <= maxBytes) return void parts.push(part)
    if (parts.length > 0) first = Buffer.concat(parts).subarray(0, endBytes).toString('latin1')
    parts = []
    last = (last + part.subarray(-endBytes).toString('latin1')).slice(-endBytes)
  }

  function finish(): void {
    const line = parts
    const bytes = held
    const ends = [first, last] as const
    parts = []
    held = 0
    first = last = ''
    if (bytes === 0) return
    if (bytes > maxBytes) tooLong(bytes, ends)
    else whole(Buffer.concat(line).toString('utf8').trim())
  }

  function whole(text: string): void {
    if (text === '') return
    let message: unknown
    try {
      message = JSON.parse(text)
    } catch {
      // Servers that log to stdout are common, and harmless.
      onTrouble(`a line that is no message: ${JSON.stringify(text.slice(0, 120))}`)
      return
    }
    onMessage(message)
  }

  function tooLong(bytes: number, [begin, end]: readonly [string, string]): void {
    const id = idIn(begin, end)
    if (id === undefined) return onTrouble(`a message of ${bytes} bytes was dropped: the limit is ${maxBytes}`)
    const error = { code: tooLargeCode, message: `the answer was ${bytes} bytes; the limit is ${maxBytes}` }
    onMessage({ jsonrpc: '2.0', id, error } satisfies JSONRPCMessage)
  }

  return {
    add(chunk) {
      let from = 0
      for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
        take(chunk.subarray(from, at))
        finish()
        from = at + 1
      }
      take(chunk.subarray(from))
    },
  }
}

/** At the very beginning or the very end, where only the message itself writes. */
function idIn(begin: string, end: string): RequestId | undefined {
  const found =
    /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15}|"[^"\\]{1,80}")\s*,/.exec(begin) ??
    /,\s*"id"\s*:\s*(\d{1,15}|"[^"\\]{1,80}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/.exec(end)
  return found === null ? undefined : (JSON.parse(found[1]!) as RequestId)
}
