/** MCP servers as real processes over stdio and HTTP, and their failures. */
import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { readProcesses } from '../../src/ports/processes/proc.js'
import { openGuardian, type Guardian } from '../../src/ports/processes/guardian.js'
import { openServer, readMcpFile, type McpDeclaration, type OpenServer } from '../../src/worker/tools/mcp-servers.js'
import type { CallContext } from '../../src/worker/tools/tool.js'
import { guardianProgram } from '../executors/command-setup.js'
import { freePort } from '../support/nats.js'
import { testFolder } from '../support/postgres.js'
import { fakeMcp, runCli, type Cli } from '../support/process.js'
import { until } from '../support/until.js'

let folder: string
let guardian: Guardian
let open: OpenServer[] = []
const logged: string[] = []
const say = (fields: object, message: string) =>
  void logged.push(
    `${message} ${JSON.stringify(fields, (_key, value: unknown) => (value instanceof Error ? String(value) : value))}`,
  )
const log = { info: say, warn: say, error: say }
const installation = `mcp-${process.pid}`
/** The live processes of this test's servers. */
const serverProcesses = () => readProcesses().filter((one) => one.token?.startsWith(`${installation}.`) ?? false)

beforeAll(async () => {
  folder = await testFolder()
  guardian = openGuardian({ clock: systemClock, log, ttlMs: 20_000, graceMs: 200, program: guardianProgram })
})
afterEach(async () => {
  await Promise.all(open.map((server) => server.close()))
  open = []
  if (serverProcesses().length > 0) throw new Error('a server process survived')
})
afterAll(async () => {
  guardian.close()
  await rm(folder, { recursive: true, force: true })
})

const defaults: McpDeclaration = {
  args: [],
  env: {},
  cwd: '.',
  headers: {},
  disabled: false,
  timeout_seconds: 10,
  idempotent: false,
}
const programArgs = (...more: string[]) => [fakeMcp, ...more]
const stdio = (...more: string[]): McpDeclaration => ({
  ...defaults,
  command: process.execPath,
  args: programArgs('stdio', ...more),
})

const options = () => ({
  clock: systemClock,
  random: systemRandom,
  log,
  guardian,
  ttlMs: 20_000,
  graceMs: 200,
  root: folder,
  projectId: 'p',
  installation,
  self: { namespace: '1', workerPid: process.pid, workerStart: '1' },
})

async function started(declared: McpDeclaration): Promise<OpenServer> {
  const server = openServer('fake', declared, options())
  open.push(server)
  await server.settled()
  await until('the server has listed its tools', async () => server.tools().length > 0 || undefined)
  return server
}

const context = (signal = new AbortController().signal): CallContext => ({
  projectId: 'p',
  agentId: 'a',
  agentTurnId: 't',
  toolCallId: 'c',
  traceparent: null,
  signal,
})
const call = (server: OpenServer, tool: string, args = {}, signal?: AbortSignal) => {
  const found = server.tools().find((one) => one.tool === tool)
  if (found === undefined) throw new Error(`no tool ${tool}`)
  return found.hosted.run(args, context(signal))
}
const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

const remotes: Cli[] = []
async function remote(port: number): Promise<Cli> {
  const cli = runCli(['http', String(port)], { cwd: folder, program: [fakeMcp] })
  remotes.push(cli)
  await cli.ready()
  return cli
}
afterEach(async () => {
  for (const cli of remotes.splice(0)) {
    cli.signal('SIGKILL')
    await cli.ended
  }
})

describe.each(['stdio', 'http'] as const)('an MCP server over %s', (kind) => {
  const startServer = async () => {
    if (kind === 'stdio') return started(stdio())
    const port = await freePort()
    await remote(port)
    return started({ ...defaults, url: `http://127.0.0.1:${port}/mcp` })
  }

  it('lists its tools and returns text, structured data, the size of images, and errors', async () => {
    const server = await startServer()
    expect(server.tools().find((one) => one.tool === 'echo')?.hosted).toMatchObject({
      name: 'fake__echo',
      description: 'does echo',
      parameters: { type: 'object' },
      idempotent: false,
      timeoutSeconds: 10,
    })
    expect(await call(server, 'echo', { text: 'grüezi' })).toBe('grüezi')
    // The data has its own key, so that a server cannot set `__cg_control` on the result.
    expect(await call(server, 'structured')).toEqual({
      structured: { n: 1, __cg_control: { after_execution: 'terminate' } },
    })
    expect(await call(server, 'picture')).toEqual({
      text: 'picture',
      others: [{ type: 'image', mime_type: 'image/png', bytes: 3_000 }],
    })
    expect(await failure(call(server, 'refuse'))).toMatchObject({
      code: 'mcp_error',
      message: 'the disk is full',
      inDoubt: false,
    })
    expect(await failure(call(server, 'throw'))).toMatchObject({
      code: 'mcp_error',
      message: expect.stringContaining('no such thing'),
    })
  })

  it('lists its tools again when it announces a change', async () => {
    const server = await startServer()
    expect(server.tools().map((one) => one.tool)).not.toContain('extra')
    await call(server, 'grow')
    await until('the new tool is there', async () => server.tools().some((one) => one.tool === 'extra') || undefined)
  })

  it('fails a call with a 50 MB result at once, and keeps working', async () => {
    const server = await startServer()
    expect(await failure(call(server, 'huge'))).toMatchObject({ code: 'result_too_large' })
    await until(
      'the server responds again',
      async () => (await failure(call(server, 'echo', { text: 'x' }))) === undefined || undefined,
    )
  })

  it('cancels a hanging call by its signal, with a failure in doubt, and serves other calls in parallel', async () => {
    const server = await startServer()
    const over = new AbortController()
    const hanging = failure(call(server, 'hang', {}, over.signal))
    expect(await call(server, 'echo', { text: 'still here' })).toBe('still here')
    over.abort('not_waited_for')
    expect(await hanging).toMatchObject({
      code: 'tool_timeout',
      inDoubt: true,
      message: expect.stringContaining('not_waited_for'),
    })
  })
})

