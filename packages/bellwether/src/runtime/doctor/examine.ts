/**
 * Checks whether a project folder can work: settings, agents with their programs and keys, policies, tools, git, disk, database and network. A check
 * changes nothing, runs no program of the project and takes a few seconds at most. A failing check does not stop the others, and each finding that is
 * not good says what to do.
 */
import { loadPolicies, policyFiles } from '../../board/policies/load.js'
import { budgetFile } from '../../board/policies/budget.js'
import { acceptanceFile } from '../../board/policies/acceptance-policy.js'
import { human, recoveryFile } from '../../board/policies/recovery.js'
import { serverVersion } from '../../kernel/reads/database.js'
import { constants } from 'node:fs'
import { access, readFile, stat, statfs } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { type Environment, errorMessage, systemClock, systemRandom } from '@bellwether/base'
import { Retryable, Terminal, plural } from '@bellwether/protocol'
import { openDatabase } from '../../ports/database/pool.js'
import { findBinaries } from '../../ports/database/binaries.js'
import { defaultCallPolicy, exchangeTimeoutMs, retryCall } from '../../ports/retry.js'
import { readSpendingLimits, readTimeZone } from '../../settings/spending.js'
import { loadSettings, settingsFile } from '../../settings/load.js'
import { readProjectFile } from '../../settings/regular-file.js'
import type { Settings } from '../../settings/schema.js'
import { holderOf } from '../parts/listen.js'
import { plain } from '../../client/sanitize.js'
import { readControlFiles, type ProjectFolders } from '../control/files.js'
import { inspect, trustFolderOf } from '../control/trust.js'
import { databaseFolder, declaredToolFiles, mcpFile, oldDataFolder } from '../paths.js'
import { agentFiles, checkAgents, checkKeys, checkLimits, checkPrograms, readAgents } from './agents.js'
import { absent, bad, good, warning, type Finding, type Found } from './finding.js'
import { checkSchedules } from './schedules.js'
import { isReachable } from './reachable.js'
import {
  checkClock,
  checkEndpoints,
  checkGit,
  checkSandbox,
  checkModes,
  checkUp,
  readUp,
  type RunningUp,
} from './surroundings.js'

export interface DoctorOptions {
  readonly folder: string
  readonly dataDir: string
  readonly env: Environment
}

type Check = () => Promise<Found> | Found

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
  const { folder, dataDir, env } = options
  let settings: Settings | undefined
  const root = () => settings?.board.root ?? '.'
  await run('node', node)
  await run('settings', async () => {
    settings = loadSettings({ folder, env })
    return good((await exists(join(folder, settingsFile))) ? settingsFile : 'defaults')
  })
  const read = await readAgents(folder, settings?.worker.agents !== undefined)
  await run('agents', () => checkAgents(read))
  await run('programs', () => checkPrograms(read, folder, env))
  await run('keys', () => checkKeys(read, folder, env))
  await run('policies', () => policies(resolve(folder, root()), folder))
  await run('limits', async () =>
    checkLimits(read, (await readPolicies(resolve(folder, root()))).budget, budgetFile.path),
  )
  await run('tools', () => tools(folder))
  await run('schedules', () => checkSchedules(folder, read))
  await run('trust', () => trust(folder, dataDir, { folder, root: root(), agentsFile: settings?.worker.agents }))
  await run('account', () => account(env))
  await run('sandbox', () => checkSandbox(settings))
  await run('folder', () => writable(folder, dataDir))
  await run('modes', () => checkModes(dataDir))
  await run('git', () => checkGit(folder, root()))
  await run('disk', () => disk(folder, dataDir))
  await run('clock', () => checkClock(systemClock.wallMs()))
  await run('inotify', inotify)
  if (settings === undefined) return findings
  const { database, nats, server, spending } = settings
  await run('spending', async () => {
    readTimeZone(spending.time_zone)
    const limits = readSpendingLimits(spending.limits)
    return good(limits.length === 0 ? 'no limits per day or month' : spending.limits)
  })
  await run('database', () => (database.url === undefined ? embedded() : external(database.url)))
  if (nats.url !== undefined) await run('nats', () => broker(nats.url!))
  await run('endpoints', () => checkEndpoints(folder, settings!))
  let up: RunningUp | undefined
  await run('up', async () => checkUp((up = await readUp(dataDir))))
  await run('port', () => port(server.host, server.port, up))
  return findings
}

