/**
 * Finds the server of a command: by --server and --key, by the environment, or by the running `up` of this folder. The environment's
 * key is sent only to a server that the user named, and the key of an `up` to that `up` only.
 */
import { resolve } from 'node:path'
import { environment, systemClock } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { Command } from 'commander'
import { checkedUrl, openClient as open, type Address, type Client } from '../../client/client.js'
import { nearest } from '../../settings/nearest.js'
import { findLocalUp, isUnsafe, type LocalUp } from './local-up.js'

export interface ServerFlags {
  readonly server?: string
  readonly key?: string
  readonly project?: string
  readonly json?: boolean
}

/** Adds the options of commands that call a server. */
export function toServer(
  command: Command,
  projectDefault = 'the project of the `up` of this folder, else `default`',
): Command {
  return serverOptions(command)
    .option('--project <name>', `the project (default: ${projectDefault})`)
    .option('--json', 'print one JSON object per line')
}

export function serverOptions(command: Command): Command {
  return command
    .option('--server <url>', 'the server (default: $BELLWETHER_SERVER, else the `up` of this folder)')
    .option(
      '--key <key>',
      'an API key (default: the key of the `up` of this folder; $BELLWETHER_KEY for a server that --server or $BELLWETHER_SERVER names)',
    )
}

export function openClient(flags: ServerFlags, folder = process.cwd()): Client {
  return open(addressOf(flags, folder), systemClock)
}

/** Whether flags, environment or a running `up` name a server. */
export function knowsServer(flags: ServerFlags): boolean {
  return (flags.server ?? environment()['BELLWETHER_SERVER'] ?? findLocalUp(process.cwd())) !== undefined
}

export function addressOf(flags: ServerFlags, folder: string): Address {
  const env = environment()
  const named = flags.server ?? env['BELLWETHER_SERVER']
  const found = findLocalUp(folder)
  if (named === undefined && isUnsafe(found)) throw found
  const here = isUnsafe(found) ? undefined : found
  const url = named ?? here?.url
  if (url === undefined) {
    throw new InvalidInput(`No server is running in ${resolve(folder)}`, {
      code: 'no_server',
      hint: 'start one in this folder (bellwether up), or give --server URL and --key KEY',
    })
  }
  checkedUrl(url)
  const isHere = here !== undefined && bare(url) === bare(here.url)
  const key = flags.key ?? (named === undefined ? undefined : env['BELLWETHER_KEY']) ?? (isHere ? here.key : undefined)
  if (key === undefined) {
    throw new InvalidInput(`${url} needs an API key`, {
      code: 'no_key',
      hint: 'give --key KEY, or set BELLWETHER_KEY; bellwether keys create makes a key',
    })
  }
  const project = flags.project ?? (isHere ? here.project : undefined) ?? 'default'
  return { url, key: key.trim(), project, ...(isHere ? { awayHint: unavailableHint(here) } : {}) }
}

const bare = (url: string) => url.replace(/\/+$/, '').toLowerCase()

function unavailableHint({ file, pid }: LocalUp): string {
  if (pid === undefined || isAlive(pid))
    return 'it may still be starting or stopping; bellwether doctor checks the folder'
  return `the \`up\` that wrote ${file} was killed: start it again (bellwether up)`
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

// Enough for a suggestion.
const namesMax = 1_000

/** Runs `work`; if the agent does not exist, the error suggests the nearest name. */
export async function withNearestAgent<T>(client: Client, agent: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && ['unknown_agent', 'not_found'].includes(String(error.code))))
      throw error
    const { agents } = await client.ask('GET /projects/:project/agents', { query: { limit: namesMax } })
    const suggestion = nearest(
      agent,
      agents.map((one) => one.agent_id),
    )
    throw new Terminal(`Project ${client.project} has no agent "${agent}"`, {
      code: 'unknown_agent',
      cause: error,
      hint:
        suggestion === undefined
          ? 'the project has no agents yet; create a file agents/NAME.md'
          : `Did you mean ${suggestion}? bellwether agents lists all`,
    })
  }
}
