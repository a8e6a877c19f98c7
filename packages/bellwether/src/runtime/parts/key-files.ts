/**
 * The first administrator's key, which a process keeps in a file. Only the process's account can read it. A stored key is used as
 * long as the database accepts it.
 */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { systemRandom } from '@bellwether/base'
import type { KeyRole } from '@bellwether/protocol'
import { createFirstKey, hashKey, readLiveKeys } from '../../kernel/access/api-keys.js'
import { writeAudit } from '../../kernel/access/audit-log.js'
import type { Kernel } from '../../kernel/kernel.js'
import type { Database } from '../../ports/database/database.js'
import { adminKeyFile } from '../paths.js'

type KernelKeys = Pick<Kernel, 'db' | 'ids'>

/**
 * Creates the administrator's key if the database has no key at all. Returns it, also at later starts, unless the file is
 * missing (another machine created the key, or an operator removed the file) or the key was revoked.
 */
export async function ensureAdminKey({ db, ids }: KernelKeys, folder: string): Promise<string | undefined> {
  const file = join(folder, adminKeyFile)
  const created = await createFirstKey(db, { ids, random: systemRandom }, 'first start')
  if (created === undefined) return readLiveKey(db, file, 'admin')
  writeKey(file, created.key)
  const entry = { actor: 'first start', role: null, address: null, status: 201, code: null }
  await writeAudit(db, [{ ...entry, method: 'CREATE', path: `/keys/${created.keyId}` }])
  return created.key
}

async function readLiveKey(db: Database, file: string, role: KeyRole): Promise<string | undefined> {
  let key: string
  try {
    key = readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
  const hash = hashKey(key)
  const live = await readLiveKeys(db)
  return live.some((one) => one.role === role && one.hash.equals(hash)) ? key : undefined
}

function writeKey(file: string, key: string): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  writeFileSync(file, `${key}\n`, { mode: 0o600 })
  // `mode` applies to new files only.
  chmodSync(file, 0o600)
}
