/**
 * Splits the output of an MCP server into messages, one per line, in bounded memory. A message that is too long is replaced by an
 * error with the same id, so that its caller does not wait for the timeout.
 */
import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/sdk/types.js'
import { atNewlines } from '../processes/capture.js'

/** The code of the error that replaces a message that was too long. */
export const tooLargeCode = -32_099

export interface LineOptions {
  readonly maxBytes: number
  readonly onMessage: (message: unknown) => void
  /** A line that is not a message, or one that is too long and has no readable id. */
  readonly onError: (message: string) => void
}

// Enough to find an id at either end of a message; servers write it first or last.
const endBytes = 256

export function messageLines({ maxBytes, onMessage, onError }: LineOptions) {
  let parts: Buffer[] = []
  let bufferedBytes = 0
  let first = ''
  let last = ''

  function take(part: Buffer): void {
    if (part.length === 0) return
    bufferedBytes += part.length
    if (bufferedBytes <= maxBytes) return void parts.push(part)
    if (parts.length > 0) first = Buffer.concat(parts).subarray(0, endBytes).toString('latin1')
    parts = []
    last = (last + part.subarray(-endBytes).toString('latin1')).slice(-endBytes)
  }

  function finish(): void {
    const line = parts
    const bytes = bufferedBytes
    const ends = [first, last] as const
    parts = []
    bufferedBytes = 0
    first = last = ''
    if (bytes === 0) return
    if (bytes > maxBytes) tooLong(bytes, ends)
    else parse(Buffer.concat(line).toString('utf8').trim())
  }

  function parse(text: string): void {
    if (text === '') return
    let message: unknown
    try {
      message = JSON.parse(text)
    } catch {
      // Servers that log to stdout are common and harmless.
      onError(`line is not a JSON message: ${JSON.stringify(text.slice(0, 120))}`)
      return
    }
    onMessage(message)
  }

  function tooLong(bytes: number, [begin, end]: readonly [string, string]): void {
    const id = idIn(begin, end)
    if (id === undefined) return onError(`dropped a message of ${bytes} bytes: the limit is ${maxBytes}`)
    const error = { code: tooLargeCode, message: `the answer was ${bytes} bytes; the limit is ${maxBytes}` }
    onMessage({ jsonrpc: '2.0', id, error } satisfies JSONRPCMessage)
  }

  return { add: atNewlines(take, finish) }
}

/** The id at the start or end of the message, where no nested value can be. */
function idIn(begin: string, end: string): RequestId | undefined {
  const found =
    /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15}|"[^"\\]{1,80}")\s*,/.exec(begin) ??
    /,\s*"id"\s*:\s*(\d{1,15}|"[^"\\]{1,80}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/.exec(end)
  return found === null ? undefined : (JSON.parse(found[1]!) as RequestId)
}
