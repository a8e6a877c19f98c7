/**
 * An open task root. A write is decided on the newest state, under the lock, with a fencing token above every other, and is
 * acknowledged after fsync and reading it back. If the lease expired before the append, its lines do not count and the write
 * is decided again. Several processes may open one root; writes within a process are queued.
 */
import { basename } from 'node:path'
import { type Clock, defined, type Log } from '@bellwether/base'
import { InvalidInput, Retryable } from '@bellwether/protocol'
import { systemDisk, type Disk } from '../../ports/disk/disk.js'
import { systemMachine, type Machine } from '../../ports/disk/machine.js'
import { watchFolder, type FolderWatch } from '../../ports/disk/watch-folder.js'
import type { Ids } from '../../ports/ids.js'
import { makeEvent, prepare, type Group } from './lines/prepare-events.js'
import { iso, lockGraceMs } from './locks/lock-status.js'
import { acquire, type Lease, type LockPorts } from './locks/locks.js'
import { TaskLog } from './log.js'
import { findRoot, type TaskRoot } from './root.js'
import { SnapshotWriter } from './snapshot/snapshot-writer.js'
import type { Board, BoardChange, BoardState, Draft, TaskEvent, TaskHistory } from './task.js'

export interface BoardOptions {
  readonly root: string
  /** `read`: needs no write permission; nothing is created or changed, and `write` is rejected (H5.3). Default: `write`. */
  readonly access?: 'read' | 'write'
  /** The name in the lock files, for people who read them. */
  readonly owner: string
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Log
  readonly disk?: Disk
  readonly machine?: Machine
  readonly lockTtlMs?: number
  readonly lockGraceMs?: number
  /** How long a write waits for the lock: the timeout of local state (H1.1). */
  readonly lockWaitMs?: number
  /** Whether to write snapshots while the log grows and on close. */
  readonly snapshots?: boolean
  /** For a log of at least this length, snapshots contain what is needed to resume reading from them. */
  readonly resumeMinBytes?: number
}

const waitMs = 3_000
// The lease of one write: much longer than a slow disk needs, and short because others wait for a dead holder.
const holdMs = 10_000
// Each loss means that this process was stopped for a whole lease; after five the machine cannot hold one.
const lossesMax = 5

export async function openBoard(options: BoardOptions): Promise<Board> {
  const { disk = systemDisk, machine = systemMachine, clock, ids, log } = options
  const ports: LockPorts = { disk, machine, clock, ids, log }
  const { access = 'write', resumeMinBytes } = options
  const root = await findRoot(options.root, ports, access === 'read' ? 'existing' : 'create')
  const taskLog = await TaskLog.open(root, { disk, log, access, ...defined({ minBytes: resumeMinBytes }) })
  return new OpenBoard(root, options, ports, taskLog)
}

