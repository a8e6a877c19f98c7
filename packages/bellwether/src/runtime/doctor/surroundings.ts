/** Checks of what surrounds a project: git, a running or killed `up`, the modes of its files, the clock, and the servers that it calls. */
import { readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { statsOf } from '../data-folder.js'
import { adminKeyFile, mcpFile, toolsFile, trustFile, upFile } from '../paths.js'
import { alive } from '../../ports/disk/machine.js'
import { runAs } from '../../ports/processes/run-as.js'
import { findSandbox, installHint } from '../../ports/processes/sandbox/available.js'
import type { Settings } from '../../settings/schema.js'
import { readProjectFile } from '../../settings/regular-file.js'
import { absent, bad, good, warning, type Found } from './finding.js'
import { isReachable } from './reachable.js'

/** The `up` that wrote up.json, and whether its process still runs. */
export interface RunningUp {
  readonly url: string
  readonly pid: number
  readonly alive: boolean
}

export async function readUp(dataDir: string): Promise<RunningUp | undefined> {
  const text = await readFile(join(dataDir, upFile), 'utf8').catch(absent)
  if (text === undefined) return undefined
  const { url, pid } = JSON.parse(text) as Readonly<Record<string, unknown>>
  if (typeof url !== 'string' || typeof pid !== 'number') return undefined
  return { url, pid, alive: alive(pid) }
}

export function checkUp(up: RunningUp | undefined): Found {
  if (up === undefined) return good('not running')
  if (up.alive) return good(`running on ${up.url} (pid ${up.pid})`)
  return warning(
    `the last up (pid ${up.pid}) was killed; its state is left`,
    'start it again, it takes over what is left: bellwether up',
  )
}

/** Read from files: running git in a folder that is not trusted could run its filters. */
export async function checkGit(folder: string, root: string): Promise<Found> {
  const top = repositoryOf(folder)
  if (top === undefined) return good('not a git repository')
  const git = join(top, '.git')
  const has = (name: string) => statsOf(join(git, name)) !== undefined
  if (has('index.lock'))
    return warning(
      `${join(git, 'index.lock')} exists: git commands of agents fail`,
      `if no git command runs: rm ${join(git, 'index.lock')}`,
    )
  const open = [
    ['MERGE_HEAD', 'merge'],
    ['rebase-merge', 'rebase'],
    ['rebase-apply', 'rebase'],
    ['CHERRY_PICK_HEAD', 'cherry-pick'],
  ].find(([name]) => has(name!))
  if (open !== undefined)
    return warning(
      `a ${open[1]} is in progress`,
      `finish it before agents work here: git ${open[1]} --continue, or --abort`,
    )
  if (statsOf(join(folder, root, 'state', 'tasks.jsonl')) !== undefined && !(await ignoresState(folder)))
    return warning('git does not ignore the tasks in state/', "add the line: echo '/state/' >> .gitignore")
  return good(`repository ${top}`)
}

/** The folder with .git that contains this one. */
export function repositoryOf(folder: string): string | undefined {
  for (let path = folder; ; path = dirname(path)) {
    if (statsOf(join(path, '.git')) !== undefined) return path
    if (path === dirname(path)) return undefined
  }
}

async function ignoresState(folder: string): Promise<boolean> {
  return ignoresStateIn((await readProjectFile(join(folder, '.gitignore')).catch(absent)) ?? '')
}

/** Whether a line of .gitignore names the folder state/. */
export const ignoresStateIn = (text: string) => text.split('\n').some((line) => /^\/?state\/?\**\s*$/.test(line))

/** Other accounts must not read keys or change what is trusted. */
export function checkModes(dataDir: string): Found {
  const own = process.geteuid?.()
  const folder = statsOf(dataDir)
  if (folder === undefined) return good('no run-time files yet')
  if (folder.uid !== own)
    return bad(
      `${dataDir} belongs to another account (uid ${folder.uid})`,
      `take it over: sudo chown -R "$(id -un)" ${dataDir}; or give --data DIR`,
    )
  if ((folder.mode & 0o022) !== 0) return bad(`other accounts can write to ${dataDir}`, `chmod go-w ${dataDir}`)
  for (const name of [adminKeyFile, upFile, trustFile]) {
    const path = join(dataDir, name)
    const found = statsOf(path)
    if (found !== undefined && (found.mode & 0o077) !== 0)
      return bad(`other accounts can read ${path}`, `chmod 600 ${path}`)
  }
  return good('only this account reaches keys and trust')
}

/** Which sandbox the commands of agents run in. */
export function checkSandbox(settings: Settings | undefined): Found {
  const { sandbox, sandbox_missing: missing, run_as: account } = settings?.worker ?? {}
  const found = findSandbox(account === undefined ? undefined : runAs(account))
  if (found.kind === undefined) {
    const effect = missing === 'refuse' ? 'commands of agents fail' : 'commands of agents run without one'
    return (missing === 'refuse' ? bad : warning)(`not available (${found.why}): ${effect}`, installHint)
  }
  if (sandbox === 'none')
    return warning(
      'off: "sandbox" in [worker] is "none"',
      'remove the line, and write "sandbox: none" into the files of agents that need it',
    )
  return good(
    found.kind === 'bubblewrap' ? 'bubblewrap' : `user namespaces; starts faster with bubblewrap: ${installHint}`,
  )
}

const dayMs = 86_400_000

/** A clock that is behind the installed program makes certificates invalid and deadlines wrong. */
export async function checkClock(nowMs: number): Promise<Found> {
  const { mtimeMs } = await stat(fileURLToPath(import.meta.url))
  const now = new Date(nowMs).toISOString()
  return nowMs > mtimeMs - dayMs
    ? good(now)
    : bad(`${now} is before Bellwether was installed`, 'set the clock: sudo timedatectl set-ntp true')
}

const ports: Readonly<Record<string, number>> = { 'https:': 443, 'smtp:': 587, 'smtps:': 465 }

/** The servers that settings and tool files name. */
export async function checkEndpoints(folder: string, settings: Settings): Promise<Found> {
  const { notify, pmo, telemetry, board } = settings
  const named: [where: string, url: string | undefined][] = [
    ['notify.webhook_url', notify.webhook_url],
    ['notify.slack_webhook_url', notify.slack_webhook_url],
    ['notify.smtp_url', notify.smtp_url],
    ['pmo.event_webhook_url', pmo.event_webhook_url],
    ['telemetry.otlp_endpoint', telemetry.otlp_endpoint],
    ['board.view_url', board.view_url],
    ...(await declaredUrls(folder, mcpFile, 'mcpServers')),
    ...(await declaredUrls(folder, toolsFile, 'tools')),
  ]
  const urls = named.flatMap(([where, url]) => {
    // A URL with a variable is known to the worker only.
    if (url === undefined || url.includes('${') || !URL.canParse(url)) return []
    const { hostname, port, protocol } = new URL(url)
    return [{ where, host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (ports[protocol] ?? 80)) }]
  })
  const checked = await Promise.all(urls.map(async (one) => ({ ...one, up: await isReachable(one.host, one.port) })))
  const down = checked.filter((server) => !server.up)
  if (down.length === 0) return good(urls.length === 0 ? 'none configured' : urls.map(({ where }) => where).join(', '))
  return warning(
    down.map(({ where, host, port }) => `${where}: ${host}:${port} does not accept connections`).join('\n'),
    `start the server, or correct ${down.map(({ where }) => where).join(', ')}`,
  )
}

async function declaredUrls(folder: string, file: string, key: string): Promise<[string, string | undefined][]> {
  const text = await readProjectFile(join(folder, file)).catch(absent)
  if (text === undefined) return []
  try {
    const entries = Object.entries((JSON.parse(text) as Record<string, Record<string, { url?: unknown }>>)[key] ?? {})
    return entries.map(([name, { url }]) => [`${name} of ${file}`, typeof url === 'string' ? url : undefined])
  } catch {
    return [] // the check of the tools reports a file that is not valid
  }
}
