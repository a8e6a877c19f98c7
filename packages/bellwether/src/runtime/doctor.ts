/**
 * Checks whether a project folder can work: settings, agents, tools, disk, database, NATS and port. A check changes nothing and takes
 * a few seconds at most. A failing check does not stop the others, and each finding that is not good says what to do.
 */
import { serverVersion } from '../kernel/reads/database.js'
import { constants } from 'node:fs'
import { access, readdir, readFile, stat, statfs } from 'node:fs/promises'
import { createConnection, createServer } from 'node:net'
import { join } from 'node:path'
import { type Environment, errorMessage } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { openDatabase } from '../ports/database/pool.js'
import { findBinaries } from '../ports/database/binaries.js'
import { exchangeTimeoutMs } from '../ports/retry.js'
import { loadSettings, settingsFile } from '../settings/load.js'
import type { Settings } from '../settings/schema.js'
import { readAgentFile } from '../worker/roster/agent-file.js'

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

async function tools(folder: string) {
  const found: string[] = []
  for (const file of ['mcp.json', 'tools.json']) {
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
    const { hostname, port: given } = new URL(server.includes('://') ? server : `nats://${server}`)
    if (await answers(hostname, Number(given || 4222))) return good(hostname)
  }
  return bad('no NATS server answers', 'start nats-server, or remove [nats] url to use PostgreSQL as the bell')
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

function answers(host: string, to: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host, port: to, timeout: exchangeTimeoutMs })
    const end = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
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
