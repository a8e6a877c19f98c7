/**
 * Finds the server of a command: by --server and --key, by the environment, by the running `up` of this folder, or the one of the last
 * `login`. The environment's key is sent only to a server that the user named, the key of an `up` or a login to that server only.
 */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { environment, hasCode, systemClock } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { Command } from 'commander'
import { checkedUrl, openClient as open, type Address, type Client } from '../../client/client.js'
import { plain } from '../../client/sanitize.js'
import { agentsFolder } from '../../runtime/paths.js'
import { settingsFile } from '../../settings/load.js'
import { similar } from '../../settings/nearest.js'
import { findLocalUp, isRunning, isUnsafe, type LocalUp } from './local-up.js'
import { readServers, sameServer } from './stored-servers.js'

export interface ServerFlags {
  readonly server?: string
  readonly key?: string
  readonly project?: string
  readonly json?: boolean
  readonly jsonl?: boolean
}

/** Adds the options of commands that call a server. */
export function toServer(
  command: Command,
  projectDefault = 'the project of the `up` of this folder, else `default`',
): Command {
  return serverOptions(command)
    .option('-p, --project <name>', `the project (default: ${projectDefault})`)
    .option('--json', 'print one JSON object')
}

export function serverOptions(command: Command): Command {
  return command
    .option(
      '--server <url>',
      'the server (default: $BELLWETHER_SERVER, else the `up` of this folder, else the last `login`)',
    )
    .option(
      '--key <key>',
      'an API key (default: that of the `up` of this folder or of `login`; $BELLWETHER_KEY for a server that --server or $BELLWETHER_SERVER names)',
    )
}

export function openClient(flags: ServerFlags, folder = process.cwd()): Client {
  return open(addressOf(flags, folder), systemClock)
}

/** Whether flags, environment or a running `up` name a server. */
export function knowsServer(flags: ServerFlags): boolean {
  const named = flags.server ?? environment()['BELLWETHER_SERVER']
  return (named ?? findLocalUp(process.cwd()) ?? readServers()[0]) !== undefined
}

export function addressOf(flags: ServerFlags, folder: string): Address {
  const env = environment()
  const named = flags.server ?? env['BELLWETHER_SERVER']
  const found = findLocalUp(folder)
  if (named === undefined && isUnsafe(found)) throw found
  const here = isUnsafe(found) ? undefined : found
  const stored = named !== undefined && flags.key !== undefined ? [] : readServers()
  const url = named ?? here?.url ?? stored[0]?.url
  if (url === undefined) {
    throw new InvalidInput(`No server is running in ${resolve(folder)}`, {
      code: 'no_server',
      hint: noServerHint(folder, env['SUDO_USER']),
    })
  }
  checkedUrl(url)
  const isHere = here !== undefined && sameServer(url, here.url)
  const key =
    flags.key ??
    (named === undefined ? undefined : env['BELLWETHER_KEY']) ??
    (isHere ? here.key : undefined) ??
    stored.find((one) => sameServer(one.url, url))?.key
  if (key === undefined) {
    throw new InvalidInput(`${url} needs an API key`, {
      code: 'no_key',
      hint: `store one with bellwether login ${url}, or give --key KEY, or set BELLWETHER_KEY; bellwether keys create makes a key`,
    })
  }
  const project = flags.project ?? (isHere ? here.project : undefined) ?? 'default'
  return { url, key: key.trim(), project, ...(isHere ? { awayHint: unavailableHint(here) } : {}) }
}

/** A folder without a settings file or agents is probably not a project yet. */
function noServerHint(folder: string, sudoUser: string | undefined): string {
  if (sudoUser !== undefined && sudoUser !== 'root')
    return `this is root, through sudo, and an \`up\` belongs to the account that started it: try again without sudo, as ${plain(sudoUser)}`
  const isProject = [settingsFile, agentsFolder].some((name) => existsSync(join(folder, name)))
  const start = isProject
    ? 'start one in this folder: bellwether up'
    : 'this folder is not a project yet: create one with bellwether init, then start it with bellwether up'
  return `${start} (or name another server: --server URL, bellwether login URL)`
}

function unavailableHint(found: LocalUp): string {
  if (found.pid === undefined || isRunning(found))
    return 'it may still be starting or stopping; bellwether doctor checks the folder'
  return `the \`up\` that wrote ${found.file} was killed: start it again (bellwether up)`
}

// Enough for a suggestion.
const namesMax = 1_000

/** Runs `work`; if the agent does not exist, the error suggests the nearest name. */
export async function withNearestAgent<T>(client: Client, agent: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!hasCode(error, 'unknown_agent', 'not_found')) throw error
    const { agents } = await client.ask('GET /projects/:project/agents', { query: { limit: namesMax } })
    throw new Terminal(`Project ${client.project} has no agent "${agent}"`, {
      code: 'unknown_agent',
      cause: error,
      hint: unknownAgentHint(
        agent,
        agents.map((one) => one.agent_id),
      ),
    })
  }
}

function unknownAgentHint(agent: string, names: readonly string[]): string {
  const file = `${agentsFolder}/${agent}.md`
  if (/^[\w-]+$/.test(agent) && existsSync(file))
    return `${file} exists here, but the server does not use it: bellwether doctor checks it, bellwether trust shows files that wait for your consent`
  if (names.length === 0) return 'the project has no agents yet; create a file agents/NAME.md'
  const meant = similar(agent, names)
  return `${meant === undefined ? '' : `Did you mean ${meant}? `}bellwether agents lists all`
}
