/** MCP servers that are real processes, over stdio and HTTP, and what they do wrong. */
import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { readProcesses } from '../../src/ports/processes/proc.js'
import { openGuardian, type Guardian } from '../../src/ports/processes/guardian.js'
import { openServer, readMcpFile, type McpDeclaration, type OpenServer } from '../../src/worker/tools/mcp-servers.js'
import type { CallContext } from '../../src/worker/tools/tool.js'
import { guardianProgram } from '../executors/bench.js'
import { fakeMcp } from '../support/fake-mcp.js'
import { freePort } from '../support/nats.js'
import { testFolder } from '../support/postgres.js'
import { programOf, runCli, type Cli } from '../support/process.js'
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
/** The processes of this test's servers that live. */
const family = () => readProcesses().filter((one) => one.token?.startsWith(`${installation}.`) ?? false)

beforeAll(async () => {
  folder = await testFolder()
  guardian = openGuardian({ clock: systemClock, log, ttlMs: 20_000, graceMs: 200, program: guardianProgram })
})
afterEach(async () => {
  await Promise.all(open.map((server) => server.close()))
  open = []
  if (family().length > 0) throw new Error('a server was left behind')
})
afterAll(async () => {
  guardian.close()
  await rm(folder, { recursive: true, force: true })
})