const node: Check = async () => {
  const { node: version } = process.versions
  return Number(version.split('.')[0]) >= oldestNode
    ? good(version)
    : bad(version, `install Node ${oldestNode} or newer`)
}

const readPolicies = (root: string) =>
  retryCall(defaultCallPolicy, { kind: 'local_state', name: 'reading the policies' }, () => loadPolicies(root), {
    clock: systemClock,
    random: systemRandom,
  })

/** The policies in force: the defaults, or what the files of the task root say. */
async function policies(root: string, folder: string) {
  const present: string[] = []
  for (const file of policyFiles) if (await exists(join(root, file))) present.push(file)
  const { calls, recovery, budget, knowledge, knowledgeError, acceptance, runtime } = await readPolicies(root)
  const { maxTaskTokens, maxTaskCostUsd, maxTaskWallTimeSec, maxTaskRetries, onExceeded } = budget.global
  const limit = (value: number | null, unit: string) => (value === null ? `any number of ${unit}` : `${value} ${unit}`)
  const { command_routing: routing, local_state: state, external_message: message, synthesis } = calls.timeoutMs
  const agentNames = runtime.agents.map(({ id, capabilities }) =>
    capabilities.length === 0 ? id : `${id} (${capabilities.join(', ')})`,
  )
  const named = new Set((await agentFiles(folder)).map((file) => file.slice(0, -'.md'.length).toLowerCase()))
  const missing = recovery.recoveryChain.filter((name) => name !== human && !named.has(name))
  const chain = recovery.recoveryChain.map((name) => (missing.includes(name) ? `${name} (no agent file)` : name))
  // Built-in values of roles that no agent here has say nothing about this project.
  const rolesHere = Object.fromEntries(
    Object.entries(acceptance.roles).filter(
      ([name]) => named.has(name) || !Object.hasOwn(acceptanceFile.defaults.roles, name),
    ),
  )
  const lines = [
    present.length === 0 ? 'defaults' : present.join(', '),
    `recovery    ${recovery.sameAgentFirst ? 'the same agent again → ' : ''}${chain.join(' → ')}; ${recovery.default.maxAttempts} attempts, ${recovery.default.cooldownSec} s apart`,
    `budget      ${limit(maxTaskTokens, 'tokens')}, ${limit(maxTaskCostUsd, 'US dollars')}, ${limit(maxTaskWallTimeSec, 'seconds')}, ${limit(maxTaskRetries, 'runs')} per task; then ${onExceeded ?? 'the degrade policy'}${ownOf(budget.agents)}`,
    `acceptance  ${plural(acceptance.default.minEvidence, 'piece')} of evidence, ${plural(acceptance.default.commands.length, 'verify command')}${ownOf(rolesHere)}`,
    `knowledge   ${knowledge.enabled ? `${knowledge.maxItems} hints` : 'off'}`,
    `agents      ${agentNames.length === 0 ? 'every agent may take every task' : agentNames.join(', ')}`,
    `timeouts    routing ${routing / 1_000} s, local state ${state / 1_000} s, message ${message / 1_000} s, synthesis ${synthesis / 1_000} s; ${calls.retry.maxAttempts} tries`,
  ]
  const found = lines.join('\n')
  if (knowledgeError !== null)
    return warning(`${found}\n${knowledgeError}`, 'correct the file; tasks run without hints')
  // The default chain is that of the reference; the board skips its members that do not exist.
  if (missing.length === 0 || !present.includes(recoveryFile.path)) return good(found)
  const files = missing.map((name) => `agents/${name}.md`).join(', ')
  return warning(
    found,
    `${recoveryFile.path} names agents that have no file, and recovery skips those that no worker registers either: create ${files}, or remove them from "recoveryChain"`,
  )
}

