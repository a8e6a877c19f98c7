/**
 * `bellwether keys`: makes, lists, rotates and revokes API keys; each deed is in the audit log. In the database itself where settings
 * name one, which works before any server does; otherwise through the server, with an administrator's key.
 */
import { environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Command, InvalidArgumentError } from 'commander'
import { plain } from '../client/sanitize.js'
import { keyRoles, type KeyRole } from '../kernel/access/api-keys.js'
import { loadSettings } from '../settings/load.js'
import { knowsServer, openClient, serverOptions, type ServerFlags } from './client.js'
import { tell } from './output.js'
import { inDatabase, throughServer, type KeyCabinet, type KeyLine } from './key-backend.js'
import { instant, table } from './terminal.js'

interface Flags extends Pick<ServerFlags, 'server' | 'key' | 'json'> {
  readonly role?: string
  readonly name?: string
  readonly view?: string
  readonly project?: string
  readonly grace?: number
}

export function keysCommand(): Command {
  const keys = new Command('keys').description('make, list, rotate and revoke API keys').helpCommand(false)
  const verb = (name: string, description: string) =>
    serverOptions(keys.command(name)).description(description).option('--json', 'print one object on stdout')
  verb('create', 'make a key and print it, once')
    .option('--role <role>', keyRoles.join(', '))
    .option('--name <text>', 'what people call it')
    .option('--view <name>', 'the only view that it reaches; a sensor’s key feeds it')
    .option('--project <name>', 'the only project that it reaches')
    .action(async (flags: Flags) => {
      const role = roleOf(flags.role)
      const { name, view, project } = flags
      const limits = {
        ...(name === undefined ? {} : { name }),
        ...(view === undefined ? {} : { view }),
        ...(project === undefined ? {} : { project }),
      }
      const made = await open(flags, (cabinet) => cabinet.create({ role, ...limits }))
      tell(flags, { key_id: made.keyId, role, key: made.key }, () => made.key)
    })
  verb('list', 'show all keys, without their secrets').action(async (flags: Flags) => {
    const rows = await open(flags, (cabinet) => cabinet.list())
    tell(flags, { keys: rows }, () => (rows.length === 0 ? 'there is no key yet' : shown(rows)))
  })
  verb('rotate <id>', 'give a key a new secret and print it, once')
    .option('--grace <seconds>', 'how long the old secret is good for (default: 0)', seconds)
    .action(async (id: string, flags: Flags) => {
      const made = await open(flags, (cabinet) => cabinet.rotate(id, flags.grace ?? 0))
      tell(flags, { key_id: id, key: made.key }, () => made.key)
    })
  verb('revoke <id>', 'make a key useless, for good').action(async (id: string, flags: Flags) => {
    await open(flags, (cabinet) => cabinet.revoke(id))
    tell(flags, { key_id: id, status: 'revoked' }, () => `${plain(id)} is revoked; servers know within two seconds`)
  })
  return keys
}

function open<T>(flags: Flags, work: (cabinet: KeyCabinet) => Promise<T>): Promise<T> {
  const { database } = loadSettings({ folder: process.cwd(), env: environment() })
  const asks = {
    ...(flags.server === undefined ? {} : { server: flags.server }),
    ...(flags.key === undefined ? {} : { key: flags.key }),
  }
  if (flags.server === undefined && database.url !== undefined) return inDatabase(database.url, work)
  if (!knowsServer(asks)) {
    throw new InvalidInput('no database is named, and no server is known here', {
      code: 'no_database',
      hint: 'start `bellwether up` in this folder, or give --server URL and --key KEY, or set url in section [database] of bellwether.toml',
    })
  }
  return work(throughServer(openClient(asks)))
}

function roleOf(role: string | undefined): KeyRole {
  if (role !== undefined && (keyRoles as readonly string[]).includes(role)) return role as KeyRole
  throw new InvalidInput(role === undefined ? 'a key needs --role ROLE' : `${JSON.stringify(role)} is not a role`, {
    code: 'invalid_role',
    hint: `one of ${keyRoles.join(', ')}`,
  })
}

function shown(rows: readonly KeyLine[]): string {
  const limits = (row: KeyLine) =>
    [row.view_name && `view ${row.view_name}`, row.project_id && `project ${row.project_id}`].filter(Boolean).join(', ')
  const cells = rows.map((row) => [
    row.key_id,
    row.role,
    row.name === '' ? '–' : row.name,
    limits(row) || 'everything',
    row.last_used_at === null ? 'never' : instant(row.last_used_at),
    row.revoked_at === null ? 'good' : 'revoked',
  ])
  return table(['KEY', 'ROLE', 'NAME', 'REACHES', 'LAST USED', 'STATE'], cells, process.stdout.columns, [0])
}

function seconds(text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number of seconds.')
}
