/**
 * `bellwether keys`: creates, lists, rotates and revokes API keys; the audit log records each change. If the settings name a database
 * it works there, even before a server runs; otherwise it calls the server, with an administrator's key.
 */
import { defined, environment } from '@bellwether/base'
import { InvalidInput, keyRoles, type KeyRole } from '@bellwether/protocol'
import { Command } from 'commander'
import { plain } from '../../client/sanitize.js'
import { loadSettings } from '../../settings/load.js'
import { knowsServer, openClient, serverOptions, type ServerFlags } from '../shared/client.js'
import { print, printList } from '../shared/output.js'
import type { KeyLine } from '@bellwether/protocol/http'
import { inDatabase, throughServer, type KeyBackend } from './key-backend.js'
import { collect, jsonLines, wholeUpTo } from '../shared/options.js'
import { instant, table } from '../shared/terminal.js'

const graceMax = 999_999 // 11 days

interface Flags extends Pick<ServerFlags, 'server' | 'key' | 'json' | 'jsonl'> {
  readonly role?: string
  readonly name?: string
  readonly view?: string
  readonly project?: string
  readonly target?: readonly string[]
  readonly grace?: number
}

export function keysCommand(): Command {
  const keys = new Command('keys').description('create, list, rotate and revoke API keys').helpCommand(false)
  const verb = (name: string, description: string) =>
    serverOptions(keys.command(name)).description(description).option('--json', 'print one JSON object')
  verb('create', 'create a key and print it, once')
    .option('--role <role>', keyRoles.join(', '))
    .option('--name <text>', 'a name for people')
    .option('--view <name>', 'restrict the key to one view; a sensor needs it')
    .option('--project <name>', 'restrict the key to one project')
    .option('--target <name>', 'restrict a worker to one worker target; repeatable', collect)
    .action(async (flags: Flags) => {
      const role = roleOf(flags.role)
      const { name, view, project, target: targets } = flags
      const key = { role, ...defined({ name, view, project, targets }) }
      const created = await open(flags, (backend) => backend.create(key))
      print(flags, { key_id: created.keyId, role, key: created.key }, () => created.key)
    })
  verb('list', 'list all keys, without their secrets')
    .addOption(jsonLines())
    .action(async (flags: Flags) => {
      const rows = await open(flags, (backend) => backend.list())
      printList(flags, { keys: rows }, rows, () => (rows.length === 0 ? 'No keys' : keyTable(rows)))
    })
  verb('rotate <id>', 'give a key a new secret and print it, once')
    .option('--grace <seconds>', 'how long the old secret stays valid (default: 0)', wholeUpTo(graceMax))
    .action(async (id: string, flags: Flags) => {
      const created = await open(flags, (backend) => backend.rotate(id, flags.grace ?? 0))
      print(flags, { key_id: id, key: created.key }, () => created.key)
    })
  verb('revoke <id>', 'revoke a key permanently').action(async (id: string, flags: Flags) => {
    await open(flags, (backend) => backend.revoke(id))
    print(flags, { key_id: id, status: 'revoked' }, () => `Revoked ${plain(id)}; servers reject it within two seconds`)
  })
  return keys
}

function open<T>(flags: Flags, work: (backend: KeyBackend) => Promise<T>): Promise<T> {
  const { database } = loadSettings({ folder: process.cwd(), env: environment() })
  const address = defined({ server: flags.server, key: flags.key })
  if (flags.server === undefined && database.url !== undefined) return inDatabase(database.url, work)
  if (!knowsServer(address)) {
    throw new InvalidInput('Neither a database nor a server is configured', {
      code: 'no_database',
      hint: 'run `bellwether up` in this folder, or give --server URL and --key KEY, or set [database] url in bellwether.toml',
    })
  }
  return work(throughServer(openClient(address)))
}

function roleOf(role: string | undefined): KeyRole {
  if (role !== undefined && (keyRoles as readonly string[]).includes(role)) return role as KeyRole
  throw new InvalidInput(role === undefined ? 'A key needs --role ROLE' : `Unknown role ${JSON.stringify(role)}`, {
    code: 'invalid_role',
    hint: `use one of ${keyRoles.join(', ')}`,
  })
}

function keyTable(rows: readonly KeyLine[]): string {
  const limits = (row: KeyLine) =>
    [
      row.view_name && `view ${row.view_name}`,
      row.project_id && `project ${row.project_id}`,
      row.targets && `targets ${row.targets.join(' ')}`,
    ]
      .filter(Boolean)
      .join(', ')
  const cells = rows.map((row) => [
    row.key_id,
    row.role,
    row.name === '' ? '–' : row.name,
    limits(row) || 'everything',
    row.last_used_at === null ? 'never' : instant(row.last_used_at),
    row.revoked_at === null ? 'valid' : 'revoked',
  ])
  return table(['KEY', 'ROLE', 'NAME', 'REACHES', 'LAST USED', 'STATE'], cells, process.stdout.columns, [0])
}
