/**
 * MCP servers, declared in `mcp.json` in the usual form, as tools of this process. Always: a program sees only what its declaration
 * and the few usual variables give it, works inside the project folder, and goes with its worker; what a server says of its own
 * tools decides nothing: how long a call may take and whether it may be repeated is declared here.
 */
import type { Clock, Log, Random } from '@bellwether/base'
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
import { writeToken } from '../../ports/processes/token.js'
import { ToolFailure } from '../../ports/tools/tool-failure.js'
import type { ServerTools } from './catalogue.js'
import { timeoutMaxSeconds } from './define-tool.js'
import { mcpName } from './names.js'
import { problemsOf, readDeclarations } from './read-file.js'
import { runSeconds } from './timing.js'
import type { HostedTool } from './tool.js'

const texts = z.record(z.string(), z.string().max(32_768))
// Not strict: other programs keep keys of their own in this file.
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
})
export type McpDeclaration = z.output<typeof shape>
const keys = Object.keys(shape.shape)
const fileShape = z.object({ mcpServers: z.record(z.string().min(1).max(100), z.unknown()).default({}) })

// Each is a process of its own, in every worker.
const serversMax = 50

export interface McpFile {
  readonly servers: ReadonlyMap<string, McpDeclaration>
  readonly problems: readonly string[]
}

/** Throws when the file is there and is no JSON, or not of this form. */
export function readMcpFile(path: string): McpFile {
  const declarations = readDeclarations(path)
  const servers = new Map<string, McpDeclaration>()
  const problems: string[] = []
  if (declarations === undefined) return { servers, problems }
  const file = fileShape.safeParse(declarations.values)
  if (!file.success) {
    throw new InvalidInput(problemsOf(file.error, declarations, [], ['mcpServers']).join('; '), {
      code: 'tools_file_bad',
      hint: '{"mcpServers": {"NAME": {"command": …, "args": […]}}}',
    })
  }
  for (const [name, value] of Object.entries(file.data.mcpServers)) {
    const above = ['mcpServers', name]
    const parsed = shape.safeParse(value)
    if (!parsed.success) problems.push(...problemsOf(parsed.error, declarations, above, keys))
    else if ((parsed.data.command === undefined) === (parsed.data.url === undefined))
      problems.push(`${declarations.at(above)}: ${name} needs either command or url`)
    else if (servers.size === serversMax) problems.push(`${declarations.at(above)}: more than ${serversMax} servers`)
    else if (!parsed.data.disabled) servers.set(name, parsed.data)
  }
  return { servers, problems }
}

export interface McpOptions {
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly guardian: Guardian
  /** How long the guardian waits for a sign of life. */
  readonly ttlMs: number
  readonly graceMs: number
  /** The folder that no server is started outside of. */
  readonly root: string
  readonly projectId: string
  readonly installation: string
  readonly self: Self
}

export interface OpenServer extends ServerTools {
  settled(): Promise<void>
  close(): Promise<void>
}

// A page of a book is 3 KB: what is larger than this is no answer, and would be cut anyway.
const messageMaxBytes = 4_194_304
// A server that logs to stdout would fill our log.
const complaintsMax = 20

/** Throws InvalidInput when it cannot be started as declared. */
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
  const command = [declared.command ?? '', ...args] as const
  // No agent has capital letters in its name: nobody takes it for a turn's. In hex, so that no two servers share one.
  const agentId = `MCP-${Buffer.from(name).toString('hex')}`
  let lives = 0
  return () => {
    lives += 1
    let complaints = 0
    const token = writeToken({
      installation,
      ...self,
      projectId,
      agentId,
      agentTurnId: `MCP-${lives}`,
      turnEpoch: 0,
    })
    return stdioTransport({
      clock,
      guardian,
      command,
      cwd,
      env: { ...commandEnvironment([], own, token) },
      token,
      graceMs,
      renewMs: ttlMs / 4,
      messageMaxBytes,
      onError(message) {
        complaints += 1
        if (complaints <= complaintsMax) log.warn({ server: name }, `an MCP server: ${message}`)
      },
    })
  }
}

function remote(
  name: string,
  declared: McpDeclaration,
  declaredUrl: string,
): (trouble: TransportEvents) => McpTransport {
  const url = expandEnvironment(declaredUrl)
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new InvalidInput(`the url of ${name} is no http or https address`, { code: 'invalid_url' })
  const headers = Object.fromEntries(
    Object.entries(declared.headers).map(([key, value]) => [key, expandEnvironment(value)]),
  )
  return (trouble) => httpTransport({ url, headers, messageMaxBytes }, trouble)
}

/** The same list as long as the server lists the same. */
function hostedTools(server: McpServer, declared: McpDeclaration): ServerTools['tools'] {
  let listed: ReturnType<McpServer['tools']> | undefined
  let made: ReturnType<ServerTools['tools']> = []
  return () => {
    const now = server.tools()
    if (now !== listed) {
      listed = now
      made = now.map(({ name: tool, description, parameters }) => ({
        tool,
        hosted: hostedTool(server, declared, { tool, description, parameters }),
      }))
    }
    return made
  }
}

function hostedTool(
  server: McpServer,
  declared: McpDeclaration,
  { tool, description, parameters }: { tool: string; description: string; parameters: HostedTool['parameters'] },
): HostedTool {
  const { idempotent, timeout_seconds: timeoutSeconds } = declared
  return {
    name: mcpName(server.name, tool),
    description,
    parameters,
    foreign: true,
    timeoutSeconds,
    idempotent: typeof idempotent === 'boolean' ? idempotent : idempotent.includes(tool),
    async run(args, { signal }) {
      const timeoutMs = runSeconds({ timeoutSeconds }) * 1_000
      const answer = await server.call(tool, args, { timeoutMs, signal })
      if (answer.failed)
        throw new ToolFailure(answer.text === '' ? 'the tool failed' : answer.text, { code: 'mcp_error' })
      return answer.result
    },
  }
}
