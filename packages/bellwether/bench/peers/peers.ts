/**
 * Installs the peers on demand, beside this file and with their own lockfile (the product's install never does), and runs each as a child
 * process in a new database of the given server. After a run the child, everything it started, its database and its folder are gone. A
 * peer that fails or takes too long is an error, not a figure. ../measure.ts has the scenarios, *.mjs the tuning of each peer.
 */
import { spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { Figures } from '../cost.js'
import type { Scenario } from '../measure.js'

export const peerNames = ['graphile', 'pgboss', 'dbos', 'restate'] as const
export type PeerName = (typeof peerNames)[number]

const packages = [
  'graphile-worker',
  'pg-boss',
  '@dbos-inc/dbos-sdk',
  '@restatedev/restate-sdk',
  '@restatedev/restate-server',
] as const

const here = fileURLToPath(new URL('.', import.meta.url))
// On the repository's disk: a temporary folder may be memory, where Restate's syncs would cost nothing.
const scratch = fileURLToPath(new URL('../.peers/', import.meta.url))
/** A peer gets as large a young generation as Bellwether. */
const heapFlags = process.execArgv.filter((flag) => flag.startsWith('--max-semi-space-size'))
const installedMark = `${here}node_modules/.bench-installed`
const installMaxMs = 300_000 // 250 MB, most of it Restate's server
const childMaxMs = 60_000 // a scenario takes at most 30 s, starting and stopping the rest
const stderrMaxChars = 4_000 // the end of a stack trace is enough

/** Does nothing when the lockfile's packages are already there. */
export async function installPeers(onProgress: (line: string) => void): Promise<void> {
  const lock = readFileSync(`${here}package-lock.json`)
  const mark = `${createHash('sha256').update(lock).digest('hex')} ${process.platform}-${process.arch}`
  if (existsSync(installedMark) && readFileSync(installedMark, 'utf8') === mark) return
  onProgress('installing the peers (about 250 MB, once)')
  // Several declare a newer Node than they need. None needs its install script; one of these only sends telemetry.
  const flags = ['--ignore-scripts', '--engine-strict=false', '--no-audit', '--no-fund', '--loglevel=error']
  const npm = spawn('npm', ['ci', '--prefix', here, ...flags], {
    cwd: here,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: installMaxMs,
    killSignal: 'SIGKILL',
  })
  for (const stream of [npm.stdout, npm.stderr]) createInterface(stream).on('line', onProgress)
  const [code, signal] = (await once(npm, 'exit')) as [number | null, string | null]
  if (code !== 0) throw new Error(`installing the peers failed (${code ?? signal}); is the npm registry reachable?`)
  writeFileSync(installedMark, mark)
  onProgress('peers installed')
}

/** What is installed, by package name. */
export function peerVersions(): Record<string, string> {
  const version = (name: string) =>
    (JSON.parse(readFileSync(`${here}node_modules/${name}/package.json`, 'utf8')) as { version: string }).version
  return Object.fromEntries(packages.map((name) => [name, version(name)]))
}

export interface PeerOrder {
  /** Any database of the server; the role must be allowed to create databases. */
  readonly databaseUrl: string
  /** Jobs (or round trips, for idle) at most: what does not fit into the time for enqueuing is left out. */
  readonly n: number
}

export async function runPeer(name: PeerName, scenario: Scenario, { databaseUrl, n }: PeerOrder): Promise<Figures> {
  mkdirSync(scratch, { recursive: true })
  const folder = mkdtempSync(`${scratch}${name}-`)
  const database = `bench_${name}_${randomUUID().slice(0, 8)}`
  const own = new URL(databaseUrl)
  own.pathname = `/${database}`
  try {
    await onServer(databaseUrl, `create database ${database}`)
    return await figuresOf(name, JSON.stringify({ databaseUrl: own.href, scenario, n, folder }))
  } finally {
    rmSync(folder, { recursive: true, force: true })
    await onServer(databaseUrl, `drop database if exists ${database} with (force)`)
  }
}

async function figuresOf(name: PeerName, order: string): Promise<Figures> {
  // Its own process group, so that nothing it starts outlives it. It exits when its stdin closes.
  const child = spawn(process.execPath, [...heapFlags, '--import', import.meta.resolve('tsx'), `${here}${name}.mjs`, order], {
    cwd: here,
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
    env: { ...process.env, DO_NOT_TRACK: '1' },
  })
  let printed = ''
  let errors = ''
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(-stderrMaxChars)))
  const late = setTimeout(() => endGroup(child.pid), childMaxMs)
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
    if (code !== 0) throw new Error(`${name} ended with ${code ?? signal}:\n${errors}`)
    return JSON.parse(printed) as Figures
  } finally {
    clearTimeout(late)
    endGroup(child.pid)
  }
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    // ESRCH is expected: no process is left in the group.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

async function onServer(databaseUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
