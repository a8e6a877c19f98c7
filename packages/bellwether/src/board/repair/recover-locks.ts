/**
 * Implements `recover-stale-locks` (H2.3, H2.4). Nothing changes without `apply`. A lock younger than its TTL stays unless
 * `force`; several locks at once need `yes`. The audit line is on disk before the lock is touched; a lock that changed since it
 * was checked stays. A generation of the board's own lock is only renamed, which makes the next holder append a fence.
 */
import { join } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { lockInfo, openLockAudit, type LockAudit, type LockInfo } from '../log/locks/lock-audit.js'
import { lockStatus, lockGraceMs } from '../log/locks/lock-status.js'
import { generationName, generations, readLock, type LockPorts } from '../log/locks/locks.js'
import { explainDisk, findRoot, type TaskRoot } from '../log/root.js'

export interface RecoverOptions {
  readonly root: string
  readonly apply: boolean
  readonly force: boolean
  readonly yes: boolean
  readonly graceMs?: number
}

export interface RecoverReport {
  readonly ok: boolean
  readonly mode: 'dry-run' | 'apply'
  readonly root: string
  readonly graceSec: number
  readonly scanned: number
  readonly candidates: readonly LockInfo[]
  /** Locks that are valid. */
  readonly held: readonly LockInfo[]
  readonly reclaimed: readonly LockInfo[]
  /** Why `apply` did nothing. */
  readonly refused: string | null
  readonly errors: readonly { readonly path: string; readonly error: string }[]
}

interface Found {
  readonly info: LockInfo
  readonly name: string
  readonly identity: string
}

export async function recoverStaleLocks(options: RecoverOptions, ports: LockPorts): Promise<RecoverReport> {
  const root = await findRoot(options.root, ports)
  const graceMs = options.graceMs ?? lockGraceMs
  const found = await scan(root, options.force, graceMs, ports)
  const candidates = found.filter(({ info: seen }) => seen.reason !== null)
  const bulk = candidates.length > 1 && !options.yes
  const refused =
    options.apply && bulk ? `${candidates.length} locks would be reclaimed at once; check each, then add --yes` : null
  const reclaimed: LockInfo[] = []
  const errors: { path: string; error: string }[] = []
  if (options.apply && refused === null && candidates.length > 0) {
    const audit = await openLockAudit(root.locks, ports)
    try {
      for (const one of candidates) {
        try {
          if (await reclaim(one, root, audit, ports)) reclaimed.push(one.info)
          else errors.push({ path: one.info.path, error: 'the lock changed since it was checked' })
        } catch (error) {
          errors.push({ path: one.info.path, error: errorMessage(error) })
        }
      }
    } finally {
      await audit.close()
    }
  }
  return {
    ok: refused === null && errors.length === 0,
    mode: options.apply ? 'apply' : 'dry-run',
    root: root.path,
    graceSec: graceMs / 1_000,
    scanned: found.length,
    candidates: candidates.map(({ info: seen }) => seen),
    held: found.filter(({ info }) => info.reason === null).map(({ info }) => info),
    reclaimed,
    refused,
    errors,
  }
}

async function scan(root: TaskRoot, force: boolean, graceMs: number, ports: LockPorts): Promise<Found[]> {
  const { disk, machine, clock } = ports
  const found: Found[] = []
  for (const name of (await explainDisk(root.locks, () => disk.list(root.locks))).toSorted()) {
    if (!name.endsWith('.lock')) continue
    const path = join(root.locks, name)
    const entry = await disk.stat(path)
    if (entry === 'missing') continue
    const file = await readLock(disk, path)
    if (file === 'missing') continue
    const status = lockStatus(file, { nowMs: clock.wallMs(), graceMs, machine })
    // A folder may contain anything: list it, but leave it alone.
    const reason = entry.kind === 'folder' ? null : status.stale !== false ? status.stale : force ? 'forced' : null
    found.push({ info: lockInfo(path, file, status, reason), name, identity: entry.identity })
  }
  return found
}

/** False: the lock changed since it was checked. */
async function reclaim(found: Found, root: TaskRoot, audit: LockAudit, ports: LockPorts): Promise<boolean> {
  const { info: seen, name, identity } = found
  await audit.append('reclaimed', seen)
  const { disk, ids } = ports
  const [generation] = generations([name])
  const aside = generation === undefined ? `${name}.${ids.next()}.aside` : generationName(generation.token, 'void')
  // Move before removing: the moved file can be checked, and moved back if it is another lock.
  const moved = await explainDisk(seen.path, () => disk.move(seen.path, join(root.locks, aside)))
  if (moved === 'moved') {
    const entry = await disk.stat(join(root.locks, aside))
    if (entry !== 'missing' && entry.identity === identity) {
      if (generation === undefined) await disk.remove(join(root.locks, aside))
      return true
    }
    if (generation === undefined && (await disk.link(join(root.locks, aside), seen.path)) === 'linked')
      await disk.remove(join(root.locks, aside))
  }
  await audit.append('not_reclaimed', seen)
  return false
}
