/**
 * Migrates config/runtime-policy.json to version 2. Nothing is written without `apply` or without a change. The original is
 * backed up in state/config-migration-backups/ before the new file replaces it atomically. Nothing outside the root is
 * touched. migrate.ts decides what changes.
 */
import { basename, dirname, join } from 'node:path'
import { type Clock, errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Disk } from '../../ports/disk/disk.js'
import type { Ids } from '../../ports/ids.js'
import type { Diff } from '../log/snapshot/snapshot-diff.js'
import { plan, migrationRisks } from './migrate.js'
import { isoSeconds } from '../policies/entries.js'
import { bytesInside, folderInside, replaceFile, utf8 } from '../policies/inside.js'
import { runtimeFile } from '../policies/runtime.js'

const backupFolder = 'state/config-migration-backups'

export interface Migration {
  readonly ok: boolean
  readonly changed: boolean
  readonly applied: boolean
  readonly wouldWrite: boolean
  readonly path: string
  readonly diff: Diff
  readonly risks: readonly string[]
  readonly summary: string
  /** Relative to the root. */
  readonly backup: string | null
  readonly rollbackHint: string | null
  readonly parseError: string | null
  readonly writeError: string | null
}

export interface MigrationPorts {
  readonly disk: Disk
  readonly clock: Clock
  readonly ids: Ids
}

// Two migrations within one second are possible, a hundred are not.
const backupsPerSecondMax = 100

async function backUp(root: string, bytes: Uint8Array, { disk, clock, ids }: MigrationPorts): Promise<string> {
  const folder = await folderInside(disk, root, backupFolder)
  const stamp = isoSeconds(clock.wallMs() / 1_000).replaceAll(/[-:]/g, '')
  const draft = join(folder, `.${ids.next()}.draft`)
  try {
    await disk.writeDraft(draft, [bytes])
    for (let count = 0; count < backupsPerSecondMax; count += 1) {
      const name = `runtime-policy.${stamp}${count === 0 ? '' : `-${count}`}.json`
      const path = join(folder, name)
      if ((await disk.link(draft, path)) === 'taken') continue
      // The link exists; replacing it syncs the folder to disk before the original is replaced.
      await disk.replace(path, draft)
      return `${backupFolder}/${name}`
    }
  } finally {
    await disk.remove(draft)
  }
  throw new InvalidInput(
    `Cannot back up the policy: ${backupFolder} has ${backupsPerSecondMax} backups of this second.`,
    { code: 'too_many_backups', hint: 'Retry in a second.' },
  )
}

async function replace(
  root: string,
  realPath: string | null,
  text: string,
  { disk, ids }: MigrationPorts,
): Promise<void> {
  const folder = realPath === null ? await folderInside(disk, root, dirname(runtimeFile)) : dirname(realPath)
  const path = realPath ?? join(folder, basename(runtimeFile))
  await replaceFile(disk, path, join(folder, `.${ids.next()}.draft`), text)
}

function summaryOf(migration: Omit<Migration, 'summary'>): string {
  const { diff, changed, applied, parseError, writeError } = migration
  if (writeError !== null)
    return `${migrationRisks.write}: ${writeError}; check the permissions of the root and of ${runtimeFile}`
  if (parseError !== null && !applied)
    return `${migrationRisks.parse}: ${parseError}; correct the file, or write a valid one with --apply (the original is backed up)`
  if (!changed) return 'already version 2; nothing to do'
  const counts = `${diff.added} added, ${diff.changed} changed, ${diff.removed} removed`
  return applied ? `migrated: ${counts}` : `would migrate: ${counts}; apply it with --apply`
}

export async function migrateConfig(root: string, apply: boolean, ports: MigrationPorts): Promise<Migration> {
  const read = await bytesInside(root, runtimeFile)
  if (read.found === 'outside' || read.found === 'unreadable')
    throw new InvalidInput(`Cannot migrate ${join(root, runtimeFile)}: ${read.why}.`, { code: 'unusable_policy' })
  const original = read.found === 'bytes' ? read : null
  const { target, changed, diff, risks, parseError } = plan(original === null ? null : utf8(original.bytes))
  let backup: string | null = null
  let writeError: string | null = null
  const wouldWrite = changed && !apply
  if (changed && apply) {
    try {
      if (original !== null) backup = await backUp(root, original.bytes, ports)
      await replace(root, original?.realPath ?? null, `${JSON.stringify(target, undefined, 2)}\n`, ports)
    } catch (error) {
      writeError = errorMessage(error)
    }
  }
  const applied = changed && apply && writeError === null
  const report = {
    ok: writeError === null && (parseError === null || applied),
    changed,
    applied,
    wouldWrite,
    path: runtimeFile,
    diff,
    risks: writeError === null ? risks : [...risks, migrationRisks.write],
    backup,
    rollbackHint: applied ? (backup === null ? `rm ${runtimeFile}` : `cp ${backup} ${runtimeFile}`) : null,
    parseError,
    writeError,
  }
  return { ...report, summary: summaryOf(report) }
}
