/**
 * When an open board writes its snapshot: now and then as the log grows, and at the end. Always: a snapshot that cannot be
 * written costs nothing but a warning, because the log is the truth. How it is written is left to snapshot.ts and kept.ts.
 */
import { archiveLive, listArchived } from './snapshot-archive.js'
import type { LockPorts } from '../locks/locks.js'
import type { TaskLog } from '../log.js'
import { dropOldIds } from '../resume-point.js'
import type { TaskRoot } from '../root.js'
import { writeSnapshot } from './snapshot.js'

// A large board writes megabytes each time: only after that many events, and after a part of all of them, so that writing stays
// a small part of the work while what is read at the next opening stays short. A small one is kept fresh for its readers.
const everyEvents = 1_000
const everyPart = 50
const smallTasks = 2_000
const smallEveryMs = 5_000
// Seven copies of the last minute would be no help to anybody.
const archiveEveryMs = 3_600_000

export class SnapshotWriter {
  readonly #root: TaskRoot
  readonly #world: LockPorts
  #eventsThen = -1
  #writtenMs = Number.NEGATIVE_INFINITY

  constructor(root: TaskRoot, world: LockPorts) {
    this.#root = root
    this.#world = world
  }

  async afterWrite(log: TaskLog): Promise<void> {
    const { fold } = log
    // What was read on from a snapshot counts since that snapshot: many short lives write one, too.
    if (this.#eventsThen < 0) this.#eventsThen = Math.min(log.resumedEvents, fold.eventCount - 1)
    const small = fold.tasks().length <= smallTasks
    const due = small && this.#world.clock.monotonicMs() - this.#writtenMs >= smallEveryMs
    if (due || fold.eventCount - this.#eventsThen >= Math.max(everyEvents, fold.eventCount / everyPart))
      await this.#write(log)
  }

  async onClose(log: TaskLog): Promise<void> {
    const { fold } = log
    const small = fold.tasks().length <= smallTasks
    if (small && this.#eventsThen >= 0 && fold.eventCount > this.#eventsThen) await this.#write(log)
  }

  async #write(log: TaskLog): Promise<void> {
    const { disk, clock, ids } = this.#world
    this.#eventsThen = log.fold.eventCount
    this.#writtenMs = clock.monotonicMs()
    try {
      const newest = (await listArchived(this.#root, disk))[0]
      const entry = newest === undefined ? 'missing' : await disk.stat(`${this.#root.state}/${newest.name}`)
      const keep = entry === 'missing' || Math.abs(clock.wallMs() - entry.changedAtMs) >= archiveEveryMs
      if (keep) await archiveLive(this.#root, disk, clock.wallMs())
      const facts = await log.resumeData(ids.next())
      await writeSnapshot(this.#root.snapshot, log, { disk, draftId: ids.next(), facts })
      await dropOldIds(this.#root.state, facts?.ids.file, disk)
    } catch (error) {
      this.#world.log.warn({ err: error }, 'the snapshot could not be written; the log is whole')
    }
  }
}
