/**
 * The lock of the log. Each acquisition creates a new generation, `tasks.N.lock`, exclusively and with its content; N is the
 * fencing token of every line written under it. The owner renames its generation to `.free`, a tool that reclaims it to
 * `.void`; both stay until a higher one exists, so that no number is used twice. If an earlier generation was not freed, its
 * writer may be alive: the next holder appends a fence before it reads (`mustFence`) and only then removes the old files.
 */
import { join } from 'node:path'
import { defined, errorCode, type Clock, type Log } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Disk } from '../../../ports/disk/disk.js'
import type { Machine } from '../../../ports/disk/machine.js'
import type { Ids } from '../../../ports/ids.js'
import { backoffMs } from '../../../ports/retry.js'
import { clearDrafts } from '../snapshot/snapshot-archive.js'
import { lockInfo, openLockAudit } from './lock-audit.js'
import { iso, lockStatus, parseLock, type LockFile, type LockRecord, type LockStatus } from './lock-status.js'
import { explainDisk } from '../root.js'

export interface LockPorts {
  readonly disk: Disk
  readonly machine: Machine
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Log
}

export interface LockOptions {
  readonly owner: string
  readonly ttlMs: number
  readonly graceMs: number
  /** How long to wait while another process holds the lock. */
  readonly waitMs: number
}

export interface Lease {
  readonly token: number
  /** An earlier holder may still write: append a fence, read on, then call `clearBelow`. */
  readonly mustFence: boolean
  /** Whether another process may have taken over the lock. */
  expired(): boolean
  clearBelow(): Promise<void>
  release(): Promise<void>
}

/** A lock file has a few hundred bytes; a larger file is something else. */
const lockMaxBytes = 65_536
/** The lock of the reference's own tools; writers here respect it. */
const referenceLock = 'task-board.lock'
const resource = 'tasks.jsonl'
const pattern = /^tasks\.(\d{1,15})\.(lock|free|void)$/
// Short, because a lock is held for one write only; growing, because many may wait.
const polls = { mode: 'exponential', baseMs: 2, multiplier: 1.5, maxMs: 25, jitterPct: 0 } as const
// A write that starts in the last part of a lease could end after it.
const leaseUsedPart = 0.8

export interface Generation {
  readonly name: string
  readonly token: number
  readonly kind: 'lock' | 'free' | 'void'
}

export function generations(names: readonly string[]): Generation[] {
  const found: Generation[] = []
  for (const name of names) {
    const [, token, kind] = pattern.exec(name) ?? []
    if (token !== undefined) found.push({ name, token: Number(token), kind: kind as Generation['kind'] })
  }
  return found.sort((a, b) => a.token - b.token)
}

export const generationName = (token: number, kind: Generation['kind']): string =>
  `tasks.${String(token).padStart(10, '0')}.${kind}`

export async function readLock(disk: Disk, path: string): Promise<LockFile | 'missing'> {
  const entry = await disk.stat(path)
  if (entry === 'missing') return entry
  const { changedAtMs } = entry
  const read = await disk.read(path, lockMaxBytes)
  if (read.found === 'missing') return 'missing'
  if (read.found === 'too_large') return { record: undefined, broken: 'too_large', changedAtMs }
  if (read.found === 'no_file') return { record: undefined, broken: 'no_regular_file', changedAtMs }
  if (read.bytes.length === 0) return { record: undefined, broken: 'empty', changedAtMs }
  const record = parseLock(read.bytes.toString('utf8'))
  return record === undefined ? { record, broken: 'broken', changedAtMs } : { record, changedAtMs }
}

/** The lock was not free in time. `obstacle` says who holds it. */
export class LockContention extends Retryable {
  constructor(
    waitedMs: number,
    readonly obstacle: string,
  ) {
    super(`Cannot lock the board: waited ${(waitedMs / 1_000).toFixed(1)} s, but ${obstacle}.`, {
      code: 'lock_contention',
      afterMs: polls.maxMs,
      hint: 'Retry. If no other process uses the board, run bellwether recover-stale-locks --root DIR.',
    })
  }
}

/** Acquires the lock with a token above `floor`. Throws LockContention if it was not free in time. */
export async function acquire(folder: string, floor: number, options: LockOptions, ports: LockPorts): Promise<Lease> {
  const { clock } = ports
  const startedMs = clock.monotonicMs()
  for (let tries = 1; ; tries += 1) {
    const lease = await tryAcquire(folder, floor, options, ports)
    if (typeof lease !== 'string') return lease
    const waitedMs = clock.monotonicMs() - startedMs
    if (waitedMs >= options.waitMs) throw new LockContention(waitedMs, lease)
    await clock.sleep(Math.min(backoffMs({ backoff: polls }, tries), options.waitMs - waitedMs))
  }
}

