/**
 * Whether a lock still holds: a pure judgement of what its file says and what this machine knows (H2.2). Always: a lock is
 * stale only past its expiry, either by the grace or because its owner's process is gone from this host. Ages are taken from
 * the machine's own scale when the lock was made in the same boot, so that a wall clock that is set makes no lock stale and
 * none eternal. Acting on the judgement is left to locks.ts and recover.ts.
 */
import type { Machine } from '../../../ports/disk/machine.js'

/** What a lock file holds; `token`, `host` and what follows it are absent in locks of other programs. */
export interface LockRecord {
  readonly owner: string
  readonly pid: number
  readonly createdAt: string
  /** Seconds since 1970, as the reference writes them. */
  readonly createdAtTs: number
  readonly expiresAt: string
  readonly expiresAtTs: number
  readonly resource: string
  readonly host?: string
  /** The fencing token: it only grows. */
  readonly token?: number
  readonly ttlMs?: number
  /** The boot it was made in, how long that had lasted, and what tells the process from a later one with its pid. */
  readonly bootId?: string
  readonly upMs?: number
  readonly startMark?: string
}

export interface LockFile {
  readonly record: LockRecord | undefined
  /** Why there is no record. */
  readonly broken?: 'empty' | 'broken' | 'too_large' | 'no_regular_file'
  readonly changedAtMs: number
}

export interface LockStatus {
  readonly stale: 'expired' | 'owner-dead' | false
  /** Past its expiry: no longer younger than its TTL. */
  readonly expired: boolean
  /** undefined: nobody here can tell. */
  readonly ownerAlive: boolean | undefined
  readonly ageMs: number
  readonly why: string
}

export const lockTtlMs = 30_000
export const lockGraceMs = 15_000
// A start time is known to the tick, and the boot it is counted from to the second.
const startSlackMs = 2_000
// A record that was edited by hand no longer says the same in all of its fields.
const sameSpanMs = 1_500

export interface LockContext {
  readonly nowMs: number
  readonly graceMs: number
  readonly machine: Pick<Machine, 'host' | 'bootId' | 'uptimeMs' | 'process'>
}

export function lockStatus(file: LockFile, { nowMs, graceMs, machine }: LockContext): LockStatus {
  const { record } = file
  if (record === undefined) {
    const ageMs = nowMs - file.changedAtMs
    const expired = ageMs > lockTtlMs
    const stale = ageMs > lockTtlMs + graceMs ? 'expired' : false
    return { stale, expired, ownerAlive: undefined, ageMs, why: `its file is ${file.broken ?? 'unreadable'}` }
  }
  const ours = record.host === undefined || record.host === machine.host
  const rebooted =
    ours && record.bootId !== undefined && machine.bootId !== undefined && record.bootId !== machine.bootId
  const span = (record.expiresAtTs - record.createdAtTs) * 1_000
  const sameScale =
    ours &&
    !rebooted &&
    record.bootId !== undefined &&
    record.upMs !== undefined &&
    record.ttlMs !== undefined &&
    Math.abs(span - record.ttlMs) < sameSpanMs
  const ageMs = sameScale ? machine.uptimeMs() - record.upMs! : nowMs - record.createdAtTs * 1_000
  // Made in an earlier boot under a clock that ran ahead: it would otherwise hold until that hour comes.
  const fromTheFuture = rebooted && ageMs < 0
  const overMs = fromTheFuture ? 0 : sameScale ? ageMs - record.ttlMs! : nowMs - record.expiresAtTs * 1_000
  const expired = overMs > 0 || fromTheFuture
  const ownerAlive = !ours || record.pid <= 0 ? undefined : rebooted ? false : isAlive(record, machine)
  if (overMs > graceMs) return { stale: 'expired', expired, ownerAlive, ageMs, why: 'past its expiry and the grace' }
  if (expired && ownerAlive === false)
    return { stale: 'owner-dead', expired, ownerAlive, ageMs, why: 'past its expiry, and its process is gone' }
  const why = !expired ? 'younger than its TTL' : 'expired, but inside the grace'
  return { stale: false, expired, ownerAlive, ageMs, why }
}

function isAlive(record: LockRecord, machine: Pick<Machine, 'process'>): boolean {
  const now = machine.process(record.pid)
  if (!now.alive) return false
  if (record.startMark !== undefined && now.startMark !== undefined) return record.startMark === now.startMark
  // Older than the lock it is said to have made, or the pid has been given to another program since.
  return now.startedAtMs === undefined || now.startedAtMs <= record.createdAtTs * 1_000 + startSlackMs
}

/** What the file's text says, with the spellings of the reference; undefined when it is no lock. */
export function parseLock(text: string): LockRecord | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
  if (typeof value !== 'object' || value === null) return undefined
  const told = value as Readonly<Record<string, unknown>>
  const expiresAtTs = instant(told['expiresAtTs'], told['expiresAt'])
  if (expiresAtTs === undefined) return undefined
  const createdAtTs = instant(told['createdAtTs'], told['createdAt']) ?? expiresAtTs - lockTtlMs / 1_000
  const number = (key: string) => {
    const one = told[key]
    return typeof one === 'number' && Number.isFinite(one) ? { [key]: one } : {}
  }
  const text1 = (key: string) => (typeof told[key] === 'string' ? { [key]: told[key] } : {})
  return {
    owner: typeof told['owner'] === 'string' ? told['owner'].slice(0, ownerMax) : 'unknown',
    pid: Number.isSafeInteger(told['pid']) ? (told['pid'] as number) : 0,
    createdAt: iso(createdAtTs),
    createdAtTs,
    expiresAt: iso(expiresAtTs),
    expiresAtTs,
    resource: typeof told['resource'] === 'string' ? told['resource'] : '',
    ...text1('host'),
    ...number('token'),
    ...number('ttlMs'),
    ...text1('bootId'),
    ...number('upMs'),
    ...text1('startMark'),
  }
}

/** Seconds since 1970, from a number (milliseconds are recognised by their size) or from an ISO text. */
function instant(ts: unknown, text: unknown): number | undefined {
  if (typeof ts === 'number' && Number.isFinite(ts) && ts > 0) return Math.min(ts > 1e11 ? ts / 1_000 : ts, latestTs)
  const parsed = typeof text === 'string' ? Date.parse(text) : Number.NaN
  return Number.isNaN(parsed) ? undefined : parsed / 1_000
}

/** It is shown to people. */
const ownerMax = 1_000
/** The last second that a date can show. */
const latestTs = 8.64e12
export const iso = (seconds: number): string => new Date(seconds * 1_000).toISOString()
