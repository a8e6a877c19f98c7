/**
 * The audit of reclaimed locks, state/locks/recovery.audit.jsonl: one line per lock, with its old owner and age, whether a tool
 * reclaimed it or the next writer took it over. Two files of bounded size are kept. A line is on disk when `append` returns.
 */
import { join } from 'node:path'
import type { Clock } from '@bellwether/base'
import type { Disk, LogFile } from '../../../ports/disk/disk.js'
import type { Machine } from '../../../ports/disk/machine.js'
import { auditName, explainDisk } from '../root.js'
import { iso, type LockFile, type LockStatus } from './lock-status.js'

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
  /** `forced`: younger than its TTL, or within the grace period. */
  readonly reason: 'expired' | 'owner-dead' | 'forced' | null
  readonly broken: LockFile['broken'] | null
  readonly why: string
}

export function lockInfo(path: string, file: LockFile, status: LockStatus, reason: LockInfo['reason']): LockInfo {
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
    ageSec: Math.round(status.ageMs / 100) / 10,
    ownerAlive: status.ownerAlive ?? null,
    reason,
    broken: file.broken ?? null,
    why: status.why,
  }
}

/** `taken_over`: the next writer holds the lock with `newToken`. The others are by `recover-stale-locks`. */
type AuditAction = 'taken_over' | 'reclaimed' | 'not_reclaimed'

export interface LockAudit {
  append(action: AuditAction, lock: LockInfo, newToken?: number): Promise<void>
  close(): Promise<void>
}

interface AuditPorts {
  readonly disk: Pick<Disk, 'stat' | 'move' | 'openLog'>
  readonly clock: Pick<Clock, 'wallMs'>
  readonly machine: Pick<Machine, 'pid' | 'host'>
}

// Thousands of lines, in a file that a person can still open.
const auditMaxBytes = 1_048_576
const previousName = 'recovery.audit.1.jsonl'

export async function openLockAudit(locks: string, { disk, clock, machine }: AuditPorts): Promise<LockAudit> {
  const path = join(locks, auditName)
  const entry = await disk.stat(path)
  if (entry !== 'missing' && entry.size > auditMaxBytes) await disk.move(path, join(locks, previousName))
  const file = await explainDisk(path, () => disk.openLog(path, 'append'))
  if (file === 'missing') throw new Error('an append creates its file')
  return {
    async append(action, { path: lock, owner, reason, ...rest }, newToken) {
      const line = {
        at: iso(clock.wallMs() / 1_000),
        action,
        lock,
        owner,
        oldOwner: owner,
        reason,
        ...rest,
        newToken: newToken ?? null,
        by: { pid: machine.pid, host: machine.host },
      }
      // After a crash the last line may be incomplete: start a new one.
      const start = (await endsInOpenLine(file)) ? '\n' : ''
      await file.append(Buffer.from(`${start}${JSON.stringify(line)}\n`))
      await file.flush()
    },
    close: () => file.close(),
  }
}

async function endsInOpenLine(file: LogFile): Promise<boolean> {
  const size = await file.size()
  const last = Buffer.alloc(1)
  return size > 0 && (await file.read(last, size - 1)) === 1 && last[0] !== 0x0a
}
