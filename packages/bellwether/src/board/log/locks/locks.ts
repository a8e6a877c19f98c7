/**
 * The lock of the log. Each time it is taken it is a new generation, `tasks.N.lock`, and N is the fencing token that every line
 * carries. Always: a generation is created exclusively, with its content, and once; nobody removes another's newest
 * generation. Its owner renames it to `.free`, a tool that reclaims it to `.void`; both stay until a higher one exists, so
 * that numbers are never given twice. A generation below that was not freed by its owner may still have a writer: whoever
 * comes next must append a fence before it reads (`mustFence`), and only then may clear the old names away. Judging a lock is
 * left to lock-judge.ts.
 */
import { join } from 'node:path'
import type { Clock, Log } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Disk } from '../../../ports/disk/disk.js'
import type { Machine } from '../../../ports/disk/machine.js'
import type { Ids } from '../../../ports/ids.js'
import { backoffMs } from '../../../ports/retry.js'
import { clearDrafts } from '../snapshot/snapshot-archive.js'
import { iso, lockStatus, parseLock, type LockFile, type LockRecord } from './lock-status.js'
import { errorCode, explainDisk } from '../root.js'

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
  /** How long to wait for somebody else's lock. */
  readonly waitMs: number
}

export interface Lease {
  readonly token: number
  /** An earlier holder may still be writing: append a fence and read on, then `clearBelow`. */
  readonly mustFence: boolean
  /** Whether somebody may have taken over by now. */
  expired(): boolean
  clearBelow(): Promise<void>
  release(): Promise<void>
}

/** A lock of a few hundred bytes; what is larger is something else. */
const lockMaxBytes = 65_536
/** The lock of the reference's own tools: while one of them holds it, we wait. */
const referenceLock = 'task-board.lock'
const resource = 'tasks.jsonl'
const pattern = /^tasks\.(\d{1,15})\.(lock|free|void)$/
// Short, because a hold lasts for one write; growing, because many may wait.
const polls = { mode: 'exponential', baseMs: 2, multiplier: 1.5, maxMs: 25, jitterPct: 0 } as const
// The last part of a lease is not used: what is begun there could end after it.
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

/** Takes the lock with a token above `floor`. Throws Retryable `lock_contention` when it was not free in time. */
export async function acquire(folder: string, floor: number, terms: LockOptions, world: LockPorts): Promise<Lease> {
  const { clock } = world
  const startedMs = clock.monotonicMs()
  for (let attempt = 1; ; attempt += 1) {
    const held = await tryAcquire(folder, floor, terms, world)
    if (typeof held !== 'string') return held
    const waitedMs = clock.monotonicMs() - startedMs
    if (waitedMs >= terms.waitMs) {
      throw new Retryable(`the board's lock was not free within ${terms.waitMs} ms: ${held}`, {
        code: 'lock_contention',
        afterMs: polls.maxMs,
        hint: 'See: bellwether recover-stale-locks --root DIR',
      })
    }
    await clock.sleep(Math.min(backoffMs({ backoff: polls }, attempt), terms.waitMs - waitedMs))
  }
}

/** A text: who holds it. */
async function tryAcquire(
  folder: string,
  floor: number,
  terms: LockOptions,
  world: LockPorts,
): Promise<Lease | string> {
  const { disk, machine, clock, ids } = world
  const facts = { nowMs: clock.wallMs(), graceMs: terms.graceMs, machine }
  const names = await explainDisk(folder, () => disk.list(folder))
  const top = generations(names).at(-1)
  for (const name of [names.includes(referenceLock) ? referenceLock : '', top?.kind === 'lock' ? top.name : '']) {
    if (name === '') continue
    const file = await readLock(disk, join(folder, name))
    if (file === 'missing') return 'it has just been released'
    const { stale, why } = lockStatus(file, facts)
    if (stale === false) return `${file.record?.owner ?? name} (pid ${file.record?.pid ?? '?'}) holds it: ${why}`
  }
  const token = Math.max(top?.token ?? 0, floor) + 1
  const name = generationName(token, 'lock')
  const path = join(folder, name)
  const upMs = machine.uptimeMs()
  const record = makeRecord(token, upMs, terms, world)
  const draft = join(folder, `${ids.next()}.draft`)
  const made = await explainDisk(path, () =>
    disk.createExclusive(path, draft, Buffer.from(`${JSON.stringify(record)}\n`)),
  )
  if (made === 'taken') return 'somebody was faster'
  // The number was counted before it was created: meanwhile it may have been given, freed and outgrown.
  const others = generations(await disk.list(folder)).filter((one) => one.name !== name)
  if (others.some((one) => one.token >= token)) {
    await disk.remove(path)
    return 'somebody was faster'
  }
  const below = others.filter((one) => one.token < token)
  const mustFence = below.some((one) => one.kind !== 'free')
  const clearBelow = async () => {
    for (const one of below) await removeOldLock(join(folder, one.name), world)
    // Somebody died here, perhaps in the middle of making a lock.
    if (mustFence) await clearDrafts(folder, await disk.list(folder), clock.wallMs(), disk)
  }
  if (!mustFence) await clearBelow()
  return {
    token,
    mustFence,
    expired: () => machine.uptimeMs() - upMs > terms.ttlMs * leaseUsedPart,
    clearBelow,
    release: async () => {
      await disk.move(path, join(folder, generationName(token, 'free')))
    },
  }
}

async function removeOldLock(path: string, { disk, log }: LockPorts): Promise<void> {
  try {
    await disk.remove(path)
  } catch (error) {
    // A folder in the place of a lock, say. It does no harm there.
    log.warn({ err: error, path, code: errorCode(error) }, 'an old lock could not be cleared away')
  }
}

function makeRecord(token: number, upMs: number, terms: LockOptions, { machine, clock }: LockPorts): LockRecord {
  const nowMs = clock.wallMs()
  const [createdAtTs, expiresAtTs] = [nowMs / 1_000, (nowMs + terms.ttlMs) / 1_000]
  const { startMark } = machine.process(machine.pid)
  return {
    owner: terms.owner,
    pid: machine.pid,
    createdAt: iso(createdAtTs),
    expiresAt: iso(expiresAtTs),
    createdAtTs,
    expiresAtTs,
    resource,
    host: machine.host,
    token,
    ttlMs: terms.ttlMs,
    upMs,
    ...(machine.bootId === undefined ? {} : { bootId: machine.bootId }),
    ...(startMark === undefined ? {} : { startMark }),
  }
}
