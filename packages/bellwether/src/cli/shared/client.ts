/**
 * Finds the server of a command: by --server and --key, by the environment, or by the file up.json of a running `up`. A key from the
 * data folder of an `up` is sent to that `up` only.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { environment, errorMessage, systemClock } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { Command } from 'commander'
import { checkedUrl, openClient as open, type Address, type Client } from '../../client/client.js'
import { adminKeyFile, dataFolder, upFile } from '../../runtime/paths.js'
import { nearest } from '../../settings/nearest.js'

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
    .option('--key <key>', 'an API key (default: $BELLWETHER_KEY, else the key of the `up` of this folder)')
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
  const here = findLocalUp(folder)
  const url = flags.server ?? env['BELLWETHER_SERVER'] ?? here?.url
  if (url === undefined) {
    throw new InvalidInput(`No server is running in ${resolve(folder)}`, {
      code: 'no_server',
      hint: 'start one in this folder (bellwether up), or give --server URL and --key KEY',
    })
  }
  checkedUrl(url)
  const isHere = here !== undefined && bare(url) === bare(here.url)
  const key = flags.key ?? env['BELLWETHER_KEY'] ?? (isHere ? here.key : undefined)
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

interface LocalUp {
  readonly file: string
  readonly url: string
  readonly key: string | undefined
  readonly pid: number | undefined
  readonly project: string | undefined
}

/** The up.json of this folder or of the nearest folder above it. */
function findLocalUp(from: string): LocalUp | undefined {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    const data = join(folder, dataFolder)
    const file = join(data, upFile)
    if (existsSync(file)) {
      const { url, pid, project } = readUp(file)
      return { file, url, pid, project, key: readKey(join(data, adminKeyFile)) }
    }
    if (folder === dirname(folder)) return undefined
  }
}

function readUp(file: string): { url: string; pid: number | undefined; project: string | undefined } {
  try {
    const { url, pid, project } = JSON.parse(readFileSync(file, 'utf8')) as Readonly<Record<string, unknown>>
    if (typeof url !== 'string') throw new Error('"url" is missing')
    return {
      url,
      pid: typeof pid === 'number' ? pid : undefined,
      project: typeof project === 'string' ? project : undefined,
    }
  } catch (error) {
    throw new InvalidInput(`Cannot read ${file}: ${errorMessage(error)}`, {
      code: 'bad_up_file',
      cause: error,
      hint: 'another account may own the file: give --server URL and --key KEY; a running `bellwether up` rewrites it',
    })
  }
}

/** Undefined if the file is missing or belongs to another account; then the command needs --key. */
function readKey(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error && ['ENOENT', 'EACCES', 'EPERM'].includes(String(error.code)))
      return undefined
    throw error
  }
}

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
