/**
 * Keeps one MCP server connected and restarts it with backoff. It lists the tools after every connection and when the server
 * reports a change; the last list stays while the server is unavailable. Every request has a timeout. A call that is lost with
 * the connection is reported as possibly executed and never repeated here.
 */
import { aborted, type Clock, deferred, defined, errorMessage, type Log, type Random } from '@bellwether/base'
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
import type { ToolOffer } from '../model/model.js'
import { ToolFailure } from '../tools/tool-failure.js'
import { toMcpResult, type McpResult } from './call-result.js'
import { tooLargeCode } from './lines.js'

export interface McpServer {
  readonly name: string
  /** The last list. */
  tools(): readonly ToolOffer[]
  /** Throws ToolFailure. An error that the tool itself reports is a result. */
  call(
    tool: string,
    args: Readonly<Record<string, unknown>>,
    limits: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<McpResult>
  /** Resolves when connected, or when the current try has failed. */
  settled(): Promise<void>
  close(): Promise<void>
}

export interface McpTransport {
  readonly transport: Transport
  /** The server's own explanation of its end, or ''. */
  lastError(): string
  /** Ends the session on the server. */
  endSession?(): Promise<void>
}

/** Events of a transport that the protocol does not report. */
export interface TransportEvents {
  /** A response exceeded the size limit. */
  overflow(): void
  /** A response was interrupted. */
  broken(error: unknown): void
}

export interface McpServerOptions {
  readonly name: string
  /** A new one for each connection. */
  readonly transport: (trouble: TransportEvents) => McpTransport
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
}

// A server that is downloaded at its first start (npx, uvx) is slow to connect.
const connectMs = 60_000
const listMs = 15_000
// More tools than any model can use; a server that lists more is broken.
const toolsMax = 2_000
const pagesMax = 200
const schemaMaxBytes = 65_536
const descriptionMaxChars = 4_096
// The tool host's timeout fires first; this one is a fallback.
const slackMs = 5_000
const farewellMs = 1_000
const refreshMs = 1_000
const loggedErrorsMax = 20
// Servers ask rarely (`ping`), and read the answer.
const unreadAnswersMax = 100
const requestIdMaxChars = 1_000

interface Session extends Connection {
  readonly client: Client
  disconnect(why: unknown): void
  readonly overflowed: () => boolean
}

export function openMcpServer(options: McpServerOptions): McpServer {
  const { name, clock, random, log } = options
  let listed: readonly ToolOffer[] = []

  /** The transport that is being connected: closed by `close`, which would otherwise wait for a server that never responds. */
  let connecting: Transport | undefined

  async function open(): Promise<Session> {
    let overflown = false
    const logError = firstOnly(loggedErrorsMax, (error) =>
      log.warn({ server: name, err: error }, 'MCP server reported an error'),
    )
    const over = deferred<unknown>()
    const client = new Client({ name: 'bellwether', version: '1' }, { capabilities: {} })
    const lose = (why: unknown) => {
      over.resolve(why)
      void client
        .close()
        .catch((error: unknown) => log.warn({ err: error, server: name }, 'cannot close the MCP client'))
    }
    const newTransport = options.transport({
      overflow() {
        overflown = true
        lose(new Error('A response was too large'))
      },
      broken: lose,
    })
    Object.assign(client, {
      onclose: () => over.resolve(new Error(newTransport.lastError() || 'The MCP server closed the connection')),
      onerror: logError,
    })
    const session: Session = {
      client,
      closed: over.promise,
      async close() {
        if (newTransport.endSession !== undefined)
          await withTimeout(clock, farewellMs, 'ending the MCP session', newTransport.endSession()).catch(
            (error: unknown) => log.warn({ err: error, server: name }, 'cannot end the MCP session'),
          )
        await client.close()
      },
      disconnect: lose,
      overflowed: () => overflown,
    }
    boundAnswers(newTransport.transport, lose)
    connecting = newTransport.transport
    try {
      await client.connect(newTransport.transport, { timeout: connectMs })
      listed = await list(session)
    } catch (error) {
      await client.close()
      await newTransport.transport.close()
      const stderr = newTransport.lastError()
      throw stderr === '' ? error : new Error(`${errorMessage(error)}; stderr: ${stderr}`)
    }
    connecting = undefined
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void refresh(session))
    return session
  }

