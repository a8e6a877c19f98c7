/**
 * MCP servers, declared in `mcp.json` in the common form, as tools of this process. A server program sees only the variables of its
 * declaration and a few standard ones, works inside the project folder, and ends with its worker. The declaration here, not the
 * server, decides the timeout of a call and whether it may be repeated.
 */
import { defined, environment, type Clock, type Log, type Random } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { z } from 'zod'
import { expandEnvironment } from '../../ports/tools/expand-environment.js'
import { httpTransport } from '../../ports/mcp/http.js'
import { openMcpServer, type McpServer, type McpTransport, type TransportEvents } from '../../ports/mcp/server.js'
import { stdioTransport } from '../../ports/mcp/stdio.js'
import { commandEnvironment } from '../../ports/processes/environment.js'
import { folderInside } from '../../ports/processes/folder.js'
import type { Guardian } from '../../ports/processes/guardian.js'
import type { Self } from '../../ports/processes/proc.js'
import type { RunAs } from '../../ports/processes/run-as.js'
import { writeToken } from '../../ports/processes/token.js'
import { ToolFailure } from '../../ports/tools/tool-failure.js'
import type { ServerTools } from './catalogue.js'
import { approveMaxSeconds, timeoutMaxSeconds } from './define-tool.js'
import { mcpName } from './names.js'
import { problemsOf, readDeclarations } from './read-file.js'
import { runSeconds } from './timing.js'
import type { HostedTool } from './tool.js'

const texts = z.record(z.string(), z.string().max(32_768))
// Not strict: other programs store their own keys in this file.
const shape = z.object({
  type: z.enum(['stdio', 'http', 'streamable-http', 'streamableHttp']).optional(),
  command: z.string().min(1).max(4_096).optional(),
  args: z.array(z.string().max(32_768)).max(1_000).default([]),
  env: texts.default({}),
  cwd: z.string().min(1).max(4_096).default('.'),
  url: z.string().min(1).max(4_096).optional(),
  headers: texts.default({}),
  disabled: z.boolean().default(false),
  timeout_seconds: z.number().positive().max(timeoutMaxSeconds).default(60),
  idempotent: z.union([z.boolean(), z.array(z.string()).max(2_000)]).default(false),
  /** `ask`: for all tools of the server; a list: for the tools with these names. */
  approve: z.union([z.literal('ask'), z.array(z.string()).max(2_000)]).optional(),
  approve_within_seconds: z.number().positive().max(approveMaxSeconds).optional(),
})
export type McpDeclaration = z.output<typeof shape>
const knownKeys = Object.keys(shape.shape)
const fileShape = z.object({ mcpServers: z.record(z.string().min(1).max(100), z.unknown()).default({}) })

// Every worker runs one process per server.
const serversMax = 50

/** Throws if the file exists and is not JSON of this form. */
export function readMcpFile(path: string) {
  const declarations = readDeclarations(path)
  const servers = new Map<string, McpDeclaration>()
  const problems: string[] = []
  if (declarations === undefined) return { servers, problems }
  const file = fileShape.safeParse(declarations.values)
  if (!file.success) {
    throw new InvalidInput(problemsOf(file.error, declarations, [], ['mcpServers']).join('; '), {
      code: 'tools_file_bad',
      hint: 'use the form {"mcpServers": {"NAME": {"command": …, "args": […]}}}',
    })
  }
  for (const [name, value] of Object.entries(file.data.mcpServers)) {
    const above = ['mcpServers', name]
    const parsed = shape.safeParse(value)
    if (!parsed.success) problems.push(...problemsOf(parsed.error, declarations, above, knownKeys))
    else if ((parsed.data.command === undefined) === (parsed.data.url === undefined))
      problems.push(`${declarations.at(above)}: server "${name}" must have either "command" or "url"`)
    else if (servers.size === serversMax)
      problems.push(
        `${declarations.at(above)}: server "${name}" is ignored, because the limit is ${serversMax} servers`,
      )
    else if (!parsed.data.disabled) servers.set(name, parsed.data)
  }
  return { servers, problems }
}

export interface McpOptions {
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly guardian: Guardian
  /** The guardian kills the server if it is not renewed for this long. */
  readonly ttlMs: number
  readonly graceMs: number
  /** Every server's working directory must be inside this folder. */
  readonly root: string
  readonly projectId: string
  readonly installation: string
  readonly self: Self
  /** The account that runs the servers. Default: that of this process. */
  readonly runAs?: RunAs | undefined
}