class OpenBoard implements Board {
  readonly root: string
  readonly #folder: TaskRoot
  readonly #access: 'read' | 'write'
  readonly #lockOptions
  readonly #ports: LockPorts
  readonly #log: TaskLog
  readonly #snapshotWriter: SnapshotWriter | undefined
  readonly #listeners = new Set<(how: BoardChange) => void>()
  #watch: FolderWatch | undefined
  #readQueued = false
  #queue: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(folder: TaskRoot, options: BoardOptions, ports: LockPorts, log: TaskLog) {
    this.root = folder.path
    this.#folder = folder
    this.#ports = ports
    this.#log = log
    this.#access = options.access ?? 'write'
    this.#snapshotWriter = options.snapshots !== false ? new SnapshotWriter(folder, ports) : undefined
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
    return this.#enqueue(() => this.#sync())
  }

  /** Reads what other processes appended, and notifies. */
  async #sync(): Promise<BoardState> {
    const before = this.state
    await this.#log.sync()
    if (this.state !== before) this.#notify('read')
    return this.state
  }

  history(taskId: string, max: number): Promise<TaskHistory> {
    return this.#enqueue(async () => {
      await this.#sync()
      return this.#log.history(taskId, max)
    })
  }

  write(decide: (state: BoardState) => readonly Draft[]): Promise<readonly TaskEvent[]> {
    return this.#enqueue(async () => {
      if (this.#access === 'read')
        throw new InvalidInput('Cannot write to the board: it was opened for reading.', { code: 'read_only' })
      const events = await this.#write(decide)
      if (events.length > 0) this.#notify('written')
      if (events.length > 0) await this.#snapshotWriter?.afterWrite(this.#log)
      return events
    })
  }

  onChange(listener: (how: BoardChange) => void): () => void {
    this.#listeners.add(listener)
    this.#watch ??= this.#watchLog()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#stopWatching()
    }
  }

  #notify(how: BoardChange): void {
    for (const listener of this.#listeners) listener(how)
  }

  #watchLog(): FolderWatch {
    const { state: folder, log: path } = this.#folder
    const { log } = this.#ports
    const onTrouble = (error: unknown) => log.warn({ err: error, path }, 'cannot watch the log; polling instead')
    return watchFolder(folder, () => this.#readSoon(), onTrouble, basename(path))
  }

  /** Reads the log after the work in the queue, once for several changes. After a write of this object there is nothing to read. */
  #readSoon(): void {
    if (this.#readQueued || this.#closed) return
    this.#readQueued = true
    const reading = this.#enqueue(() => {
      this.#readQueued = false
      return this.#sync()
    })
    reading.catch((error: unknown) => {
      this.#readQueued = false
      if (!this.#closed) this.#ports.log.warn({ err: error }, 'cannot read a change of the log; polling instead')
    })
  }

  #stopWatching(): void {
    this.#watch?.close()
    this.#watch = undefined
  }

  async close(): Promise<void> {
    await this.#enqueue(async () => {
      this.#closed = true
      this.#stopWatching()
      try {
        await this.#snapshotWriter?.onClose(this.#log)
      } finally {
        await this.#log.close()
      }
    })
  }

  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(() => {
      if (this.#closed) throw new InvalidInput('The board is closed.', { code: 'board_closed' })
      return work()
    })
    // The caller sees the error through `done`; the next write must not fail because of it.
    this.#queue = done.catch(() => undefined)
    return done
  }

  async #write(decide: (state: BoardState) => readonly Draft[]): Promise<readonly TaskEvent[]> {
    for (let losses = 0; losses < lossesMax; losses += 1) {
      const lease = await acquire(this.#folder.locks, this.#log.fold.token, this.#lockOptions, this.#ports)
      try {
        const events = await this.#writeUnder(lease, decide)
        if (events !== 'lost') return events
      } finally {
        await lease.release()
      }
      this.#ports.log.warn({ token: lease.token }, 'lock lost before the append; deciding again')
    }
    throw new Retryable(`Cannot write to the board: its lock expired ${lossesMax} times before the append.`, {
      code: 'lock_lost',
      afterMs: 1_000,
      hint: 'This process was stopped for longer than its lease, or the disk is very slow. Retry later.',
    })
  }

  async #writeUnder(
    lease: Lease,
    decide: (state: BoardState) => readonly Draft[],
  ): Promise<readonly TaskEvent[] | 'lost'> {
    await this.#sync()
    // The lock files were deleted, or the token is outdated: the log has a higher one.
    if (this.#log.fold.token >= lease.token) return 'lost'
    if (lease.mustFence && !(await this.#fence(lease))) return 'lost'
    const state = this.state
    const drafts = decide(state)
    if (drafts.length === 0) return []
    const stamp = {
      at: iso(this.#ports.clock.wallMs() / 1_000),
      token: lease.token,
      nextId: () => this.#ports.ids.next(),
    }
    const group = prepare(drafts, state, await this.#knownEvents(drafts), stamp)
    if (group.fresh.length === 0) return group.events
    if (lease.expired()) return 'lost'
    await this.#log.append(group.bytes)
    return (await this.#allCounted(group)) ? group.events : 'lost'
  }

  /** After this line no line of an earlier holder counts; everything before it has been read. */
  async #fence(lease: Lease): Promise<boolean> {
    if (lease.expired()) return false
    const { clock, ids } = this.#ports
    const draft = {
      taskId: 'board',
      type: 'board_control',
      actor: this.#lockOptions.owner,
      payload: { fence: lease.token },
    } as const
    const at = iso(clock.wallMs() / 1_000)
    const event = makeEvent(draft, { at, token: lease.token, nextId: () => ids.next() })
    await this.#log.append(Buffer.from(`${JSON.stringify(event)}\n`))
    if (!(await this.#log.has(event.eventId))) return false
    await lease.clearBelow()
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