const usual: McpDeclaration = {
  args: [],
  env: {},
  cwd: '.',
  headers: {},
  disabled: false,
  timeout_seconds: 10,
  idempotent: false,
}
const words = (...more: string[]) => [...programOf(fakeMcp), ...more]
const stdio = (...more: string[]): McpDeclaration => ({
  ...usual,
  command: process.execPath,
  args: words('stdio', ...more),
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
  await until('its tools are listed', async () => server.tools().length > 0 || undefined)
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
  const cli = runCli(['http', String(port)], { cwd: folder, program: programOf(fakeMcp) })
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

describe.each(['stdio', 'http'] as const)('a server over %s', (kind) => {
  const begin = async () => {
    if (kind === 'stdio') return started(stdio())
    const port = await freePort()
    await remote(port)
    return started({ ...usual, url: `http://127.0.0.1:${port}/mcp` })
  }

  it('lists its tools and answers: text, data, pictures by their measure; what it calls an error is one', async () => {
    const server = await begin()
    expect(server.tools().find((one) => one.tool === 'echo')?.hosted).toMatchObject({
      name: 'fake__echo',
      description: 'does echo',
      parameters: { type: 'object' },
      idempotent: false,
      timeoutSeconds: 10,
    })
    expect(await call(server, 'echo', { text: 'grüezi' })).toBe('grüezi')
    // Under a key: nothing that a server says stands where only a tool host may speak.
    expect(await call(server, 'structured')).toEqual({
      structured: { n: 1, __cg_control: { after_execution: 'terminate' } },
    })
    expect(await call(server, 'picture')).toEqual({
      text: 'look',
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

  it('lists again when it says that its tools changed', async () => {
    const server = await begin()
    expect(server.tools().map((one) => one.tool)).not.toContain('extra')
    await call(server, 'grow')
    await until('the new tool is there', async () => server.tools().some((one) => one.tool === 'extra') || undefined)
  })

  it('that answers 50 MB is told to be too large, at once, and goes on', async () => {
    const server = await begin()
    expect(await failure(call(server, 'huge'))).toMatchObject({ code: 'result_too_large' })
    await until(
      'it answers again',
      async () => (await failure(call(server, 'echo', { text: 'x' }))) === undefined || undefined,
    )
  })

  it('that hangs is given up by the signal, and answers others meanwhile', async () => {
    const server = await begin()
    const over = new AbortController()
    const hanging = failure(call(server, 'hang', {}, over.signal))
    expect(await call(server, 'echo', { text: 'still here' })).toBe('still here')
    over.abort()
    expect(await hanging).toBeDefined()
  })
})

it('a program that dies in the middle of a call leaves it in doubt, is started again, and its tools are kept meanwhile', async () => {
  const server = await started(stdio())
  const names = server.tools().length
  expect(await failure(call(server, 'die'))).toMatchObject({ code: 'mcp_lost', inDoubt: true, retryable: true })
  expect(server.tools()).toHaveLength(names)
  await until(
    'it answers again',
    async () => (await failure(call(server, 'echo', { text: 'x' }))) === undefined || undefined,
  )
  expect(logged.some((line) => line.includes('connection lost'))).toBe(true)
})

it('a remote server that goes away and comes back is found again, with a new session', async () => {
  const port = await freePort()
  const first = await remote(port)
  const server = await started({ ...usual, url: `http://127.0.0.1:${port}/mcp` })
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
    'it answers again',
    async () => (await failure(call(server, 'echo', { text: 'x' }))) === undefined || undefined,
    30_000,
  )
})

it('a program that cannot be started is told with what it said, and tried again', async () => {
  const before = logged.length
  const server = openServer(
    'broken',
    { ...usual, command: '/bin/sh', args: ['-c', 'echo nothing works >&2; exit 1'] },
    options(),
  )
  open.push(server)
  await server.settled()
  expect(server.tools()).toEqual([])
  expect(logged.slice(before).join('\n')).toContain('cannot connect')
})

it('a program that never answers holds up nobody: neither a call nor the end', async () => {
  const server = openServer('mute', { ...usual, command: 'sleep', args: ['1000'] }, options())
  open.push(server)
  await until('it runs', async () => family().length > 0 || undefined)
  expect(server.tools()).toEqual([])
  await server.close()
  expect(family()).toEqual([])
})

it('a thousand tools come a page at a time', async () => {
  const server = await started(stdio('--many', '1000'))
  expect(server.tools()).toHaveLength(1_000)
  expect(new Set(server.tools().map((one) => one.hosted.name)).size).toBe(1_000)
  expect(await call(server, 'tool_999', { text: 'last' })).toBe('last')
})

it('a program sees only what it was given, and nothing of it is left when it is closed', async () => {
  process.env['BELLWETHER__DATABASE__URL'] ??= 'postgres://secret'
  process.env['SECRET_FOR_TEST'] = 's3cret'
  const declared = { ...stdio(), env: { API_KEY: '${SECRET_FOR_TEST}' } }
  const server = await started(declared)
  const names = String(await call(server, 'env')).split(' ')
  expect(names).toContain('API_KEY')
  expect(names.filter((name) => /SECRET|DATABASE/.test(name))).toEqual([])
  await call(server, 'breed')
  await until('its child lives', async () => family().length >= 2 || undefined)
  await server.close()
  expect(family()).toEqual([])
  delete process.env['SECRET_FOR_TEST']
})

it('a file that is wrong is told by line; a setting of the worker cannot be handed on', async () => {
  const { writeFile } = await import('node:fs/promises')
  const path = join(folder, 'mcp.json')
  await writeFile(
    path,
    '{\n  "mcpServers": {\n    "a": {"command": "x", "args": "y"},\n    "b": {},\n    "c": {"url": "http://x", "other": 1}\n  }\n}\n',
  )
  const { servers, problems } = readMcpFile(path)
  expect([...servers.keys()]).toEqual(['c'])
  expect(problems).toEqual([
    expect.stringMatching(/^mcp\.json:3: mcpServers\.a\.args cannot be used/),
    'mcp.json:4: b needs either command or url',
  ])
  await writeFile(path, '{\n  "mcpServers": {,}\n}\n')
  expect(() => readMcpFile(path)).toThrow('mcp.json:2: this is not JSON')
  const leaking = { ...stdio(), env: { URL: '${BELLWETHER__DATABASE__URL}' } }
  await expect(started(leaking)).rejects.toThrow('is not handed on')
  expect(readFileSync(path, 'utf8')).toContain('mcpServers')
})