export interface OpenServer extends ServerTools {
  settled(): Promise<void>
  close(): Promise<void>
}

// A larger message would be cut anyway, because a tool result is limited to 256 KiB.
const messageMaxBytes = 4_194_304
// A server that prints logs to stdout must not flood our log.
const warningsMax = 20

/** Throws InvalidInput if the declaration cannot be used. */
export function openServer(name: string, declared: McpDeclaration, options: McpOptions): OpenServer {
  const transport = declared.url === undefined ? program(name, declared, options) : remote(name, declared, declared.url)
  const server = openMcpServer({ ...options, name, transport })
  return {
    server: name,
    tools: hostedTools(server, declared),
    settled: () => server.settled(),
    close: () => server.close(),
  }
}

function program(name: string, declared: McpDeclaration, options: McpOptions): () => McpTransport {
  const { clock, guardian, ttlMs, graceMs, root, projectId, installation, self, log } = options
  const cwd = folderInside(root, declared.cwd)
  const own = Object.fromEntries(Object.entries(declared.env).map(([key, value]) => [key, expandEnvironment(value)]))
  const args = declared.args.map((arg) => expandEnvironment(arg))
  const { prefix, env: account } = options.runAs ?? { prefix: [], env: {} }
  const [first = '', ...rest] = [...prefix, declared.command ?? '', ...args]
  const command = [first, ...rest] as const
  // Agent ids have no capital letters, so this id never matches an agent. Hex keeps the ids of two servers distinct.
  const agentId = `MCP-${Buffer.from(name).toString('hex')}`
  let lives = 0
  return () => {
    lives += 1
    let warnings = 0
    const token = writeToken({ installation, ...self, projectId, agentId, agentTurnId: `MCP-${lives}`, turnEpoch: 0 })
    return stdioTransport({
      clock,
      guardian,
      command,
      cwd,
      env: { ...commandEnvironment([], { ...defined({ PATH: environment()['PATH'] }), ...own }, token), ...account },
      token,
      graceMs,
      renewMs: ttlMs / 4,
      messageMaxBytes,
      onError(message) {
        warnings += 1
        if (warnings <= warningsMax) log.warn({ server: name }, `MCP server: ${message}`)
      },
    })
  }
}

function remote(
  name: string,
  declared: McpDeclaration,
  declaredUrl: string,
): (events: TransportEvents) => McpTransport {
  const url = expandEnvironment(declaredUrl)
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new InvalidInput(`"url" of MCP server "${name}" must be an http or https URL`, { code: 'invalid_url' })
  const headers = Object.fromEntries(
    Object.entries(declared.headers).map(([key, value]) => [key, expandEnvironment(value)]),
  )
  return (events) => httpTransport({ url, headers, messageMaxBytes }, events)
}

/** Returns the same array until the server's list changes. */
function hostedTools(server: McpServer, declared: McpDeclaration): ServerTools['tools'] {
  let listed: ReturnType<McpServer['tools']> | undefined
  let serverTools: ReturnType<ServerTools['tools']> = []
  return () => {
    const now = server.tools()
    if (now !== listed) {
      listed = now
      serverTools = now.map(({ name: tool, description, parameters }) => ({
        tool,
        hosted: hostedTool(server, declared, { tool, description, parameters }),
      }))
    }
    return serverTools
  }
}

function hostedTool(
  server: McpServer,
  declared: McpDeclaration,
  { tool, description, parameters }: { tool: string; description: string; parameters: HostedTool['parameters'] },
): HostedTool {
  const {
    idempotent,
    timeout_seconds: timeoutSeconds,
    approve,
    approve_within_seconds: approveWithinSeconds,
  } = declared
  return {
    name: mcpName(server.name, tool),
    description,
    parameters,
    foreign: true,
    timeoutSeconds,
    idempotent: typeof idempotent === 'boolean' ? idempotent : idempotent.includes(tool),
    ...(approve === 'ask' || approve?.includes(tool) === true ? { approve: 'ask' as const } : {}),
    ...defined({ approveWithinSeconds }),
    async run(args, { signal }) {
      const timeoutMs = runSeconds({ timeoutSeconds }) * 1_000
      const response = await server.call(tool, args, { timeoutMs, signal })
      if (response.failed)
        throw new ToolFailure(response.text === '' ? 'the tool failed without a message' : response.text, {
          code: 'mcp_error',
        })
      return response.result
    },
  }
}
