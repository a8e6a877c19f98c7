/**
 * What could keep a project folder from working, looked at one by one. Always: a look changes nothing and takes a few seconds at
 * most; each finding says what to do; one look that fails does not keep the others from being made.
 */
import { serverVersion } from '../kernel/reads/database.js'
import { constants } from 'node:fs'
import { access, readdir, readFile, stat, statfs } from 'node:fs/promises'
import { createConnection, createServer } from 'node:net'
import { join } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { openDatabase } from '../ports/database/pool.js'
import { findBinaries } from '../ports/database/binaries.js'
import { exchangeTimeoutMs } from '../ports/retry.js'
import { loadSettings, settingsFile } from '../settings/load.js'
import type { Settings } from '../settings/schema.js'
import { readAgentFile } from '../worker/roster/agent-file.js'

export interface Finding {
  readonly what: string
  readonly state: 'good' | 'warning' | 'bad'
  readonly found: string
  /** What to do about it. */
  readonly mend?: string
}

export interface DoctorOptions {
  readonly folder: string
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
}

type Look = () => Promise<Omit<Finding, 'what'>>

const good = (found: string) => ({ state: 'good', found }) as const
const warning = (found: string, mend: string) => ({ state: 'warning', found, mend }) as const
const bad = (found: string, mend: string) => ({ state: 'bad', found, mend }) as const

const oldestNode = 20
// A database, its log and a night of turns.
const roomMinBytes = 1_000_000_000
const watchesMin = 65_536

export async function examine(options: DoctorOptions): Promise<Finding[]> {
  const findings: Finding[] = []
  const look = async (what: string, ask: Look): Promise<void> => {
    try {
      findings.push({ what, ...(await ask()) })
    } catch (error) {
      const mend = error instanceof Terminal || error instanceof Retryable ? error.hint : undefined
      const found = errorMessage(error)
      findings.push({ what, ...bad(found, mend ?? 'see the message') })
    }
  }
  let settings: Settings | undefined
  await look('node', node)
  await look('settings', async () => {
    settings = loadSettings({ folder: options.folder, env: options.env })
    return good((await isThere(join(options.folder, settingsFile))) ? settingsFile : 'the defaults')
  })
  await look('agents', () => agents(options.folder))
  await look('tools', () => tools(options.folder))
  await look('folder', () => writable(options.dataDir))
  await look('room', () => room(options.folder))
  await look('watches', watches)
  if (settings === undefined) return findings
  const { database, nats, server } = settings
  await look('database', () => (database.url === undefined ? embedded() : external(database.url)))
  if (nats.url !== undefined) await look('nats', () => broker(nats.url!))
  await look('port', () => port(server.host, server.port))
  return findings
}

const node: Look = async () => {
  const { node: version } = process.versions
  return Number(version.split('.')[0]) >= oldestNode
    ? good(version)
    : bad(version, `Node ${oldestNode} or newer is needed`)
}

async function agents(folder: string) {
  const names = await readdir(join(folder, 'agents')).catch(absent)
  const files = names?.filter((name) => name.endsWith('.md') && name !== 'README.md' && !name.startsWith('.')) ?? []
  if (files.length === 0) return warning('no agents', 'bellwether init makes two examples')
  const problems: string[] = []
  for (const file of files) {
    const read = readAgentFile(join('agents', file), await readFile(join(folder, 'agents', file), 'utf8'))
    if ('problems' in read) problems.push(...read.problems)
  }
  return problems.length === 0
    ? good(`${files.length}`)
    : bad(problems.join('; '), 'mend the files; others go on working')
}

async function tools(folder: string) {
  const found: string[] = []
  for (const file of ['mcp.json', 'tools.json']) {
    const text = await readFile(join(folder, file), 'utf8').catch(absent)
    if (text === undefined) continue
    try {
      JSON.parse(text)
    } catch (error) {
      return bad(`${file}: ${errorMessage(error)}`, `mend ${file}: it is no JSON`)
    }
    found.push(file)
  }
  return good(found.length === 0 ? 'built-in ones only' : found.join(', '))
}

async function writable(dataDir: string) {
  for (const path of [dataDir, join(dataDir, '..')]) {
    if (!(await isThere(path))) continue
    await access(path, constants.W_OK)
    return good(dataDir)
  }
  return bad(`${dataDir} cannot be made`, 'give --data DIR, or run in a folder that exists')
}

async function room(folder: string) {
  const { bavail, bsize } = await statfs(folder)
  const bytes = bavail * bsize
  const told = `${(bytes / 1e9).toFixed(1)} GB free`
  return bytes >= roomMinBytes
    ? good(told)
    : warning(told, 'make room: a full disk stops the database until there is some')
}

const watches: Look = async () => {
  const text = await readFile('/proc/sys/fs/inotify/max_user_watches', 'utf8').catch(absent)
  if (text === undefined) return warning('no inotify', 'sensors will look again and again instead')
  return Number(text) >= watchesMin
    ? good(text.trim())
    : warning(text.trim(), `for large trees: sysctl fs.inotify.max_user_watches=${watchesMin * 8}`)
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
    const { hostname, port: asked } = new URL(server.includes('://') ? server : `nats://${server}`)
    if (await answers(hostname, Number(asked || 4222))) return good(hostname)
  }
  return bad('no NATS server answers', 'start nats-server, or leave [nats] url out: PostgreSQL is the bell then')
}

async function port(host: string, wanted: number) {
  if (wanted === 0) return good('any free one')
  const refusal = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    const server = createServer()
    server.once('error', resolve).listen(wanted, host, () => server.close(() => resolve(undefined)))
  })
  if (refusal === undefined) return good(`${host}:${wanted} is free`)
  if (refusal.code !== 'EADDRINUSE') return bad(refusal.message, 'set [server] host to an address of this machine')
  return warning(`${host}:${wanted} is taken`, 'by a running Bellwether, or give another: --port 0 picks a free one')
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

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(absent)) !== undefined
}

/** Undefined for what is not there; anything else is somebody's to mend. */
function absent(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
  throw error
}