  async function list({ client }: Session): Promise<ToolOffer[]> {
    const found = new Map<string, ToolOffer>()
    if (client.getServerCapabilities()?.tools === undefined) return []
    let cursor: string | undefined
    for (let page = 0; page < pagesMax && found.size < toolsMax; page += 1) {
      const params = defined({ cursor })
      const answer = await client.request({ method: 'tools/list', params }, ListToolsResultSchema, { timeout: listMs })
      for (const tool of answer.tools) if (found.size < toolsMax) keep(found, tool)
      if (answer.nextCursor === undefined || answer.nextCursor === cursor) return [...found.values()]
      cursor = answer.nextCursor
    }
    log.warn({ server: name, tools: found.size }, 'MCP server lists too many tools, ignoring the rest')
    return [...found.values()]
  }

  function keep(found: Map<string, ToolOffer>, { name: tool, description = '', inputSchema }: Tool): void {
    if (tool === '' || tool.length > 256 || JSON.stringify(inputSchema).length > schemaMaxBytes) {
      log.warn({ server: name, tool: tool.slice(0, 100) }, 'MCP tool ignored: its name or schema is too long')
      return
    }
    // A copy: a slice would keep the whole text in memory.
    const shown = Buffer.from(description.slice(0, descriptionMaxChars)).toString()
    found.set(tool, { name: tool, description: shown, parameters: inputSchema })
  }

  let refreshing: Promise<void> | undefined
  let again = false
  /** Lists the tools again, one request at a time; a change during a request causes one more. */
  function refresh(session: Session): Promise<void> {
    again = true
    refreshing ??= (async () => {
      while (again && keeper.current() === session) {
        again = false
        listed = await list(session)
        // At most one list per second.
        if (again) await clock.sleep(refreshMs)
      }
    })()
      .catch((error: unknown) => log.warn({ server: name, err: error }, 'cannot list the tools of the MCP server'))
      .finally(() => (refreshing = undefined))
    return refreshing
  }

  const keeper = keepConnected<Session>({
    what: `MCP server ${name}`,
    open,
    onOpen: () => log.info({ server: name, tools: listed.length }, 'MCP server connected'),
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
    throw new ToolFailure(`The MCP server "${name}" is not connected`, { code: 'mcp_unavailable', retryable: true })
  }

  return {
    name,
    tools: () => listed,
    async call(tool, args, { timeoutMs, signal }) {
      const connected = await session(signal)
      try {
        const params = { name: tool, arguments: args }
        const limits = { signal, timeout: timeoutMs + slackMs }
        return toMcpResult(
          await connected.client.request({ method: 'tools/call', params }, CallToolResultSchema, limits),
        )
      } catch (error) {
        const failure = connected.overflowed() ? tooLarge() : failureOf(name, error)
        if (failure.lost) connected.disconnect(error)
        throw failure.failure
      }
    },
    settled: () => keeper.settled(),
    async close() {
      const closing = keeper.close()
      await connecting?.close()
      await closing
    },
  }
}

/** Gives up a server that asks more than it reads: every answer would stay in memory, and over HTTP hold a connection. */
function boundAnswers(transport: Transport, lose: (why: Error) => void): void {
  const send = transport.send.bind(transport)
  let unread = 0
  transport.send = async (message, options) => {
    if ('method' in message) return send(message, options)
    if (unread === unreadAnswersMax || String(message.id).length > requestIdMaxChars) {
      const why = new Error('The MCP server sends requests and does not read the answers')
      lose(why)
      throw why
    }
    unread += 1
    await send(message, options).finally(() => (unread -= 1))
  }
}

/** Logs the first errors only: a server may report errors without end. */
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
  /** The connection cannot be used again. */
  readonly lost: boolean
}

const tooLarge = (): FailedCall => ({
  lost: false,
  failure: new ToolFailure('The call ran, but its response was too large and is lost. Request less data.', {
    code: 'result_too_large',
  }),
})

function failureOf(server: string, error: unknown): FailedCall {
  const message = errorMessage(error)
  if (error instanceof StreamableHTTPError) {
    const status = error.code ?? 0
    const { inDoubt, retryable } = classifyStatus(status)
    // 404: the server does not know the session, so the call did not run.
    const failure = new ToolFailure(
      `The MCP server "${server}" responded with status ${status}: ${message.slice(0, 500)}`,
      { code: `mcp_http_${status}`, inDoubt, retryable: retryable || status === 404 },
    )
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
  const failure = new ToolFailure(`Cannot reach the MCP server "${server}": ${message}`, {
    code: 'mcp_unavailable',
    inDoubt: inDoubt || why === 'unknown',
    retryable: retryable || why === 'unknown',
    cause: error,
  })
  return { failure, lost: true }
}

const lostDuringCall = (server: string, message: string, cause: unknown) =>
  new ToolFailure(`The MCP server "${server}" disconnected during the call (${message})`, {
    code: 'mcp_lost',
    inDoubt: true,
    retryable: true,
    cause,
  })
