/**
 * An open task root. Always: a write is decided on the newest state, under the lock and with a token above every other, and
 * is acknowledged when the disk has it and it was read back; whoever slept through the lease finds that the lines do not count
 * and decides again. Several processes may have a root open; they wait for each other's locks. In one process, writes wait
 * for each other in line.
 */
import type { Clock, Log } from '@bellwether/base'
import { InvalidInput, Retryable } from '@bellwether/protocol'
import { systemDisk, type Disk } from '../../ports/disk/disk.js'
import { systemMachine, type Machine } from '../../ports/disk/machine.js'
import type { Ids } from '../../ports/ids.js'
import { makeEvent, prepare, type Group } from './prepare-events.js'
import { iso, lockGraceMs } from './locks/lock-status.js'
import { acquire, type Lease, type LockPorts } from './locks/locks.js'
import { TaskLog } from './log.js'
import { findRoot, type TaskRoot } from './root.js'
import { SnapshotWriter } from './snapshot/snapshot-writer.js'
import type { Board, BoardState, Draft, TaskEvent } from './task.js'

export interface BoardOptions {
  readonly root: string
  /** Who holds its locks, for people who read them. */
  readonly owner: string
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Log
  readonly disk?: Disk
  readonly machine?: Machine
  readonly lockTtlMs?: number
  readonly lockGraceMs?: number
  /** How long a write waits for the lock: what local state is given (H1.1). */
  readonly lockWaitMs?: number
  /** Whether snapshots are written as the log grows and at the end. */
  readonly snapshots?: boolean
  /** From this length of the log on, snapshots are such that it can be read on from them. */
  readonly resumeMinBytes?: number
}

const waitMs = 3_000
// A hold is one write. Much longer than a slow disk takes, and short, because the lock of one that died is waited out.
const holdMs = 10_000
// Each loss means a lease that was slept through: whoever loses that often is on a machine that cannot hold one.
const lossesMax = 5

export async function openBoard(options: BoardOptions): Promise<Board> {
  const { disk = systemDisk, machine = systemMachine, clock, ids, log } = options
  const world: LockPorts = { disk, machine, clock, ids, log }
  const root = await findRoot(options.root, world, 'make')
  return new OpenBoard(root, options, world, await TaskLog.open(root, disk, log, options.resumeMinBytes))
}

class OpenBoard implements Board {
  readonly root: string
  readonly #folder: TaskRoot
  readonly #lockOptions
  readonly #ports: LockPorts
  readonly #log: TaskLog
  readonly #snapshotWriter: SnapshotWriter | undefined
  #queue: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(folder: TaskRoot, options: BoardOptions, world: LockPorts, log: TaskLog) {
    this.root = folder.path
    this.#folder = folder
    this.#ports = world
    this.#log = log
    this.#snapshotWriter = options.snapshots === false ? undefined : new SnapshotWriter(folder, world)
    this.#lockOptions = {
      owner: options.owner,
      ttlMs: options.lockTtlMs ?? holdMs,
      graceMs: options.lockGraceMs ?? lockGraceMs,
      waitMs: options.lockWaitMs ?? waitMs,
    }
  }

  get state(): BoardState {
    return this.#log.fold.state()
  }

  sync(): Promise<BoardState> {
    return this.#enqueue(async () => {
      await this.#log.sync()
      return this.state
    })
  }

  write(decide: (state: BoardState) => readonly Draft[]): Promise<readonly TaskEvent[]> {
    return this.#enqueue(async () => {
      const events = await this.#write(decide)
      if (events.length > 0) await this.#snapshotWriter?.afterWrite(this.#log)
      return events
    })
  }

  async close(): Promise<void> {
    await this.#enqueue(async () => {
      this.#closed = true
      try {
        await this.#snapshotWriter?.onClose(this.#log)
      } finally {
        await this.#log.close()
      }
    })
  }

  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(() => {
      if (this.#closed) throw new InvalidInput('the board is closed', { code: 'board_closed' })
      return work()
    })
    // Whoever asked is told by `done`; the next in line must not fail for it.
    this.#queue = done.catch(() => undefined)
    return done
  }

  async #write(decide: (state: BoardState) => readonly Draft[]): Promise<readonly TaskEvent[]> {
    for (let losses = 0; losses < lossesMax; losses += 1) {
      const held = await acquire(this.#folder.locks, this.#log.fold.token, this.#lockOptions, this.#ports)
      try {
        const events = await this.#writeUnder(held, decide)
        if (events !== 'lost') return events
      } finally {
        await held.release()
      }
      this.#ports.log.warn({ token: held.token }, 'the lock was lost before the lines were written: deciding again')
    }
    throw new Retryable('the lock was lost again and again before the lines were written', {
      code: 'lock_lost',
      afterMs: 1_000,
      hint: 'This process is stopped for longer than its lease, or the disk is very slow.',
    })
  }

  async #writeUnder(
    held: Lease,
    decide: (state: BoardState) => readonly Draft[],
  ): Promise<readonly TaskEvent[] | 'lost'> {
    await this.#log.sync()
    // The files of the locks were lost or the number was counted long ago; the log knows a higher one.
    if (this.#log.fold.token >= held.token) return 'lost'
    if (held.mustFence && !(await this.#fence(held))) return 'lost'
    const state = this.state
    const drafts = decide(state)
    if (drafts.length === 0) return []
    const stamp = {
      at: iso(this.#ports.clock.wallMs() / 1_000),
      token: held.token,
      nextId: () => this.#ports.ids.next(),
    }
    const group = prepare(drafts, state, await this.#knownEvents(drafts), stamp)
    if (group.fresh.length === 0) return group.events
    if (held.expired()) return 'lost'
    await this.#log.append(group.bytes)
    return (await this.#allCounted(group)) ? group.events : 'lost'
  }

  /** From here on no line of an earlier holder counts; what it wrote before has been read. */
  async #fence(held: Lease): Promise<boolean> {
    if (held.expired()) return false
    const { clock, ids } = this.#ports
    const draft = {
      taskId: 'board',
      type: 'board_control',
      actor: this.#lockOptions.owner,
      payload: { fence: held.token },
    } as const
    const at = iso(clock.wallMs() / 1_000)
    const event = makeEvent(draft, { at, token: held.token, nextId: () => ids.next() })
    await this.#log.append(Buffer.from(`${JSON.stringify(event)}\n`))
    if (!(await this.#log.has(event.eventId))) return false
    await held.clearBelow()
    return true
  }

  async #knownEvents(drafts: readonly Draft[]): Promise<ReadonlyMap<string, TaskEvent>> {
    const known = new Map<string, TaskEvent>()
    for (const { eventId } of drafts) {
      const event = eventId === undefined ? undefined : await this.#log.find(eventId)
      if (event !== undefined) known.set(event.eventId, event)
    }
    return known
  }

  async #allCounted(group: Group): Promise<boolean> {
    for (const event of group.fresh) if (!(await this.#log.has(event.eventId))) return false
    return true
  }
}
