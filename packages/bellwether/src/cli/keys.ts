/** `bellwether keys`: makes, lists, rotates and revokes API keys, in the database itself; each deed is in the audit log. */
import { userInfo } from 'node:os'
import { InvalidInput } from '@bellwether/protocol'
import { Command, InvalidArgumentError } from 'commander'
import { writeAudit } from '../kernel/audit.js'
import { createKey, keyRoles, listKeys, revokeKey, rotateKey, type KeyRole, type KeyRow } from '../kernel/keys.js'
import { migrate } from '../kernel/schema/migrate.js'
import { systemClock } from '../ports/clock.js'
import type { Database } from '../ports/database/database.js'
import { openDatabase } from '../ports/database/pool.js'
import { uuidv7 } from '../ports/ids.js'
import { systemRandom } from '../ports/random.js'
import { environment } from '../serve.js'
import { loadSettings } from '../settings/load.js'
import { printLine } from './explain.js'

interface Flags {
  readonly role?: string
  readonly name?: string
  readonly view?: string
  readonly project?: string
  readonly grace?: number
  readonly json?: boolean
}

const ports = { ids: uuidv7(systemClock, systemRandom), random: systemRandom }

export function keysCommand(finish: (code: number) => void): Command {
  const keys = new Command('keys').description('make, list, rotate and revoke API keys')
  const done = () => finish(0)
  keys
    .command('create')
    .description('make a key and print it, once')
    .option('--role <role>', keyRoles.join(', '))
    .option('--name <text>', 'what people call it')
    .option('--view <name>', 'the only view that it reaches; a sensor’s key feeds it')
    .option('--project <name>', 'the only project that it reaches')
    .option('--json', 'print one object on stdout')
    .action(async (flags: Flags) => {
      const role = roleOf(flags.role)
      const { name, view, project } = flags
      await onDatabase(async (db) => {
        const made = await createKey(db, ports, {
          role,
          by: me(),
          ...(name === undefined ? {} : { name }),
          ...(view === undefined ? {} : { view }),
          ...(project === undefined ? {} : { project }),
        })
        await note(db, 'CREATE', made.keyId)
        show(flags, { key_id: made.keyId, role, key: made.key }, made.key)
      })
      done()
    })
  keys
    .command('list')
    .description('show all keys, without their secrets')
    .option('--json', 'print one object on stdout')
    .action(async (flags: Flags) => {
      await onDatabase(async (db) => {
        const rows = await listKeys(db)
        show(flags, { keys: rows }, rows.length === 0 ? 'there is no key yet' : rows.map(line).join('\n'))
      })
      done()
    })
  keys
    .command('rotate <id>')
    .description('give a key a new secret and print it, once')
    .option('--grace <seconds>', 'how long the old secret is good for (default: 0)', seconds)
    .option('--json', 'print one object on stdout')
    .action(async (id: string, flags: Flags) => {
      await onDatabase(async (db) => {
        const made = await rotateKey(db, systemRandom, id, flags.grace ?? 0)
        await note(db, 'ROTATE', id)
        show(flags, { key_id: id, key: made.key }, made.key)
      })
      done()
    })
  keys
    .command('revoke <id>')
    .description('make a key useless, for good')
    .option('--json', 'print one object on stdout')
    .action(async (id: string, flags: Flags) => {
      await onDatabase(async (db) => {
        await revokeKey(db, id)
        await note(db, 'REVOKE', id)
        show(flags, { key_id: id, status: 'revoked' }, `${id} is revoked; servers know within two seconds`)
      })
      done()
    })
  return keys
}

function roleOf(role: string | undefined): KeyRole {
  if (role !== undefined && (keyRoles as readonly string[]).includes(role)) return role as KeyRole
  throw new InvalidInput(role === undefined ? 'a key needs --role ROLE' : `${JSON.stringify(role)} is not a role`, {
    code: 'invalid_role',
    hint: `one of ${keyRoles.join(', ')}`,
  })
}

const me = () => `cli:${userInfo().username}`

async function onDatabase(work: (db: Database) => Promise<void>): Promise<void> {
  const { database } = loadSettings({ folder: process.cwd(), env: environment() })
  if (database.url === undefined) {
    throw new InvalidInput('no database is named', {
      code: 'no_database',
      hint: 'set url in section [database] of bellwether.toml, or BELLWETHER__DATABASE__URL',
    })
  }
  const db = await openDatabase({ url: database.url, applicationName: 'bellwether keys', poolSize: 1 })
  try {
    await migrate(db)
    await work(db)
  } finally {
    await db.close()
  }
}

async function note(db: Database, method: string, keyId: string): Promise<void> {
  const deed = { actor: me(), role: null, address: null, method, path: `/keys/${keyId}`, status: 200, code: null }
  await writeAudit(db, [deed])
}

function show(flags: Flags, facts: Readonly<Record<string, unknown>>, words: string): void {
  if (flags.json === true) printLine(facts)
  else process.stdout.write(`${words}\n`)
}

function line(row: KeyRow): string {
  const limits = [row.view_name && `view ${row.view_name}`, row.project_id && `project ${row.project_id}`]
  const state = row.revoked_at === null ? '' : 'revoked'
  const used = row.last_used_at === null ? 'never used' : `used ${row.last_used_at.toISOString().slice(0, 16)}`
  const said = [row.key_id, row.role.padEnd(8), row.name, ...limits, used, state]
  return said.filter((word) => word !== null && word !== '').join('  ')
}

function seconds(text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number of seconds.')
}