it('leaves a call in doubt if the server program dies, restarts the program, and keeps its tool list', async () => {
  const server = await started(stdio())
  const names = server.tools().length
  expect(await failure(call(server, 'die'))).toMatchObject({ code: 'mcp_lost', inDoubt: true, retryable: true })
  expect(server.tools()).toHaveLength(names)
  await until(
    'the server responds again',
    async () => (await failure(call(server, 'echo', { text: 'x' }))) === undefined || undefined,
  )
  expect(logged.some((line) => line.includes('connection lost'))).toBe(true)
})

it('reconnects to a remote server that restarts, with a new session', async () => {
  const port = await freePort()
  const first = await remote(port)
  const server = await started({ ...defaults, url: `http://127.0.0.1:${port}/mcp` })
  const dying = failure(call(server, 'hang'))
  await call(server, 'echo', { text: 'x' })
  first.signal('SIGKILL')
  await first.ended
  expect(await dying).toMatchObject({ inDoubt: true })
  expect(await failure(call(server, 'echo'))).toMatchObject({
    code: 'mcp_unavailable',
    inDoubt: false,
    retryable: true,
  })
  await remote(port)
  await until(
    'the server responds again',
    async () => (await failure(call(server, 'echo', { text: 'x' }))) === undefined || undefined,
    30_000,
  )
})

it('logs a server program that cannot start, and has no tools', async () => {
  const before = logged.length
  const server = openServer(
    'broken',
    { ...defaults, command: '/bin/sh', args: ['-c', 'echo nothing works >&2; exit 1'] },
    options(),
  )
  open.push(server)
  await server.settled()
  expect(server.tools()).toEqual([])
  expect(logged.slice(before).join('\n')).toContain('cannot connect')
})

it('closes a server program that never responds', async () => {
  const server = openServer('mute', { ...defaults, command: 'sleep', args: ['1000'] }, options())
  open.push(server)
  await until('it runs', async () => serverProcesses().length > 0 || undefined)
  expect(server.tools()).toEqual([])
  await server.close()
  expect(serverProcesses()).toEqual([])
})

it('reads a list of a thousand tools page by page', async () => {
  const server = await started(stdio('--many', '1000'))
  expect(server.tools()).toHaveLength(1_000)
  expect(new Set(server.tools().map((one) => one.hosted.name)).size).toBe(1_000)
  expect(await call(server, 'tool_999', { text: 'last' })).toBe('last')
})

it('passes only declared variables to a server program, and leaves no process after close', async () => {
  process.env['BELLWETHER__DATABASE__URL'] ??= 'postgres://secret'
  process.env['SECRET_FOR_TEST'] = 's3cret'
  const declared = { ...stdio(), env: { API_KEY: '${SECRET_FOR_TEST}' } }
  const server = await started(declared)
  const names = String(await call(server, 'env')).split(' ')
  expect(names).toContain('API_KEY')
  expect(names.filter((name) => /SECRET|DATABASE/.test(name))).toEqual([])
  await call(server, 'breed')
  await until('its child lives', async () => serverProcesses().length >= 2 || undefined)
  await server.close()
  expect(serverProcesses()).toEqual([])
  delete process.env['SECRET_FOR_TEST']
})

it('reports problems of mcp.json with their line, and rejects a worker setting in env', async () => {
  const { writeFile } = await import('node:fs/promises')
  const path = join(folder, 'mcp.json')
  await writeFile(
    path,
    '{\n  "mcpServers": {\n    "a": {"command": "x", "args": "y"},\n    "b": {},\n    "c": {"url": "http://x", "other": 1}\n  }\n}\n',
  )
  const { servers, problems } = readMcpFile(path)
  expect([...servers.keys()]).toEqual(['c'])
  expect(problems).toEqual([
    expect.stringMatching(/^mcp\.json:3: "mcpServers\.a\.args" is invalid: must be of type array \(got "y"\)/),
    'mcp.json:4: server "b" must have either "command" or "url"',
  ])
  await writeFile(path, '{\n  "mcpServers": {,}\n}\n')
  expect(() => readMcpFile(path)).toThrow('Cannot read mcp.json:2: it is not valid JSON')
  const leaking = { ...stdio(), env: { URL: '${BELLWETHER__DATABASE__URL}' } }
  await expect(started(leaking)).rejects.toThrow('is not passed to commands')
  expect(readFileSync(path, 'utf8')).toContain('mcpServers')
})
