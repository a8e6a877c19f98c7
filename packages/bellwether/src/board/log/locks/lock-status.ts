/**
 * Decides whether a lock is stale (H2.2), from its file and what this machine knows. Pure. A lock is stale only after its
 * expiry: past the grace period, or when its owner's process on this host is gone. Within one boot, ages come from the
 * uptime, so that setting the wall clock makes no lock stale and none permanent. A lock whose owner certainly died is
 * `abandoned` before it is stale.
 */
import { isObject, parseJson } from '@bellwether/base'
import type { Machine } from '../../../ports/disk/machine.js'

/** The contents of a lock file. Locks of other programs lack the optional keys. */
export interface LockRecord {
  readonly owner: string
  readonly pid: number
  readonly createdAt: string
  /** Seconds since 1970, as in the reference implementation. */
  readonly createdAtTs: number
  readonly expiresAt: string
  readonly expiresAtTs: number
  readonly resource: string
  readonly host?: string
  /** The fencing token; it only grows. */
  readonly token?: number
  readonly ttlMs?: number
  /** The boot and its uptime when the lock was created, and a mark that differs for a later process with the same pid. */
  readonly bootId?: string
  readonly upMs?: number
  readonly startMark?: string
  readonly pidNamespace?: string
}

export interface LockFile {
  readonly record: LockRecord | undefined
  /** Why `record` is undefined. */
  readonly broken?: 'empty' | 'broken' | 'too_large' | 'no_regular_file'
  readonly changedAtMs: number
}

export interface LockStatus {
  readonly stale: 'expired' | 'owner-dead' | false
  /** Past its expiry: no longer younger than its TTL. */
  readonly expired: boolean
  /** Undefined: this host cannot know. */
  readonly ownerAlive: boolean | undefined
  /**
   * Its owner is certainly dead: created on this host in this boot, with a pid that this process can see. The next writer takes it over
   * before its expiry; tools that remove locks leave it until then (H2.4).
   */
  readonly abandoned: boolean
  /** Never negative. */
  readonly ageMs: number
  readonly why: string
}

const lockTtlMs = 30_000
export const lockGraceMs = 15_000
// A start time is exact to one tick, the boot time it counts from to one second.
const startSlackMs = 2_000
// If the fields of a record disagree by more, a person edited it by hand.
const sameSpanMs = 1_500

export interface LockContext {
  readonly nowMs: number
  readonly graceMs: number
  readonly machine: Pick<Machine, 'host' | 'bootId' | 'pidNamespace' | 'uptimeMs' | 'process'>
}

export function lockStatus(file: LockFile, { nowMs, graceMs, machine }: LockContext): LockStatus {
  const { record } = file
  if (record === undefined) {
    const sinceMs = nowMs - file.changedAtMs
    return {
      stale: sinceMs > lockTtlMs + graceMs ? 'expired' : false,
      expired: sinceMs > lockTtlMs,
      ownerAlive: undefined,
      abandoned: false,
      ageMs: Math.max(0, sinceMs),
      why: `lock file ${file.broken ?? 'unreadable'}`,
    }
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
  const sinceMs = sameScale ? machine.uptimeMs() - record.upMs! : nowMs - record.createdAtTs * 1_000
  // Created in an earlier boot under a clock that ran ahead: it would otherwise hold until that time.
  const fromTheFuture = rebooted && sinceMs < 0
  const overMs = fromTheFuture ? 0 : sameScale ? sinceMs - record.ttlMs! : nowMs - record.expiresAtTs * 1_000
  const expired = overMs > 0 || fromTheFuture
  const ownerAlive = !ours || record.pid <= 0 ? undefined : rebooted ? false : isAlive(record, machine)
  const sameProcesses = record.pidNamespace !== undefined && record.pidNamespace === machine.pidNamespace
  const abandoned = ownerAlive === false && record.host !== undefined && (rebooted || sameProcesses)
  // The clock of another host, or an edited record: the age of the file says more.
  const ageMs = sinceMs >= 0 ? sinceMs : Math.max(0, nowMs - file.changedAtMs)
  const known = { expired, ownerAlive, abandoned, ageMs }
  if (overMs > graceMs) return { ...known, stale: 'expired', why: 'past its expiry and the grace period' }
  if (expired && ownerAlive === false) return { ...known, stale: 'owner-dead', why: 'expired, and its process is gone' }
  const aheadSec = Math.round(-sinceMs / 1_000)
  const why = expired
    ? 'expired, but within the grace period'
    : aheadSec > 0
      ? `dated ${aheadSec} s ahead of this clock`
      : 'younger than its TTL'
  return { ...known, stale: false, why }
}

function isAlive(record: LockRecord, machine: Pick<Machine, 'process'>): boolean {
  const now = machine.process(record.pid)
  if (!now.alive) return false
  if (record.startMark !== undefined && now.startMark !== undefined) return record.startMark === now.startMark
  // A process that started after the lock was created is another program with a reused pid.
  return now.startedAtMs === undefined || now.startedAtMs <= record.createdAtTs * 1_000 + startSlackMs
}

/** Parses a lock file, including the spellings of the reference. Undefined: not a lock. */
export function parseLock(text: string): LockRecord | undefined {
  const fields = parseJson(text)
  if (!isObject(fields)) return undefined
  const recordedTs = instant(fields['createdAtTs'], fields['createdAt'])
  // A lock without an expiry has the default TTL.
  const expiresAtTs =
    instant(fields['expiresAtTs'], fields['expiresAt']) ??
    (recordedTs === undefined ? undefined : recordedTs + lockTtlMs / 1_000)
  if (expiresAtTs === undefined) return undefined
  const createdAtTs = recordedTs ?? expiresAtTs - lockTtlMs / 1_000
  const number = (key: string) => {
    const value = fields[key]
    return typeof value === 'number' && Number.isFinite(value) ? { [key]: value } : {}
  }
  const string = (key: string) => (typeof fields[key] === 'string' ? { [key]: fields[key] } : {})
  return {
    owner: typeof fields['owner'] === 'string' ? fields['owner'].slice(0, ownerMax) : 'unknown',
    pid: Number.isSafeInteger(fields['pid']) ? (fields['pid'] as number) : 0,
    createdAt: iso(createdAtTs),
    createdAtTs,
    expiresAt: iso(expiresAtTs),
    expiresAtTs,
    resource: typeof fields['resource'] === 'string' ? fields['resource'] : '',
    ...string('host'),
    ...number('token'),
    ...number('ttlMs'),
    ...string('bootId'),
    ...number('upMs'),
    ...string('startMark'),
    ...string('pidNamespace'),
  }
}

/** Seconds since 1970, from a number (milliseconds are recognised by their size) or an ISO string. */
function instant(ts: unknown, text: unknown): number | undefined {
  if (typeof ts === 'number' && Number.isFinite(ts) && ts > 0) return Math.min(ts > 1e11 ? ts / 1_000 : ts, latestTs)
  const parsed = typeof text === 'string' ? Date.parse(text) : Number.NaN
  return Number.isNaN(parsed) ? undefined : parsed / 1_000
}

/** Long enough for a name; it is printed. */
const ownerMax = 1_000
/** The last second that a Date can represent. */
const latestTs = 8.64e12
export const iso = (seconds: number): string => new Date(seconds * 1_000).toISOString()
