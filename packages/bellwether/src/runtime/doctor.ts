/**
 * Checks whether a project folder can work: settings, agents, policies, tools, disk, database, NATS and port. A check changes nothing
 * and takes a few seconds at most. A failing check does not stop the others, and each finding that is not good says what to do.
 */
import { loadPolicies, policyFiles } from '../board/policies/load.js'
import { serverVersion } from '../kernel/reads/database.js'
import { constants } from 'node:fs'
import { access, readdir, readFile, stat, statfs } from 'node:fs/promises'
import { createConnection, createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { type Environment, errorMessage, systemClock, systemRandom } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { openDatabase } from '../ports/database/pool.js'
import { findBinaries } from '../ports/database/binaries.js'
import { defaultCallPolicy, exchangeTimeoutMs, retryCall } from '../ports/retry.js'
import { loadSettings, settingsFile } from '../settings/load.js'
import type { Settings } from '../settings/schema.js'
import { readAgentFile } from '../worker/roster/agent-file.js'
import { toolFiles } from './parts/tools.js'

export interface Finding {
  readonly check: string
  readonly state: 'good' | 'warning' | 'bad'
  readonly found: string
  /** What to do about it. */
  readonly fix?: string
}

export interface DoctorOptions {
  readonly folder: string
  readonly dataDir: string
  readonly env: Environment
}

type Check = () => Promise<Omit<Finding, 'check'>>

const good = (found: string) => ({ state: 'good', found }) as const
const warning = (found: string, fix: string) => ({ state: 'warning', found, fix }) as const
const bad = (found: string, fix: string) => ({ state: 'bad', found, fix }) as const

const oldestNode = 20
// Enough for a database, its write-ahead log and thousands of turns.
const freeMinBytes = 1_000_000_000
const watchesMin = 65_536

export async function examine(options: DoctorOptions): Promise<Finding[]> {
  const findings: Finding[] = []
  const run = async (check: string, find: Check): Promise<void> => {
    try {
      findings.push({ check, ...(await find()) })
    } catch (error) {
      const hint = error instanceof Terminal || error instanceof Retryable ? error.hint : undefined
      findings.push({ check, ...bad(errorMessage(error), hint ?? 'fix the cause that the message names') })
    }
  }
  let settings: Settings | undefined
  await run('node', node)
  await run('settings', async () => {
    settings = loadSettings({ folder: options.folder, env: options.env })
    return good((await exists(join(options.folder, settingsFile))) ? settingsFile : 'defaults')
  })
  await run('agents', () => agents(options.folder))
  await run('policies', () => policies(resolve(options.folder, settings?.board.root ?? '.')))
  await run('tools', () => tools(options.folder))
  await run('folder', () => writable(options.dataDir))
  await run('disk', () => disk(options.folder))
  await run('inotify', inotify)
  if (settings === undefined) return findings
  const { database, nats, server } = settings
  await run('database', () => (database.url === undefined ? embedded() : external(database.url)))
  if (nats.url !== undefined) await run('nats', () => broker(nats.url!))
  await run('port', () => port(server.host, server.port))
  return findings
}

const node: Check = async () => {
  const { node: version } = process.versions
  return Number(version.split('.')[0]) >= oldestNode
    ? good(version)
    : bad(version, `install Node ${oldestNode} or newer`)
}

async function agents(folder: string) {
  const names = await readdir(join(folder, 'agents')).catch(absent)
  const files = names?.filter((name) => name.endsWith('.md') && name !== 'README.md' && !name.startsWith('.')) ?? []
  if (files.length === 0) return warning('no agents', 'create two examples: bellwether init')
  const problems: string[] = []
  for (const file of files) {
    const read = readAgentFile(join('agents', file), await readFile(join(folder, 'agents', file), 'utf8'))
    if ('problems' in read) problems.push(...read.problems)
  }
  return problems.length === 0
    ? good(`${files.length} agent files`)
    : bad(problems.join('; '), 'correct the files; the other agents still work')
}

/** The policies in force: the defaults, or what the files of the task root say. */
async function policies(root: string) {
  const present: string[] = []
  for (const file of policyFiles) if (await exists(join(root, file))) present.push(file)
  const { calls, recovery, budget, knowledge, knowledgeError, acceptance, runtime } = await retryCall(
    defaultCallPolicy,
    { kind: 'local_state', name: 'reading the policies' },
    () => loadPolicies(root),
    { clock: systemClock, random: systemRandom },
  )
  const { maxTaskTokens, maxTaskCostUsd, maxTaskWallTimeSec, maxTaskRetries, onExceeded } = budget.global
  const limit = (value: number | null, unit: string) => (value === null ? `any number of ${unit}` : `${value} ${unit}`)
  const { command_routing: routing, local_state: state, external_message: message, synthesis } = calls.timeoutMs
  const agentNames = runtime.agents.map(({ id, capabilities }) =>
    capabilities.length === 0 ? id : `${id} (${capabilities.join(', ')})`,
  )
  const lines = [
    present.length === 0 ? 'defaults' : present.join(', '),
    `recovery    ${recovery.recoveryChain.join(' → ')}; ${recovery.default.maxAttempts} attempts, ${recovery.default.cooldownSec} s apart`,
    `budget      ${limit(maxTaskTokens, 'tokens')}, ${limit(maxTaskCostUsd, 'US dollars')}, ${limit(maxTaskWallTimeSec, 'seconds')}, ${limit(maxTaskRetries, 'runs')} per task; then ${onExceeded ?? 'the degrade policy'}${ownOf(budget.agents)}`,
    `acceptance  ${acceptance.default.minEvidence} piece(s) of evidence, ${acceptance.default.commands.length} verify commands${ownOf(acceptance.roles)}`,
    `knowledge   ${knowledge.enabled ? `${knowledge.maxItems} hints` : 'off'}`,
    `agents      ${agentNames.length === 0 ? 'every agent may take every task' : agentNames.join(', ')}`,
    `timeouts    routing ${routing / 1_000} s, local state ${state / 1_000} s, message ${message / 1_000} s, synthesis ${synthesis / 1_000} s; ${calls.retry.maxAttempts} tries`,
  ]
  const found = lines.join('\n')
  return knowledgeError === null
    ? good(found)
    : warning(`${found}\n${knowledgeError}`, 'correct the file; tasks run without hints')
}

/** Names the agents or roles with values of their own. */
const ownOf = (table: object): string =>
  Object.keys(table).length === 0 ? '' : `; other values for ${Object.keys(table).join(', ')}`

async function tools(folder: string) {
  const found: string[] = []
  for (const file of toolFiles) {
    const text = await readFile(join(folder, file), 'utf8').catch(absent)
    if (text === undefined) continue
    try {
      JSON.parse(text)
    } catch (error) {
      return bad(`${file}: ${errorMessage(error)}`, `correct ${file}: it must be valid JSON`)
    }
    found.push(file)
  }
  return good(found.length === 0 ? 'built-in tools only' : found.join(', '))
}

async function writable(dataDir: string) {
  for (const path of [dataDir, join(dataDir, '..')]) {
    if (!(await exists(path))) continue
    const isWritable = await access(path, constants.W_OK).then(
      () => true,
      () => false,
    )
    if (isWritable) return good(dataDir)
    return bad(`cannot write to ${path}`, 'make it writable for this account, or give --data DIR')
  }
  return bad(`cannot create ${dataDir}`, 'give --data DIR, or run in an existing folder')
}

async function disk(folder: string) {
  const { bavail, bsize } = await statfs(folder)
  const bytes = bavail * bsize
  const found = `${(bytes / 1e9).toFixed(1)} GB free`
  return bytes >= freeMinBytes
    ? good(found)
    : warning(found, 'free some space: PostgreSQL stops while the disk is full')
}

const inotify: Check = async () => {
  const text = await readFile('/proc/sys/fs/inotify/max_user_watches', 'utf8').catch(absent)
  if (text === undefined) return warning('not available', 'nothing to do: sensors poll instead')
  return Number(text) >= watchesMin
    ? good(`${text.trim()} watches`)
    : warning(`${text.trim()} watches`, `for large trees: sysctl fs.inotify.max_user_watches=${watchesMin * 8}`)
}

async function embedded() {
  await findBinaries()
  return good('embedded')
}

async function external(url: string) {
  const db = await openDatabase({ url, poolSize: 1, statementTimeoutMs: exchangeTimeoutMs })
  try {
    return good(`PostgreSQL ${await serverVersion(db)}`)
  } finally {
    await db.close()
  }
}

async function broker(servers: string) {
  for (const server of servers.split(',')) {
    const { hostname, port } = new URL(server.includes('://') ? server : `nats://${server}`)
    if (await isReachable(hostname, Number(port || 4222))) return good(hostname)
  }
  return bad(
    'no NATS server accepts connections',
    'start nats-server, or remove [nats] url to use PostgreSQL as the bell',
  )
}

async function port(host: string, wanted: number) {
  if (wanted === 0) return good('any free port')
  const error = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    const server = createServer()
    server.once('error', resolve).listen(wanted, host, () => server.close(() => resolve(undefined)))
  })
  if (error === undefined) return good(`${host}:${wanted} is free`)
  if (error.code !== 'EADDRINUSE') return bad(error.message, 'set [server] host to an address of this machine')
  return warning(`${host}:${wanted} is in use`, 'nothing to do if Bellwether runs; else choose another port (--port 0)')
}

function isReachable(host: string, to: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host, port: to, timeout: exchangeTimeoutMs })
    const end = (reachable: boolean) => {
      socket.destroy()
      resolve(reachable)
    }
    socket
      .once('connect', () => end(true))
      .once('error', () => end(false))
      .once('timeout', () => end(false))
  })
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(absent)) !== undefined
}

/** Maps ENOENT to undefined. */
function absent(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
  throw error
}
