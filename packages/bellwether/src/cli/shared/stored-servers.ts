/**
 * The servers that `bellwether login` stored for this account, each with its key, in a file that only this account can read. A key is used
 * for its own server only.
 */
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { environment, errorMessage, hasCode, isObject } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'

interface StoredServer {
  readonly url: string
  readonly key: string
}

/** The newest first: it is the default of commands outside a project folder. */
type Servers = readonly StoredServer[]

// A person works with a few; the oldest are forgotten.
const serversMax = 50

export const sameServer = (left: string, right: string) => bare(left) === bare(right)
const bare = (url: string) => url.replace(/\/+$/, '').toLowerCase()

export function serversFile(): string {
  const { XDG_CONFIG_HOME: config = '', HOME: home = '' } = environment()
  const folder = isAbsolute(config) ? config : join(isAbsolute(home) ? home : homedir(), '.config')
  return join(folder, 'bellwether', 'servers.json')
}

export function readServers(): Servers {
  const file = serversFile()
  let fd: number
  try {
    fd = openSync(file, 'r')
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return []
    throw unreadable(file, error)
  }
  try {
    const { uid, mode } = fstatSync(fd)
    if (uid !== process.geteuid?.() || (mode & 0o077) !== 0) throw new Error('other accounts can read or own it')
    const { servers } = JSON.parse(readFileSync(fd, 'utf8')) as { servers?: unknown }
    if (!Array.isArray(servers) || !servers.every(isServer)) throw new Error('"servers" is missing or invalid')
    return servers
  } catch (error) {
    throw unreadable(file, error)
  } finally {
    closeSync(fd)
  }
}

const isServer = (value: unknown): value is StoredServer =>
  isObject(value) && typeof value['url'] === 'string' && typeof value['key'] === 'string'

function unreadable(file: string, cause: unknown): InvalidInput {
  return new InvalidInput(`Cannot use ${file}: ${errorMessage(cause)}`, {
    code: 'bad_servers_file',
    cause,
    hint: `correct it (chmod 600), or delete it and run bellwether login again`,
  })
}

export function writeServers(servers: Servers): void {
  const file = serversFile()
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const fresh = `${file}.new`
  // A crash may have left one.
  rmSync(fresh, { force: true })
  const text = `${JSON.stringify({ servers: servers.slice(0, serversMax) }, null, 2)}\n`
  writeFileSync(fresh, text, { mode: 0o600, flag: 'wx' })
  renameSync(fresh, file)
}
