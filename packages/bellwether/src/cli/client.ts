/**
 * How a command reaches a running server: by what it is told (--server, --key), by the environment, or by the file that `up` leaves
 * in the folder while it runs. Always: a key that was found beside an `up` goes to that `up` and to no other server.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { environment, errorMessage, systemClock } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { Command } from 'commander'
import { openClient as open, type Address, type Client } from '../client/client.js'
import { adminKeyFile, dataFolder, upFile } from '../runtime/paths.js'
import { nearest } from '../settings/nearest.js'

export interface ServerFlags {
  readonly server?: string
  readonly key?: string
  readonly project?: string
  readonly json?: boolean
}

/** The options that every command has which talks to a server. */
export function toServer(command: Command): Command {
  return serverOptions(command)
    .option('--project <name>', 'the project (default: that of the `up` of this folder, else `default`)')
    .option('--json', 'print one object a line')
}

export function serverOptions(command: Command): Command {
  return command
    .option('--server <url>', 'the server (default: $BELLWETHER_SERVER, else the `up` of this folder)')
    .option('--key <key>', 'an API key (default: $BELLWETHER_KEY, else the one that `up` has left here)')
}

export function openClient(flags: ServerFlags, folder = process.cwd()): Client {
  return open(addressOf(flags, folder), systemClock)
}

/** Whether a server can be named at all, by flags, environment or an `up` of this folder. */
export function knowsServer(flags: ServerFlags): boolean {
  return (flags.server ?? environment()['BELLWETHER_SERVER'] ?? besideUp(process.cwd())) !== undefined
}

export function addressOf(flags: ServerFlags, folder: string): Address {
  const env = environment()
  const here = besideUp(folder)
  const url = flags.server ?? env['BELLWETHER_SERVER'] ?? here?.url
  if (url === undefined) {
    throw new InvalidInput(`no server is known in ${resolve(folder)}`, {
      code: 'no_server',
      hint: 'start one in this folder (bellwether up), or give --server URL and --key KEY',
    })
  }
  const isHere = here !== undefined && bare(url) === bare(here.url)
  const key = flags.key ?? env['BELLWETHER_KEY'] ?? (isHere ? here.key : undefined)
  if (key === undefined) {
    throw new InvalidInput(`a key is needed for ${url}`, {
      code: 'no_key',
      hint: 'give --key KEY, or set BELLWETHER_KEY; bellwether keys create makes one',
    })
  }
  const project = flags.project ?? (isHere ? here.project : undefined) ?? 'default'
  return { url, key: key.trim(), project, ...(isHere ? { awayHint: whyAway(here) } : {}) }
}

const bare = (url: string) => url.replace(/\/+$/, '').toLowerCase()

interface Here {
  readonly file: string
  readonly url: string
  readonly key: string | undefined
  readonly pid: number | undefined
  readonly project: string | undefined
}

/** What an `up` of this folder, or of one above it, has left. */
function besideUp(from: string): Here | undefined {
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
    const told = JSON.parse(readFileSync(file, 'utf8')) as Readonly<Record<string, unknown>>
    const { url, pid, project } = told
    if (typeof url !== 'string') throw new Error('it names no url')
    return {
      url,
      pid: typeof pid === 'number' ? pid : undefined,
      project: typeof project === 'string' ? project : undefined,
    }
  } catch (error) {
    throw new InvalidInput(`${file} cannot be used: ${errorMessage(error)}`, {
      code: 'bad_up_file',
      cause: error,
      hint: 'another account may own it: give --server URL and --key KEY; a running `bellwether up` writes it anew',
    })
  }
}

/** Another account's key cannot be read; then one has to be given. */
function readKey(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error && ['ENOENT', 'EACCES', 'EPERM'].includes(String(error.code)))
      return undefined
    throw error
  }
}

function whyAway({ file, pid }: Here): string {
  if (pid === undefined || isAlive(pid)) return 'is it still starting, or stopping? bellwether doctor looks'
  return `the \`up\` that left ${file} has ended without a word: start it again (bellwether up)`
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

// As many as a person would read through for a name.
const namesMax = 1_000

/** Runs `work`; an agent that is not there is told with the one that was probably meant. */
export async function withNearestAgent<T>(client: Client, agent: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && ['unknown_agent', 'not_found'].includes(String(error.code))))
      throw error
    const { agents } = await client.ask<{ readonly agents: readonly { readonly agent_id: string }[] }>(
      'GET',
      client.of(`/agents?limit=${namesMax}`),
    )
    const close = nearest(
      agent,
      agents.map((one) => one.agent_id),
    )
    throw new Terminal(`there is no agent ${agent} in project ${client.project}`, {
      code: 'unknown_agent',
      cause: error,
      hint:
        close === undefined
          ? 'the project has no agents yet: a file agents/NAME.md makes one'
          : `Did you mean ${close}? bellwether agents shows all`,
    })
  }
}
