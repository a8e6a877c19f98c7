/**
 * What `recover-stale-locks` does (H2.3, H2.4). Always: without `apply` nothing changes; a lock younger than its TTL stays
 * unless `force`; more than one at once needs `yes`; the audit line is on the disk before the lock is touched; a lock that is
 * no longer the one that was judged stays. A generation of ours is only renamed: it tells the next holder to fence.
 */
import { join } from 'node:path'
import type { LogFile } from '../../ports/disk/disk.js'
import { iso, lockStatus, lockGraceMs, type LockStatus, type LockFile } from '../log/locks/lock-status.js'
import { generationName, generations, readLock, type LockPorts } from '../log/locks/locks.js'
import { errorCode, explainDisk, findRoot, type TaskRoot } from '../log/root.js'

export interface RecoverOptions {
  readonly root: string
  readonly apply: boolean
  readonly force: boolean
  readonly yes: boolean
  readonly graceMs?: number
}

export interface LockInfo {
  readonly path: string
  readonly resource: string | null
  readonly owner: string | null
  readonly pid: number | null
  readonly host: string | null
  readonly token: number | null
  readonly createdAt: string | null
  readonly expiresAt: string | null
  readonly ageSec: number
  readonly ownerAlive: boolean | null
  /** `forced`: younger than its TTL, or inside the grace. */
  readonly reason: 'expired' | 'owner-dead' | 'forced' | null
  readonly broken: LockFile['broken'] | null
  readonly why: string
}

export interface RecoverReport {
  readonly ok: boolean
  readonly mode: 'dry-run' | 'apply'
  readonly root: string
  readonly graceSec: number
  readonly scanned: number
  readonly candidates: readonly LockInfo[]
  /** Locks that hold. */
  readonly held: readonly LockInfo[]
  readonly reclaimed: readonly LockInfo[]
  /** Why nothing was done, though asked for. */
  readonly refused: string | null
  readonly errors: readonly { readonly path: string; readonly error: string }[]
}

interface Found {
  readonly info: LockInfo
  readonly name: string
  readonly identity: string
}

export async function recoverStaleLocks(options: RecoverOptions, world: LockPorts): Promise<RecoverReport> {
  const root = await findRoot(options.root, world)
  const graceMs = options.graceMs ?? lockGraceMs
  const found = await scan(root, options.force, graceMs, world)
  const candidates = found.filter(({ info: seen }) => seen.reason !== null)
  const bulk = candidates.length > 1 && !options.yes
  const refused =
    options.apply && bulk ? `${candidates.length} locks would be reclaimed at once: look at each, then add --yes` : null
  const reclaimed: LockInfo[] = []
  const errors: { path: string; error: string }[] = []
  if (options.apply && refused === null && candidates.length > 0) {
    const audit = await explainDisk(root.audit, () => world.disk.openLog(root.audit, 'append'))
    if (audit === 'missing') throw new Error('an append creates its file')
    try {
      for (const one of candidates) {
        try {
          if (await reclaim(one, root, audit, world)) reclaimed.push(one.info)
          else errors.push({ path: one.info.path, error: 'it is no longer the lock that was judged' })
        } catch (error) {
          errors.push({ path: one.info.path, error: error instanceof Error ? error.message : errorCode(error) })
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
    held: found.filter(({ info: seen }) => seen.reason === null).map(({ info: seen }) => seen),
    reclaimed,
    refused,
    errors,
  }
}

async function scan(root: TaskRoot, force: boolean, graceMs: number, world: LockPorts): Promise<Found[]> {
  const { disk, machine, clock } = world
  const found: Found[] = []
  for (const name of (await explainDisk(root.locks, () => disk.list(root.locks))).toSorted()) {
    if (!name.endsWith('.lock')) continue
    const path = join(root.locks, name)
    const entry = await disk.stat(path)
    if (entry === 'missing') continue
    const file = await readLock(disk, path)
    if (file === 'missing') continue
    const judged = lockStatus(file, { nowMs: clock.wallMs(), graceMs, machine })
    // A folder holds who knows what: it is shown, and left alone.
    const reason = entry.kind === 'folder' ? null : judged.stale !== false ? judged.stale : force ? 'forced' : null
    found.push({ info: describe(path, file, judged, reason), name, identity: entry.identity })
  }
  return found
}

function describe(path: string, file: LockFile, judged: LockStatus, reason: LockInfo['reason']): LockInfo {
  const { record } = file
  return {
    path,
    resource: record?.resource ?? null,
    owner: record?.owner ?? null,
    pid: record?.pid ?? null,
    host: record?.host ?? null,
    token: record?.token ?? null,
    createdAt: record?.createdAt ?? null,
    expiresAt: record?.expiresAt ?? null,
    ageSec: Math.round(judged.ageMs / 100) / 10,
    ownerAlive: judged.ownerAlive ?? null,
    reason,
    broken: file.broken ?? null,
    why: judged.why,
  }
}

/** Whether it was reclaimed; false: it was no longer the same. */
async function reclaim(found: Found, root: TaskRoot, audit: LogFile, world: LockPorts): Promise<boolean> {
  const { info: seen, name, identity } = found
  await note(audit, 'reclaimed', seen, world)
  const { disk, ids } = world
  const [generation] = generations([name])
  const aside = generation === undefined ? `${name}.${ids.next()}.aside` : generationName(generation.token, 'void')
  // Moved before it is removed: what has been moved can be looked at, and given back if it is another one.
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
  await note(audit, 'not_reclaimed', seen, world)
  return false
}

async function note(audit: LogFile, action: string, seen: LockInfo, { clock, machine }: LockPorts): Promise<void> {
  const { path, owner, reason, ...rest } = seen
  const line = {
    at: iso(clock.wallMs() / 1_000),
    action,
    lock: path,
    owner,
    oldOwner: owner,
    reason,
    ...rest,
    by: { pid: machine.pid, host: machine.host },
  }
  // After a crash the last line may be a piece of one: ours begins a new one.
  const size = await audit.size()
  const last = Buffer.alloc(1)
  const open = size > 0 && (await audit.read(last, size - 1)) === 1 && last[0] !== 0x0a
  await audit.append(Buffer.from(`${open ? '\n' : ''}${JSON.stringify(line)}\n`))
  await audit.flush()
}
