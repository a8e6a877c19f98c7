/**
 * The first administrator's key, which a process keeps in a file. Only the process's account can read it. A stored key is used as
 * long as the database accepts it.
 */
import { closeSync, constants, fsyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { hasCode, systemRandom } from '@bellwether/base'
import type { KeyRole } from '@bellwether/protocol'
import { createFirstKey, hashKey, hasKeys, readLiveKeys } from '../../kernel/access/api-keys.js'
import { writeAudit } from '../../kernel/access/audit-log.js'
import type { Kernel } from '../../kernel/kernel.js'
import type { Database } from '../../ports/database/database.js'
import { ownFolder } from '../data-folder.js'
import { adminKeyFile } from '../paths.js'

type KernelKeys = Pick<Kernel, 'db' | 'ids'>

export interface AdminKey {
  readonly key: string
  readonly file: string
  /** Created now. Only then is it printed. */
  readonly isNew: boolean
}

/**
 * Creates the administrator's key if the database has no key at all. Returns it, also at later starts, unless the file is
 * missing (another machine created the key, or an operator removed the file) or the key was revoked.
 */
export async function ensureAdminKey(
  { db, ids }: KernelKeys,
  { folder, project }: { readonly folder: string; readonly project: string },
): Promise<AdminKey | undefined> {
  const file = join(folder, adminKeyFile)
  // Before the key is created: a key that cannot be stored would be lost.
  if (!(await hasKeys(db))) ownFolder(folder, project)
  const created = await createFirstKey(db, { ids, random: systemRandom }, 'first start')
  if (created === undefined) {
    const key = await readLiveKey(db, file, 'admin')
    return key === undefined ? undefined : { key, file, isNew: false }
  }
  writeSecret(file, created.key)
  const entry = { actor: 'first start', role: null, address: null, status: 201, code: null }
  await writeAudit(db, [{ ...entry, method: 'CREATE', path: `/keys/${created.keyId}` }])
  return { key: created.key, file, isNew: true }
}

async function readLiveKey(db: Database, file: string, role: KeyRole): Promise<string | undefined> {
  let key: string
  try {
    key = readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
  const hash = hashKey(key)
  const live = await readLiveKeys(db)
  return live.some((one) => one.role === role && one.hash.equals(hash)) ? key : undefined
}

/** A new file: an existing one, or a link that leads elsewhere, is removed and never written to. */
function writeSecret(file: string, text: string): void {
  rmSync(file, { force: true })
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
  const fd = openSync(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  try {
    writeSync(fd, `${text}\n`)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
