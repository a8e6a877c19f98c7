/**
 * One MCP server, kept connected: tools are listed after every connection and when the server says that they changed; a server
 * that dies is started again after a growing pause. Always: every question has a timeout; the last list is kept while the server
 * is away; a call that was lost with the connection says that it may have taken effect, and is never repeated here.
 */
import { type Clock, deferred, errorMessage, type Log, type Random } from '@bellwether/base'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import {
  CallToolResultSchema,
  ErrorCode,
  ListToolsResultSchema,
  McpError,
  ToolListChangedNotificationSchema,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js'
import { keepConnected, type Connection } from '../connections/connection-keeper.js'
import { classify, classifyStatus, withTimeout } from '../retry.js'
import { ToolFailure } from '../tools/tool-failure.js'
import { toMcpResult, type McpResult } from './call-result.js'
import { tooLargeCode } from './lines.js'

export interface McpTool {
  readonly name: string
  readonly description: string
  readonly parameters: Readonly<Record<string, unknown>>
}

export interface McpServer {
  readonly name: string
  /** As last listed. */
  tools(): readonly McpTool[]
  /** Throws ToolFailure. What the tool itself calls an error is an answer. */
  call(
    tool: string,
    args: Readonly<Record<string, unknown>>,
    limits: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<McpResult>
  /** Resolves when connected, or when the attempt under way has failed. */
  settled(): Promise<void>
  close(): Promise<void>
}

export interface McpTransport {
  readonly transport: Transport
  /** Why it ended, as far as it says so itself. */
  lastError(): string
  /** Tells the other side that nobody comes back. */
  endSession?(): Promise<void>
}

/** What a transport notices that the protocol does not. */
export interface TransportEvents {
  /** An answer was too large to be read. */
  overflow(): void
  /** An answer broke off. */
  broken(error: unknown): void
}

export interface McpServerOptions {
  readonly name: string
  /** A new one for each connection. */
  readonly transport: (trouble: TransportEvents) => McpTransport
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly onTools?: () => void
}

// A server that is downloaded at its first start (npx, uvx) takes a while.
const connectMs = 60_000
const listMs = 15_000
// More are no use to any model; a server that lists for ever is broken.
const toolsMax = 2_000
const pagesMax = 200
const schemaMaxBytes = 65_536
const descriptionMaxChars = 4_096
// The host's own timeout comes first; this one is for a host that forgot.
const slackMs = 5_000
const farewellMs = 1_000
const refreshMs = 1_000
const complaintsMax = 20

interface Session extends Connection {
  readonly client: Client
  disconnect(why: unknown): void
  readonly overflowed: () => boolean
}

export function openMcpServer(options: McpServerOptions): McpServer {
  const { name, clock, random, log } = options
  let listed: readonly McpTool[] = []

  /** The attempt under way: ended with the rest, or a server that never answers would hold up the end. */
  let attempt: Transport | undefined

  async function open(): Promise<Session> {
    let overflown = false
    const complain = firstOnly(complaintsMax, (error) =>
      log.warn({ server: name, err: error }, 'trouble with an MCP server'),
    )
    const over = deferred<unknown>()
    const client = new Client({ name: 'bellwether', version: '1' }, { capabilities: {} })
    const lose = (why: unknown) => {
      over.resolve(why)
      void client
        .close()
        .catch((error: unknown) => log.warn({ err: error, server: name }, 'an MCP server did not close'))
    }
    const made = options.transport({
      overflow() {
        overflown = true
        lose(new Error('an answer was too large'))
      },
      broken: lose,
    })
    Object.assign(client, {
      onclose: () => over.resolve(new Error(made.lastError() || 'the MCP server went away')),
      onerror: complain,
    })
    const session: Session = {
      client,
      closed: over.promise,
      async close() {
        if (made.endSession !== undefined)
          await withTimeout(clock, farewellMs, 'saying farewell', made.endSession()).catch((error: unknown) =>
            log.warn({ err: error, server: name }, 'an MCP server heard no farewell'),
          )
        await client.close()
      },
      disconnect: lose,
      overflowed: () => overflown,
    }
    attempt = made.transport
    try {
      await client.connect(made.transport, { timeout: connectMs })
      listed = await list(session)
    } catch (error) {
      await client.close()
      await made.transport.close()
      const stderr = made.lastError()
      throw stderr === '' ? error : new Error(`${errorMessage(error)}; it said: ${stderr}`)
    }
    attempt = undefined
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void refresh(session))
    return session
  }

  async function list({ client }: Session): Promise<McpTool[]> {
    const found = new Map<string, McpTool>()
    if (client.getServerCapabilities()?.tools === undefined) return []
    let cursor: string | undefined
    for (let page = 0; page < pagesMax && found.size < toolsMax; page += 1) {
      const params = cursor === undefined ? {} : { cursor }
      const answer = await client.request({ method: 'tools/list', params }, ListToolsResultSchema, { timeout: listMs })
      for (const tool of answer.tools) if (found.size < toolsMax) keep(found, tool)
      if (answer.nextCursor === undefined || answer.nextCursor === cursor) return [...found.values()]
      cursor = answer.nextCursor
    }
    log.warn({ server: name, tools: found.size }, 'an MCP server lists more tools than are read')
    return [...found.values()]
  }

  function keep(found: Map<string, McpTool>, { name: tool, description = '', inputSchema }: Tool): void {
    if (tool === '' || tool.length > 256 || JSON.stringify(inputSchema).length > schemaMaxBytes) {
      log.warn(
        { server: name, tool: tool.slice(0, 100) },
        'a tool of an MCP server is left out: its name or schema is too long',
      )
      return
    }
    found.set(tool, { name: tool, description: description.slice(0, descriptionMaxChars), parameters: inputSchema })
  }

  let refreshing: Promise<void> | undefined
  let again = false
  /** One at a time, and once more for whatever changed meanwhile. */
  function refresh(session: Session): Promise<void> {
    again = true
    refreshing ??= (async () => {
      while (again && keeper.current() === session) {
        again = false
        listed = await list(session)
        options.onTools?.()
        // A server that never stops changing is listened to once a second.
        if (again) await clock.sleep(refreshMs)
      }
    })()
      .catch((error: unknown) =>
        log.warn({ server: name, err: error }, 'the tools of an MCP server could not be listed again'),
      )
      .finally(() => (refreshing = undefined))
    return refreshing
  }

  const keeper = keepConnected<Session>({
    what: `MCP server ${name}`,
    open,
    onOpen: () => {
      log.info({ server: name, tools: listed.length }, 'an MCP server is connected')
      options.onTools?.()
    },
    log,
    clock,
    random,
  })

  async function session(signal: AbortSignal): Promise<Session> {
    const now = keeper.current()
    if (now !== undefined) return now
    await Promise.race([keeper.settled(), aborted(signal)])
    const then = keeper.current()
    if (then !== undefined) return then
    throw new ToolFailure(`the MCP server ${name} is not there`, { code: 'mcp_unavailable', retryable: true })
  }

  return {
    name,
    tools: () => listed,
    async call(tool, args, { timeoutMs, signal }) {
      const one = await session(signal)
      try {
        const params = { name: tool, arguments: args }
        const limits = { signal, timeout: timeoutMs + slackMs }
        return toMcpResult(await one.client.request({ method: 'tools/call', params }, CallToolResultSchema, limits))
      } catch (error) {
        const failure = one.overflowed() ? tooLarge() : failureOf(name, error)
        if (failure.lost) one.disconnect(error)
        throw failure.failure
      }
    },
    settled: () => keeper.settled(),
    async close() {
      const closing = keeper.close()
      await attempt?.close()
      await closing
    },
  }
}

/** A stranger who complains without end is heard a few times. */
function firstOnly(times: number, say: (error: Error) => void): (error: Error) => void {
  let left = times
  return (error) => {
    if (left > 0) say(error)
    left -= 1
  }
}

const closedCode: number = ErrorCode.ConnectionClosed
const timeoutCode: number = ErrorCode.RequestTimeout

interface FailedCall {
  readonly failure: ToolFailure
  /** The connection is no good any more. */
  readonly lost: boolean
}

const tooLarge = (): FailedCall => ({
  lost: false,
  failure: new ToolFailure('the call ran, but its answer was too large and is lost: ask for less', {
    code: 'result_too_large',
  }),
})

function failureOf(server: string, error: unknown): FailedCall {
  const message = errorMessage(error)
  if (error instanceof StreamableHTTPError) {
    const status = error.code ?? 0
    const { inDoubt, retryable } = classifyStatus(status)
    // 404: the server does not know the session, so it has done nothing.
    const failure = new ToolFailure(`the MCP server ${server} answered ${status}: ${message.slice(0, 500)}`, {
      code: `mcp_http_${status}`,
      inDoubt,
      retryable: retryable || status === 404,
    })
    return { failure, lost: status === 404 || status >= 500 || status < 100 }
  }
  if (error instanceof McpError) {
    const code: number = error.code
    if (code === tooLargeCode) return tooLarge()
    if (code === closedCode) return { lost: false, failure: lostDuringCall(server, message, error) }
    if (code === timeoutCode)
      return {
        lost: false,
        failure: new ToolFailure(message, { code: 'tool_timeout', inDoubt: true, retryable: true }),
      }
    return { lost: false, failure: new ToolFailure(message, { code: 'mcp_error' }) }
  }
  const { inDoubt, retryable, why } = classify(error)
  const failure = new ToolFailure(`the MCP server ${server} cannot be reached: ${message}`, {
    code: 'mcp_unavailable',
    inDoubt: inDoubt || why === 'unknown',
    retryable: retryable || why === 'unknown',
    cause: error,
  })
  return { failure, lost: true }
}

const lostDuringCall = (server: string, message: string, cause: unknown) =>
  new ToolFailure(`the MCP server ${server} went away in the middle of the call (${message})`, {
    code: 'mcp_lost',
    inDoubt: true,
    retryable: true,
    cause,
  })

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