/** A string: why the lock is not free. */
async function tryAcquire(
  folder: string,
  floor: number,
  options: LockOptions,
  ports: LockPorts,
): Promise<Lease | string> {
  const { disk, machine, clock, ids } = ports
  const context = { nowMs: clock.wallMs(), graceMs: options.graceMs, machine }
  const names = await explainDisk(folder, () => disk.list(folder))
  const top = generations(names).at(-1)
  for (const name of [names.includes(referenceLock) ? referenceLock : '', top?.kind === 'lock' ? top.name : '']) {
    if (name === '') continue
    const file = await readLock(disk, join(folder, name))
    if (file === 'missing') return 'another process released it just now'
    const status = lockStatus(file, context)
    // The lock of a process that died is not waited for: the fence keeps its lines out even if it were alive.
    const isFree = status.stale !== false || (name !== referenceLock && status.abandoned)
    if (!isFree) return holderText(name, file, status)
  }
  const token = Math.max(top?.token ?? 0, floor) + 1
  const name = generationName(token, 'lock')
  const path = join(folder, name)
  const upMs = machine.uptimeMs()
  const record = makeRecord(token, upMs, options, ports)
  const draft = join(folder, `${ids.next()}.draft`)
  const created = await explainDisk(path, () =>
    disk.createExclusive(path, draft, Buffer.from(`${JSON.stringify(record)}\n`)),
  )
  if (created === 'taken') return 'another process acquired it first'
  // Between listing and creating, another process may have used and freed this number.
  const others = generations(await disk.list(folder)).filter((one) => one.name !== name)
  if (others.some((other) => other.token >= token)) {
    await disk.remove(path)
    return 'another process acquired it first'
  }
  const below = others.filter((one) => one.token < token)
  const mustFence = below.some((generation) => generation.kind !== 'free')
  const clearBelow = async () => {
    await auditTakeover(folder, below, token, options, ports)
    for (const one of below) await removeOldLock(join(folder, one.name), ports)
    // An earlier holder died, perhaps while creating a lock.
    if (mustFence) await clearDrafts(folder, await disk.list(folder), clock.wallMs(), disk)
  }
  if (!mustFence) await clearBelow()
  return {
    token,
    mustFence,
    expired: () => machine.uptimeMs() - upMs > options.ttlMs * leaseUsedPart,
    clearBelow,
    release: async () => {
      await disk.move(path, join(folder, generationName(token, 'free')))
    },
  }
}

function holderText(name: string, { record }: LockFile, { ageMs, why }: LockStatus): string {
  const process = `pid ${record?.pid ?? 'unknown'} on ${record?.host ?? 'an unknown host'}`
  return `${record?.owner ?? name} (${process}) has held it for ${(ageMs / 1_000).toFixed(1)} s: ${why}`
}

/**
 * Records who held the generations that this one replaces (H2.6), except those that their owners released. After a crash before the
 * files are removed, the lines are repeated. The takeover is valid even if the audit cannot be written; the error log then names the locks.
 */
async function auditTakeover(
  folder: string,
  below: readonly Generation[],
  token: number,
  { graceMs }: LockOptions,
  ports: LockPorts,
): Promise<void> {
  const taken = below.filter(({ kind }) => kind !== 'free')
  if (taken.length === 0) return
  const { disk, machine, clock, log } = ports
  try {
    const audit = await openLockAudit(folder, ports)
    try {
      for (const { name } of taken) {
        const path = join(folder, name)
        const file = await readLock(disk, path)
        // Its owner has released it since.
        if (file === 'missing') continue
        const status = lockStatus(file, { nowMs: clock.wallMs(), graceMs, machine })
        const reason = status.stale !== false ? status.stale : status.abandoned ? 'owner-dead' : null
        await audit.append('taken_over', lockInfo(path, file, status, reason), token)
      }
    } finally {
      await audit.close()
    }
  } catch (error) {
    log.error({ err: error, locks: taken.map(({ name }) => name), newToken: token }, 'cannot audit a lock takeover')
  }
}

async function removeOldLock(path: string, { disk, log }: LockPorts): Promise<void> {
  try {
    await disk.remove(path)
  } catch (error) {
    // For example a folder in the place of a lock. It does no harm.
    log.warn({ err: error, path, code: errorCode(error) }, 'cannot remove an old lock')
  }
}

function makeRecord(token: number, upMs: number, options: LockOptions, { machine, clock }: LockPorts): LockRecord {
  const nowMs = clock.wallMs()
  const [createdAtTs, expiresAtTs] = [nowMs / 1_000, (nowMs + options.ttlMs) / 1_000]
  const { startMark } = machine.process(machine.pid)
  return {
    owner: options.owner,
    pid: machine.pid,
    createdAt: iso(createdAtTs),
    expiresAt: iso(expiresAtTs),
    createdAtTs,
    expiresAtTs,
    resource,
    host: machine.host,
    token,
    ttlMs: options.ttlMs,
    upMs,
    ...defined({ bootId: machine.bootId, pidNamespace: machine.pidNamespace, startMark }),
  }
}