/** Names the agents or roles with values of their own. */
const ownOf = (table: object): string =>
  Object.keys(table).length === 0 ? '' : `; other values for ${Object.keys(table).join(', ')}`

async function tools(folder: string) {
  const found: string[] = []
  for (const file of [mcpFile, ...declaredToolFiles]) {
    const text = await readProjectFile(join(folder, file)).catch(absent)
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

/** What `up` would ask about, and files that a turn changed. */
async function trust(folder: string, dataDir: string, project: ProjectFolders) {
  const home = trustFolderOf(folder, dataDir)
  const { untrusted, held } = inspect({ project, home, files: readControlFiles(project), copy: folder })
  const fix = 'look at it and accept it: bellwether trust'
  if (held.length > 0) return warning(`changed by a turn and not in force: ${held.map(plain).join(', ')}`, fix)
  return untrusted.length === 0 ? good('nothing to accept') : warning(`${untrusted.length} not trusted yet`, fix)
}

/** As root, an agent can read and change everything on this machine. */
async function account({ SUDO_USER: sudoUser }: Environment) {
  if (process.geteuid?.() !== 0) return good(`uid ${process.geteuid?.() ?? 'unknown'}`)
  if (sudoUser !== undefined && sudoUser !== 'root')
    return warning(
      'root, through sudo: an `up`, its keys and what was trusted belong to the account that started it',
      `run Bellwether without sudo, as ${plain(sudoUser)}`,
    )
  return warning(
    'root, and so are the commands of agents',
    'run Bellwether as an ordinary account, or only its agents: BELLWETHER__WORKER__RUN_AS=ACCOUNT bellwether up',
  )
}

async function nearestFolder(wanted: string): Promise<string> {
  let path = wanted
  while (!(await exists(path)) && dirname(path) !== path) path = dirname(path)
  return path
}

async function writable(folder: string, dataDir: string) {
  const path = await nearestFolder(dataDir)
  const isWritable = await access(path, constants.W_OK).then(
    () => true,
    () => false,
  )
  if (!isWritable) return bad(`cannot write to ${path}`, 'make it writable for this account, or give --data DIR')
  const old = join(folder, oldDataFolder, databaseFolder)
  if (path !== dataDir && (await exists(old)))
    return warning(`${dataDir} does not exist, and ${old} does`, 'move it: `bellwether up` prints the command')
  return good(dataDir)
}

/** The project and the database may lie on different disks. */
async function disk(folder: string, dataDir: string) {
  const sizes = await Promise.all([folder, await nearestFolder(dataDir)].map((path) => statfs(path)))
  const bytes = Math.min(...sizes.map(({ bavail, bsize }) => bavail * bsize))
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

async function port(host: string, wanted: number, up: RunningUp | undefined) {
  if (up?.alive === true && new URL(up.url).port === String(wanted)) return good(`${host}:${wanted} is used by this up`)
  if (wanted === 0) return good('any free port')
  const error = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    const server = createServer()
    server.once('error', resolve).listen(wanted, host, () => server.close(() => resolve(undefined)))
  })
  if (error === undefined) return good(`${host}:${wanted} is free`)
  if (error.code !== 'EADDRINUSE') return bad(error.message, 'set [server] host to an address of this machine')
  const taken = [
    `${host}:${wanted} is in use: ${holderOf(wanted)}`,
    'stop it, or choose another port: bellwether up --port 0',
  ] as const
  // The up of this folder has another port and works.
  return up?.alive === true ? warning(...taken) : bad(...taken)
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(absent)) !== undefined
}
