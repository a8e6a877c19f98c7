/**
 * Stores API keys. The database holds only hashes; a key is shown once, when it is created; a revoked key is never valid again. The HTTP
 * server authenticates requests and enforces roles.
 */
import { createHash } from 'node:crypto'
import type { Random } from '@bellwether/base'
import { InvalidInput, keyRoles, token, type KeyRole } from '@bellwether/protocol'
import type { KeyRow } from '@bellwether/protocol/http'
import type { Database, Queryable } from '../../ports/database/database.js'
import type { Ids } from '../../ports/ids.js'
import { plainText } from '../content.js'

export interface NewKey {
  readonly role: KeyRole
  readonly name?: string
  readonly view?: string
  readonly project?: string
  /** Of a worker: the targets that it may claim from; absent: all. */
  readonly targets?: readonly string[]
  /** The creator, for the list and the audit log. */
  readonly by: string
}

/** A key with its hashes, for authentication. */
export interface LiveKey extends Pick<KeyRow, 'key_id' | 'name' | 'role' | 'view_name' | 'project_id' | 'targets'> {
  readonly hash: Buffer
  readonly previous_hash: Buffer | null
}

export interface CreatedKey {
  readonly keyId: string
  /** Shown only now. */
  readonly key: string
}

interface Ports {
  readonly ids: Ids
  readonly random: Pick<Random, 'bytes'>
}

const secretBytes = 32
// More than any installation needs; a server holds all keys in memory.
const keysMax = 10_000
const graceMaxSeconds = 604_800
// Any number that no other advisory lock in this database uses.
const firstKeyLock = 0x62_77_02

export const hashKey = (key: string): Buffer => createHash('sha256').update(key).digest()

/** The prefix lets scanners of leaked secrets find the key. */
const newSecret = (random: Ports['random']) => `bw_${Buffer.from(random.bytes(secretBytes)).toString('base64url')}`

export async function createKey(db: Queryable, { ids, random }: Ports, key: NewKey): Promise<CreatedKey> {
  if (!keyRoles.includes(key.role)) {
    throw new InvalidInput(`Cannot create the key: unknown role ${JSON.stringify(key.role)}`, {
      code: 'invalid_role',
      hint: `use one of ${keyRoles.join(', ')}`,
    })
  }
  if (key.role === 'sensor' && key.view === undefined) {
    throw new InvalidInput('Cannot create the key: the role "sensor" needs a view', {
      code: 'view_needed',
      hint: 'add --view NAME',
    })
  }
  if (key.targets !== undefined && (key.role !== 'worker' || key.targets.length === 0)) {
    throw new InvalidInput(`Cannot create the key: targets limit a key with role "worker" (got "${key.role}")`, {
      code: 'targets_need_worker',
      hint: 'use --role worker, or leave --target out',
    })
  }
  const [{ count } = { count: 0 }] = await db.query<{ count: number }>({
    text: 'select count(*)::int as count from resource.api_keys where revoked_at is null',
  })
  if (count >= keysMax)
    throw new InvalidInput(`Cannot create the key: the limit of ${keysMax} keys is reached`, {
      code: 'too_many_keys',
      hint: 'revoke keys that are not used',
    })
  const created = { keyId: ids.next(), key: newSecret(random) }
  await db.query({
    text: `insert into resource.api_keys (key_id, name, role, view_name, project_id, targets, hash, created_at, created_by)
      values ($1, $2, $3, $4, $5, $6, $7, state.now(), $8)`,
    values: [
      created.keyId,
      key.name === undefined ? key.role : plainText(key.name, 'name', 120),
      key.role,
      key.view === undefined ? null : plainText(key.view, 'view', 64),
      key.project === undefined ? null : token(key.project, 'project'),
      key.targets === undefined ? null : [...new Set(key.targets.map((target) => token(target, 'target')))],
      hashKey(created.key),
      plainText(key.by, 'by', 200),
    ],
  })
  return created
}

/** Creates an admin key if there is no key yet. Servers that start at the same time create one in total. */
export async function createFirstKey(db: Database, ports: Ports, by: string): Promise<CreatedKey | undefined> {
  return db.transaction(async (tx) => {
    await tx.query({ text: 'select pg_advisory_xact_lock($1)', values: [firstKeyLock] })
    return (await hasKeys(tx)) ? undefined : createKey(tx, ports, { role: 'admin', name: 'first admin', by })
  })
}

export async function hasKeys(db: Queryable): Promise<boolean> {
  const rows = await db.query({ text: 'select from resource.api_keys where revoked_at is null limit 1' })
  return rows.length > 0
}

export async function listKeys(db: Queryable): Promise<KeyRow[]> {
  return db.query<KeyRow>({
    text: `select key_id, name, role, view_name, project_id, targets, created_at, created_by, rotated_at, revoked_at,
        last_used_at
      from resource.api_keys order by key_id desc limit ${keysMax}`,
  })
}

/** Gives a key a new secret; the old one stays valid for `graceSeconds`. */
export async function rotateKey(
  db: Queryable,
  random: Ports['random'],
  keyId: string,
  graceSeconds = 0,
): Promise<CreatedKey> {
  if (!(graceSeconds >= 0 && graceSeconds <= graceMaxSeconds)) {
    throw new InvalidInput(`The grace period must be 0 to ${graceMaxSeconds} seconds (got ${graceSeconds})`, {
      code: 'invalid_grace',
    })
  }
  const key = newSecret(random)
  const rows = await db.query({
    text: `update resource.api_keys set rotated_at = state.now(), hash = $2,
        previous_hash = case when $3::float8 > 0 then hash end,
        previous_until = case when $3::float8 > 0 then state.now() + make_interval(secs => $3) end
      where key_id = $1 and revoked_at is null returning key_id`,
    values: [plainText(keyId, 'key_id'), hashKey(key), graceSeconds],
  })
  if (rows.length === 0) throw unknownKey(keyId)
  return { keyId, key }
}

export async function revokeKey(db: Queryable, keyId: string): Promise<void> {
  const rows = await db.query({
    text: `update resource.api_keys set revoked_at = coalesce(revoked_at, state.now()), previous_hash = null,
        previous_until = null
      where key_id = $1 returning key_id`,
    values: [plainText(keyId, 'key_id')],
  })
  if (rows.length === 0) throw unknownKey(keyId)
}

function unknownKey(keyId: string): InvalidInput {
  return new InvalidInput(`Unknown or revoked key "${keyId}"`, {
    code: 'unknown_key',
    hint: 'run `bellwether keys list` to see the keys',
  })
}

export async function readLiveKeys(db: Queryable): Promise<LiveKey[]> {
  return db.query<LiveKey>({
    name: 'bw_live_keys',
    text: `select key_id, name, role, view_name, project_id, targets, hash,
        case when previous_until > state.now() then previous_hash end as previous_hash
      from resource.api_keys where revoked_at is null order by key_id limit ${keysMax}`,
  })
}

export async function touchKeys(db: Queryable, keyIds: readonly string[]): Promise<void> {
  await db.query({
    name: 'bw_touch_keys',
    text: 'update resource.api_keys set last_used_at = state.now() where key_id = any ($1)',
    values: [keyIds],
  })
}
