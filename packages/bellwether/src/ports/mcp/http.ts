/**
 * An MCP server over HTTP (streamable HTTP). Always: its answers are bounded; a redirect is followed only within its own origin, so
 * that its headers go nowhere else; when the connection is over, the server is told.
 */
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { boundedFetch } from './bounded-fetch.js'
import type { McpTransport, TransportEvents } from './server.js'

export interface HttpOptions {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly messageMaxBytes: number
}

export function httpTransport({ url, headers, messageMaxBytes }: HttpOptions, trouble: TransportEvents): McpTransport {
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { ...headers } },
    redirectPolicy: 'same-origin',
    fetch: boundedFetch({
      maxBytes: messageMaxBytes,
      onOverflow: () => trouble.overflow(),
      onBroken: (error) => trouble.broken(error),
    }),
  })
  // The library's own class is not exact about what may be undefined.
  return { transport: transport as Transport, lastError: () => '', endSession: () => transport.terminateSession() }
}
