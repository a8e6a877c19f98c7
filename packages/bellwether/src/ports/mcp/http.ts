/**
 * Connects to an MCP server over streamable HTTP. Responses have a size limit; redirects are followed only within the same origin,
 * so that headers do not leave it; closing the connection ends the session on the server.
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
  // The SDK's class does not satisfy exactOptionalPropertyTypes.
  return { transport: transport as Transport, lastError: () => '', endSession: () => transport.terminateSession() }
}
